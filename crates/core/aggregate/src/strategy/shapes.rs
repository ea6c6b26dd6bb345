//! How many aggregators and rounds a strategy takes where the case does not say.

use crate::case::Case;
use crate::division::Shape;
use crate::domains::{Evenly, cut};
use crate::extents::{bytes, within};
use crate::limits::{AGGREGATORS_MAX, ROUNDS_MAX};

/// The poster's: the fewest aggregators whose memory holds all bytes at once, as a power of two (2^ceil(log2(D / Mem))),
/// but so few that each has a buffer's worth. One round, unless memory cannot hold it.
pub fn poster(case: &Case) -> Shape {
    let total = case.bytes();
    let needed = total.div_ceil(case.buffering.memory_bytes).max(1).next_power_of_two();
    let mut count = needed.min(AGGREGATORS_MAX as u64);
    while count > 1 && total / count < case.buffering.buffer_bytes {
        count /= 2;
    }
    let domains = case.pinned.aggregators.unwrap_or(count as usize);
    with_rounds(case, domains, case.buffering.memory_bytes, Evenly::ByBytes)
}

/// ROMIO's default: one aggregator a node, which writes a buffer a round. `aggregators` is its `cb_nodes`.
pub fn romio(case: &Case) -> Shape {
    let most = case.hosts().len().min(AGGREGATORS_MAX);
    let domains = case.pinned.aggregators.unwrap_or(most).min(most);
    with_rounds(case, domains, case.buffering.buffer_bytes, Evenly::ByOffset)
}

/// Shapes that joint placement tries: as many aggregators as the poster has, or one, two or four for each I/O node, no more
/// than nodes; as few rounds as memory allows, or two, four or eight times as many as buffers do.
pub fn free(case: &Case) -> Vec<Shape> {
    let one = poster(case);
    let per_io_node = [1, 2, 4].map(|each| case.io_nodes.len() * each);
    let most = case.hosts().len().min(AGGREGATORS_MAX);
    let mut counts = vec![one.domains];
    if case.pinned.aggregators.is_none() {
        counts.extend(per_io_node.into_iter().filter(|count| *count <= most));
    }
    let mut shapes = vec![];
    for domains in counts {
        let fewest = with_rounds(case, domains, case.buffering.memory_bytes, Evenly::ByBytes);
        let by_buffer = with_rounds(case, domains, case.buffering.buffer_bytes, Evenly::ByBytes).rounds;
        let stripes = (case.bytes() / domains as u64).div_ceil(case.stripe_bytes);
        let more = [2, 4, 8].map(|times| by_buffer * times);
        let useful = |rounds: &usize| *rounds <= ROUNDS_MAX && *rounds as u64 <= stripes;
        let more = more.into_iter().filter(|rounds| case.pinned.rounds.is_none() && useful(rounds));
        shapes.extend(std::iter::once(fewest.rounds).chain(more).map(|rounds| Shape { rounds, ..fewest }));
    }
    let mut distinct: Vec<Shape> = vec![];
    shapes.into_iter().for_each(|shape| distinct.extend((!distinct.contains(&shape)).then_some(shape)));
    distinct
}

/// As many rounds as the largest domain needs if one may have `room_bytes`.
pub fn with_rounds(case: &Case, domains: usize, room_bytes: u64, evenly: Evenly) -> Shape {
    let rounds = case.pinned.rounds.unwrap_or_else(|| {
        let spans = cut(&case.union, domains, case.stripe_bytes, evenly);
        let largest = spans.into_iter().map(|span| bytes(&within(&case.union, span))).max().unwrap_or(0);
        (largest.div_ceil(room_bytes).max(1)).min(ROUNDS_MAX as u64) as usize
    });
    Shape { domains, rounds, evenly }
}
