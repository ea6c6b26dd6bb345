//! Moving an aggregator of the I/O node that ends last, by the flow model itself.
//!
//! Loads say nothing about when a link is busy. So the placement is simulated, and for the I/O node that ends last each of its
//! domains is tried at its other candidates of that I/O node, nearest first; what makes I/O nodes end earlier is kept.
//! When nothing helps the last one, the one that ends before it is tried, and so on while simulations are left.

use std::collections::BTreeSet;

use crate::case::Case;
use crate::division::Division;
use crate::flow::simulate;

use super::candidates::Candidates;

/// Flows of all simulations together: a quarter of a second.
const FLOWS_MAX: usize = 1 << 16;

/// Simulations of the largest and of the smallest cases.
const SIMULATIONS: std::ops::RangeInclusive<usize> = 2..=64;

/// Ends that exceed the floor by less, relatively, are not worth a simulation.
const NEAR: f64 = 1e-3;

/// The power by which late ends count for more than early ones: near to counting the last one alone.
const LATENESS: i32 = 32;

/// Changes choices where the flow model says that I/O nodes end earlier for it.
pub fn polish(case: &Case, division: &Division, candidates: &Candidates, chosen: &mut [usize]) {
    let flows: usize =
        division.domains.iter().flat_map(|domain| &domain.windows).map(|window| window.senders.len()).sum();
    let simulations = (FLOWS_MAX / flows.max(1)).clamp(*SIMULATIONS.start(), *SIMULATIONS.end());
    let mut tried: BTreeSet<(usize, usize)> = BTreeSet::new();
    let ends = |chosen: &[usize]| simulate(case, division, &candidates.seats(chosen)).io_ends_s;
    let mut now = ends(chosen);
    for _ in 0..simulations {
        if now.iter().all(|end| *end <= case.io_floor_s() * (1.0 + NEAR)) {
            return;
        }
        let Some((domain, choice)) = next_move(candidates, chosen, &now, &mut tried) else { return };
        let before = std::mem::replace(&mut chosen[domain], choice);
        let moved = ends(chosen);
        if lateness(&moved, case.io_floor_s()) < lateness(&now, case.io_floor_s()) {
            now = moved;
        } else {
            chosen[domain] = before;
        }
    }
}

/// How late the I/O nodes end altogether.
fn lateness(ends_s: &[f64], floor_s: f64) -> f64 {
    ends_s.iter().map(|end| (end / floor_s).powi(LATENESS)).sum()
}

/// The next move that was not tried, of the I/O node that ends last first.
fn next_move(
    candidates: &Candidates,
    chosen: &[usize],
    ends_s: &[f64],
    tried: &mut BTreeSet<(usize, usize)>,
) -> Option<(usize, usize)> {
    let mut latest: Vec<usize> = (0..ends_s.len()).filter(|io| ends_s[*io] > 0.0).collect();
    latest.sort_by(|left, right| ends_s[*right].total_cmp(&ends_s[*left]));
    for io in latest {
        let of_io = (0..chosen.len()).filter(|domain| candidates.of_domain(*domain)[chosen[*domain]].io == io);
        let moves = of_io.flat_map(|domain| {
            let of_domain = candidates.of_domain(domain).iter().enumerate();
            let others = of_domain.filter(move |(choice, other)| other.io == io && *choice != chosen[domain]);
            others.map(move |(choice, other)| (other.comes_s, domain, choice))
        });
        let untried = moves.filter(|(_, domain, choice)| !tried.contains(&(*domain, *choice)));
        let nearest =
            untried.min_by(|left, right| left.0.total_cmp(&right.0).then((left.1, left.2).cmp(&(right.1, right.2))));
        if let Some((_, domain, choice)) = nearest {
            tried.insert((domain, choice));
            return Some((domain, choice));
        }
    }
    None
}
