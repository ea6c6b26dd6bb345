//! Moving one aggregator at a time to where all links and I/O nodes together are loaded least, until none moves.

use crate::case::Case;
use crate::division::Division;

use super::candidates::Candidates;
use super::loads::Loads;

/// Sweeps over all domains. Most cases need three or four; what a later one finds is worth nothing any more.
const SWEEPS_MAX: usize = 8;

/// Moves that change the cost by less, relatively, are none: sums of floating-point numbers differ by as much.
const WORTHWHILE: f64 = 1e-9;

/// Changes choices until no single one makes the loads' cost less.
pub fn descend(case: &Case, division: &Division, candidates: &Candidates, chosen: &mut [usize], loads: &mut Loads) {
    for (domain, choice) in chosen.iter().enumerate() {
        loads.add(case, &division.domains[domain], candidates.of_domain(domain)[*choice].seat, 1.0);
    }
    for _ in 0..SWEEPS_MAX {
        let moves =
            (0..chosen.len()).filter(|domain| improve(case, division, candidates, (*domain, &mut *chosen), loads));
        if moves.count() == 0 {
            return;
        }
    }
}

/// Moves one aggregator to its best place. Whether that is another one.
fn improve(
    case: &Case,
    division: &Division,
    candidates: &Candidates,
    (index, chosen): (usize, &mut [usize]),
    loads: &mut Loads,
) -> bool {
    let domain = &division.domains[index];
    let of_domain = candidates.of_domain(index);
    let now = chosen[index];
    loads.add(case, domain, of_domain[now].seat, -1.0);
    let mut cost = |choice: usize| {
        let cost = loads.add(case, domain, of_domain[choice].seat, 1.0);
        loads.add(case, domain, of_domain[choice].seat, -1.0);
        cost
    };
    let (mut best, mut best_cost) = (now, cost(now) * (1.0 - WORTHWHILE));
    let same_io = |choice: &usize| of_domain[*choice].io == of_domain[now].io;
    for choice in (0..of_domain.len()).filter(|choice| *choice != now).filter(same_io) {
        let cost = cost(choice);
        if cost < best_cost {
            (best, best_cost) = (choice, cost);
        }
    }
    loads.add(case, domain, of_domain[best].seat, 1.0);
    chosen[index] = best;
    best != now
}
