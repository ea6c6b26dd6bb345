//! Placements that look at one thing each: the controls that every other strategy must beat.

use crate::case::Case;
use crate::division::{Division, Domain, Holder};
use crate::seat::Seat;

/// The first rank with bytes of the domain.
pub fn first(_: &Case, division: &Division) -> Vec<Seat> {
    division.domains.iter().filter_map(|domain| domain.holders.first()).map(seat).collect()
}

/// The rank that is nearest to its I/O node, the first of several.
pub fn nearest(case: &Case, division: &Division) -> Vec<Seat> {
    let hops = |node| case.network.hop_count(node, case.io_nodes[case.io_of(node)].node);
    let nearest =
        |domain: &Domain| domain.holders.iter().min_by_key(|holder| (hops(holder.node), holder.rank)).map(seat);
    division.domains.iter().filter_map(nearest).collect()
}

/// The rank with most bytes of the domain.
pub fn largest(case: &Case, division: &Division) -> Vec<Seat> {
    division.domains.iter().map(|domain| of_rank(case, domain.largest_rank)).collect()
}

/// The rank with fewest bytes of the domain.
pub fn smallest(case: &Case, division: &Division) -> Vec<Seat> {
    division.domains.iter().map(|domain| of_rank(case, domain.smallest_rank)).collect()
}

/// ROMIO's default: the first rank of each node, nodes in the order of their ranks, whoever has the domain's bytes.
pub fn romio(case: &Case, division: &Division) -> Vec<Seat> {
    let mut hosts = case.hosts();
    hosts.truncate(division.domains.len());
    hosts
}

/// Greedy balance: domain by domain, the rank whose I/O node has least to do with it, then the nearest to that, then the first.
pub fn balanced(case: &Case, division: &Division) -> Vec<Seat> {
    let mut loads = vec![0u64; case.io_nodes.len()];
    let mut seats = Vec::with_capacity(division.domains.len());
    for domain in &division.domains {
        let seconds = |io: usize| (loads[io] + domain.bytes) as f64 / case.io_nodes[io].bytes_per_s;
        let best = domain.holders.iter().min_by(|left, right| {
            let of = |node: usize| {
                let io = case.io_of(node);
                (seconds(io), case.network.hop_count(node, case.io_nodes[io].node))
            };
            let (left_s, left_hops) = of(left.node);
            let (right_s, right_hops) = of(right.node);
            left_s.total_cmp(&right_s).then(left_hops.cmp(&right_hops)).then(left.rank.cmp(&right.rank))
        });
        if let Some(holder) = best {
            loads[case.io_of(holder.node)] += domain.bytes;
            seats.push(seat(holder));
        }
    }
    seats
}

/// Where a node would aggregate: at its first rank with bytes of the domain.
fn seat(holder: &Holder) -> Seat {
    Seat::new(holder.rank, holder.node)
}

fn of_rank(case: &Case, rank: usize) -> Seat {
    Seat::new(rank, case.node_of(rank))
}
