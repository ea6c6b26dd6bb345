//! Joint placement: every aggregator sees what all others do to the network and to the I/O nodes.
//!
//! From each simple placement: even out the I/O nodes (`balance`), then move one aggregator at a time to where all links
//! together are loaded least (`descent`), until none moves. Loads are a proxy that costs microseconds; the flow model then
//! says which of the placements found takes least time.

mod balance;
mod candidates;
mod descent;
mod loads;

use crate::case::Case;
use crate::division::Division;
use crate::seat::Seat;

use balance::Market;
use candidates::Candidates;
use loads::Loads;

/// Better placements than `starts`, by the loads of links and I/O nodes, one for each.
#[must_use]
pub fn refine(case: &Case, division: &Division, starts: &[Vec<Seat>]) -> Vec<Vec<Seat>> {
    let mut candidates = Candidates::of(case, division);
    let refined = starts.iter().map(|start| {
        let mut chosen = candidates.choices(case, division, start);
        let market = Market { case, division, candidates: &candidates };
        market.even_out(&mut chosen);
        market.shorten(&mut chosen);
        let mut loads = Loads::new(case, division.rounds > 1);
        descent::descend(case, division, &candidates, &mut chosen, &mut loads);
        candidates.seats(&chosen)
    });
    refined.collect()
}
