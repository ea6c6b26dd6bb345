//! Joint placement: every aggregator sees what all others do to the network and to the I/O nodes.
//!
//! Which shapes are worth a look comes first (`shapes::free`), tried with the greedy balance. For the most promising one
//! placements are refined: even out the I/O nodes and let each domain go where it comes soonest (`balance`), then move one
//! aggregator at a time to where all links together are loaded least (`descent`). Loads are a proxy that costs
//! microseconds; the flow model then moves what ends last (`polish`), and says which of all placements met takes least time. The simple ones that joint placement is
//! compared with are among them, so it is never worse.

mod balance;
mod candidates;
mod descent;
mod loads;
mod polish;

use std::rc::Rc;

use super::{poster, shapes, single};
use crate::case::Case;
use crate::division::{Division, Shape};
use crate::divisions::Divisions;
use crate::error::PlanError;
use crate::flow::simulate;
use crate::seat::Seat;

use balance::Market;
use candidates::Candidates;
use loads::Loads;

/// The gain that a refined placement must have, relatively: a simpler one that takes as long is as good.
const WORTHWHILE: f64 = 1e-6;

/// The best placement met so far.
struct Best<'c> {
    case: &'c Case,
    total_s: f64,
    found: Option<(Rc<Division>, Vec<Seat>)>,
}

impl Best<'_> {
    /// How long a placement takes; it is kept if it takes less than the best so far by this part.
    fn meet(&mut self, division: &Rc<Division>, seats: Vec<Seat>, by: f64) -> f64 {
        let total_s = simulate(self.case, division, &seats).total_s;
        if self.found.is_none() || total_s < self.total_s * (1.0 - by) {
            self.total_s = total_s;
            self.found = Some((Rc::clone(division), seats));
        }
        total_s
    }
}

/// A division of the file, and a seat for each of its domains.
///
/// # Errors
/// `PlanError` if the ranks' data fall into too many parts.
pub fn choose(divisions: &mut Divisions<'_>) -> Result<(Rc<Division>, Vec<Seat>), PlanError> {
    let case = divisions.case;
    let simple = divisions.of(shapes::poster(case))?;
    let mut best = Best { case, total_s: f64::INFINITY, found: None };
    for place in [single::first, single::nearest, poster::place] {
        best.meet(&simple, place(case, &simple), 0.0);
    }
    let mut promising: Option<(f64, Shape)> = None;
    for shape in shapes::free(case) {
        let division = divisions.of(shape)?;
        let seats = single::balanced(case, &division);
        let total_s = best.meet(&division, seats, 0.0);
        if promising.is_none_or(|(least, _)| total_s < least) {
            promising = Some((total_s, shape));
        }
    }
    if let Some((_, shape)) = promising {
        let division = divisions.of(shape)?;
        refine(&mut best, &division);
    }
    match best.found {
        Some(found) => Ok(found),
        None => Ok((simple, vec![])),
    }
}

/// Placements by the loads of links and I/O nodes, one from that of C1 + C2 and one from the greedy balance; the better of
/// them polished by the flow model itself.
fn refine(best: &mut Best<'_>, division: &Rc<Division>) {
    let case = best.case;
    let mut candidates = Candidates::of(case, division);
    let starts = [poster::place(case, division), single::balanced(case, division)];
    let refined = starts.map(|start| {
        let mut chosen = candidates.choices(case, division, &start);
        let market = Market { case, division, candidates: &candidates };
        market.even_out(&mut chosen);
        market.shorten(&mut chosen);
        let mut loads = Loads::new(case, division.rounds > 1);
        descent::descend(case, division, &candidates, &mut chosen, &mut loads);
        (best.meet(division, candidates.seats(&chosen), WORTHWHILE), chosen)
    });
    let [left, right] = refined;
    let (_, mut chosen) = if right.0 < left.0 { right } else { left };
    polish::polish(case, division, &candidates, &mut chosen);
    best.meet(division, candidates.seats(&chosen), WORTHWHILE);
}
