//! The division of a file before its aggregators are known: domains and windows, and the bytes of each that ranks have.
//!
//! A division depends on how many aggregators and rounds there are, and not on where the aggregators are, so all
//! placements of one count share it. Ranks of one node that have as much of a window are alike for the network: they are
//! counted, not listed.

use crate::case::Case;
use crate::domains::{Evenly, cut};
use crate::error::PlanError;
use crate::extents::{Extent, bytes, within};
use crate::limits::PARTS_MAX;

/// A file cut into domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Division {
    /// In the order of the file.
    pub domains: Vec<Domain>,
    /// Windows of every domain.
    pub rounds: usize,
}

/// The part of the file that one aggregator writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// The bytes that somebody has.
    pub extents: Vec<Extent>,
    /// How many they are.
    pub bytes: u64,
    /// One a round; the last ones are empty where there are fewer stripes than rounds.
    pub windows: Vec<Window>,
    /// Nodes with bytes of the domain, by their first rank with any.
    pub holders: Vec<Holder>,
    /// The rank with most bytes, the first of several.
    pub largest_rank: usize,
    /// The rank with fewest bytes, but some, the first of several.
    pub smallest_rank: usize,
}

/// The part of a domain that one round takes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Where it begins and ends.
    pub span: Extent,
    /// Bytes of the file in it.
    pub bytes: u64,
    /// The ranks that send to its aggregator, by node, then by bytes.
    pub senders: Vec<Sender>,
}

/// Ranks of one node that have as many bytes of a window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sender {
    /// Their node.
    pub node: usize,
    /// Bytes of each.
    pub bytes: u64,
    /// How many they are.
    pub ranks: u32,
}

/// A node with bytes of a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The node.
    pub node: usize,
    /// Its first rank with any: the one that would aggregate there.
    pub rank: usize,
    /// Bytes of all its ranks.
    pub bytes: u64,
    /// Bytes of the rank with most.
    pub rank_bytes_most: u64,
}

impl Domain {
    /// Whether a node has bytes of the domain.
    #[must_use]
    pub fn is_held_by(&self, node: usize) -> bool {
        self.holders.iter().any(|holder| holder.node == node)
    }
}

/// How a file is to be divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Domains, at most.
    pub domains: usize,
    /// Windows of each.
    pub rounds: usize,
    /// The measure by which domains are even; windows always by bytes.
    pub evenly: Evenly,
}

/// The part of a window that a rank has.
#[derive(Clone, Copy)]
struct Part {
    window: u32,
    rank: u32,
    bytes: u64,
}

impl Division {
    /// Divides the file of a case.
    ///
    /// # Errors
    /// `PlanError` if it falls into more parts than can be kept.
    pub fn new(case: &Case, shape: Shape) -> Result<Self, PlanError> {
        let spans = cut(&case.union, shape.domains, case.stripe_bytes, shape.evenly);
        let mut domains: Vec<Domain> =
            spans.into_iter().map(|span| domain(within(&case.union, span), shape.rounds, case.stripe_bytes)).collect();
        let parts = parts(case, &domains, shape.rounds)?;
        let mut rest = parts.as_slice();
        for (index, domain) in domains.iter_mut().enumerate() {
            let end = ((index + 1) * shape.rounds) as u32;
            let (own, others) = rest.split_at(rest.partition_point(|part| part.window < end));
            rest = others;
            fill(case, domain, own, index * shape.rounds);
        }
        Ok(Self { domains, rounds: shape.rounds })
    }
}

fn domain(extents: Vec<Extent>, rounds: usize, stripe_bytes: u64) -> Domain {
    let spans = cut(&extents, rounds, stripe_bytes, Evenly::ByBytes);
    let mut windows: Vec<Window> =
        spans.into_iter().map(|span| Window { span, bytes: bytes(&within(&extents, span)), senders: vec![] }).collect();
    let end = Extent { offset: extents.last().map_or(0, |last| last.end()), len: 0 };
    windows.resize(rounds, Window { span: end, ..Window::default() });
    Domain { bytes: bytes(&extents), extents, windows, holders: vec![], largest_rank: 0, smallest_rank: 0 }
}

/// The parts of each window that ranks have, sorted by window, then by rank. Windows are numbered over all domains.
fn parts(case: &Case, domains: &[Domain], rounds: usize) -> Result<Vec<Part>, PlanError> {
    let windows = domains.iter().enumerate().flat_map(|(index, domain)| {
        let spans = domain.windows.iter().enumerate().filter(|(_, window)| window.bytes > 0);
        spans.map(move |(round, window)| (window.span, (index * rounds + round) as u32))
    });
    let windows: Vec<(Extent, u32)> = windows.collect();
    let mut parts: Vec<Part> = Vec::new();
    for rank in 0..case.rank_count() {
        let of_rank = parts.len();
        for extent in case.extents_of(rank) {
            let first = windows.partition_point(|(span, _)| span.end() <= extent.offset);
            for (span, window) in windows[first..].iter().take_while(|(span, _)| span.offset < extent.end()) {
                let bytes = extent.and(*span).len;
                match parts[of_rank..].last_mut() {
                    Some(last) if last.window == *window => last.bytes += bytes,
                    _ => parts.push(Part { window: *window, rank: rank as u32, bytes }),
                }
            }
        }
        if parts.len() > PARTS_MAX {
            return Err(PlanError::TooManyParts { ranks: case.rank_count(), max: PARTS_MAX });
        }
    }
    // Stable: ranks of a window stay in order.
    parts.sort_by_key(|part| part.window);
    Ok(parts)
}

fn fill(case: &Case, domain: &mut Domain, parts: &[Part], first_window: usize) {
    for of_window in parts.chunk_by(|left, right| left.window == right.window) {
        let sender = |part: &Part| Sender { node: case.node_of(part.rank as usize), bytes: part.bytes, ranks: 1 };
        let mut senders: Vec<Sender> = of_window.iter().map(sender).collect();
        senders.sort_unstable();
        senders.dedup_by(|next, kept| {
            let alike = (next.node, next.bytes) == (kept.node, kept.bytes);
            kept.ranks += if alike { next.ranks } else { 0 };
            alike
        });
        domain.windows[of_window[0].window as usize - first_window].senders = senders;
    }
    let mut by_rank: Vec<(u32, u64)> = parts.iter().map(|part| (part.rank, part.bytes)).collect();
    by_rank.sort_by_key(|(rank, _)| *rank);
    by_rank.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0 };
        same
    });
    let extreme = |better: fn(u64, u64) -> bool| {
        let first = by_rank.iter().copied().reduce(|best, next| if better(next.1, best.1) { next } else { best });
        first.map_or(0, |(rank, _)| rank as usize)
    };
    domain.largest_rank = extreme(|next, best| next > best);
    domain.smallest_rank = extreme(|next, best| next < best);
    domain.holders = holders(case, &by_rank);
}

/// The nodes of these ranks, by their first rank.
fn holders(case: &Case, by_rank: &[(u32, u64)]) -> Vec<Holder> {
    let each = by_rank.iter().map(|&(rank, bytes)| {
        let rank = rank as usize;
        Holder { node: case.node_of(rank), rank, bytes, rank_bytes_most: bytes }
    });
    let mut holders: Vec<Holder> = each.collect();
    holders.sort_by_key(|holder| (holder.node, holder.rank));
    holders.dedup_by(|next, kept| {
        let same = next.node == kept.node;
        if same {
            kept.bytes += next.bytes;
            kept.rank_bytes_most = kept.rank_bytes_most.max(next.rank_bytes_most);
        }
        same
    });
    holders.sort_by_key(|holder| holder.rank);
    holders
}
