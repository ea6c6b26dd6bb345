//! The poster's placement: each aggregator where C1 + C2 is least, among the ranks with bytes of its domain.
//!
//! Each by itself: none knows of the others. Of equal ones the lowest rank.

use crate::case::Case;
use crate::division::{Division, Domain};
use crate::formula::{from_holder, to_io_node};
use crate::seat::Seat;

/// A seat for every domain.
pub fn place(case: &Case, division: &Division) -> Vec<Seat> {
    division.domains.iter().map(|domain| cheapest(case, domain)).collect()
}

/// The holder with the least C1 + C2. A candidate is given up as soon as one of its ranks makes it dearer than the best; the
/// rank that did so is asked first of the next candidate.
fn cheapest(case: &Case, domain: &Domain) -> Seat {
    let (mut best, mut best_s) = (Seat::new(0, 0), f64::INFINITY);
    let mut order: Vec<usize> = (0..domain.holders.len()).collect();
    for candidate in &domain.holders {
        let c2 = to_io_node(case, domain.bytes, candidate.node);
        let mut c1: f64 = 0.0;
        let dearer = order.iter().position(|index| {
            c1 = c1.max(from_holder(case, &domain.holders[*index], candidate.node));
            c1 + c2 >= best_s
        });
        match dearer {
            Some(place) => order.swap(0, place),
            None => (best, best_s) = (Seat::new(candidate.rank, candidate.node), c1 + c2),
        }
    }
    best
}
