//! All strategies for one case, and the best of them by the flow model.

use crate::case::Case;
use crate::divisions::Divisions;
use crate::error::PlanError;
use crate::plan::Plan;
use crate::strategy::Strategy;

/// The plans of all strategies.
#[derive(Clone, PartialEq, Debug)]
pub struct Portfolio {
    plans: Vec<Plan>,
}

/// Plans by one strategy.
///
/// # Errors
/// `PlanError` if the ranks' data fall into too many parts.
pub fn plan(case: &Case, strategy: Strategy) -> Result<Plan, PlanError> {
    by(&mut Divisions::new(case), strategy)
}

/// Plans by every strategy.
///
/// # Errors
/// `PlanError` if the ranks' data fall into too many parts.
pub fn plan_all(case: &Case) -> Result<Portfolio, PlanError> {
    let mut divisions = Divisions::new(case);
    let plans = Strategy::ALL.into_iter().map(|strategy| by(&mut divisions, strategy)).collect::<Result<_, _>>()?;
    Ok(Portfolio { plans })
}

/// The plan that takes least time by the flow model.
///
/// # Errors
/// `PlanError` if the ranks' data fall into too many parts.
pub fn plan_best(case: &Case) -> Result<Plan, PlanError> {
    Ok(plan_all(case)?.into_best())
}

fn by(divisions: &mut Divisions<'_>, strategy: Strategy) -> Result<Plan, PlanError> {
    let (division, seats) = strategy.choose(divisions)?;
    Ok(Plan::new(divisions.case, strategy, &division, &seats))
}

impl Portfolio {
    /// All plans, simple strategies first.
    #[must_use]
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// The plan that takes least time, the simplest of equals.
    #[must_use]
    pub fn best(&self) -> &Plan {
        &self.plans[self.best_place()]
    }

    fn into_best(mut self) -> Plan {
        self.plans.swap_remove(self.best_place())
    }

    fn best_place(&self) -> usize {
        let total_s = |place: &usize| self.plans[*place].predicted.total_s;
        // `min_by` gives the first of equals.
        (0..self.plans.len()).min_by(|left, right| total_s(left).total_cmp(&total_s(right))).unwrap_or(0)
    }
}
