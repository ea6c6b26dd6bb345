//! Large files by stripes: who writes which, and that each is written whatever fails.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{LogPosition, NodeRank};
use forebay_wire::write::WrittenExtent;
use forebay_write::stripes::{STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, of_stripe, stripe_bytes, weights};
use forebay_write::{NextStripe, Stripes};
use proptest::prelude::*;

const STRIPE: u64 = STRIPE_BYTES_MIN;
const OWN: NodeRank = NodeRank(0);

fn extent(node: u32, offset: u64, len: u64) -> WrittenExtent {
    WrittenExtent { offset, len, node: NodeRank(node), position: LogPosition { segment: 1, offset: 0 }, skip: 0 }
}

/// A file that nodes have written in turns, `len` bytes each time.
fn strided(nodes: u32, len: u64, bytes: u64) -> Vec<WrittenExtent> {
    let turns = 0..bytes / len;
    turns.map(|turn| extent((turn % u64::from(nodes)) as u32, turn * len, len)).collect()
}

/// How many stripes each node writes, if none fails.
fn shares(extents: &[WrittenExtent]) -> BTreeMap<NodeRank, usize> {
    let mut stripes = Stripes::new(&weights(extents, STRIPE), STRIPE, &BTreeSet::new(), OWN);
    let mut shares = BTreeMap::new();
    while let NextStripe::Write { stripe, node } = stripes.next_stripe() {
        *shares.entry(node).or_default() += 1;
        stripes.verified(stripe);
    }
    shares
}

#[test]
fn nodes_that_have_written_in_turns_have_as_much_to_do() {
    let of = |nodes: u32, each: usize| (0..nodes).map(|node| (NodeRank(node), each)).collect::<BTreeMap<_, _>>();
    assert_eq!(shares(&strided(4, 64 << 10, 24 * STRIPE)), of(4, 6));
    assert_eq!(shares(&strided(3, 1 << 20, 9 * STRIPE)), of(3, 3));
    // More than the planner looks at.
    assert_eq!(shares(&strided(2048, 64 << 10, 128 * STRIPE)).values().max(), Some(&1));
}

#[test]
fn the_only_rank_with_a_part_of_the_file_writes_it() {
    let segments: Vec<_> = (0..4).map(|node| extent(3 - node, u64::from(node) * 5 * STRIPE, 5 * STRIPE)).collect();
    assert_eq!(shares(&segments), (0..4).map(|node| (NodeRank(node), 5)).collect());
    assert_eq!(shares(&[extent(7, 0, 10 * STRIPE)]), BTreeMap::from([(NodeRank(7), 10)]));
}

#[test]
fn stripes_grow_with_the_file_within_limits() {
    let of = |bytes: u64, nodes: u32| stripe_bytes(&strided(nodes, bytes / u64::from(nodes), bytes), 4096);
    assert_eq!([of(96 << 20, 4), of(1 << 30, 4), of(1 << 40, 4)], [4 << 20, 64 << 20, STRIPE_BYTES_MAX]);
    assert_eq!(of(32 << 20, 1), 8 << 20);
    assert_eq!(stripe_bytes(&strided(4, 8 << 20, 32 << 20), 16 << 20), 16 << 20, "no smaller than the file system's");
}

proptest! {
    #[test]
    fn each_stripe_is_written_once_by_one_that_has_some_of_the_file(
        lengths in prop::collection::vec((0..5_u32, 1..3 * STRIPE, 0..STRIPE), 1..40),
        done in prop::collection::btree_set(0..20_u64, 0..10),
        fates in prop::collection::vec(0..12_u8, 400),
    ) {
        let mut at = 0;
        let extents: Vec<_> = lengths.into_iter().map(|(node, len, hole)| {
            let extent = extent(node, at, len);
            at += len + hole;
            extent
        }).collect();
        let weights = weights(&extents, STRIPE);
        let bytes: u64 = extents.iter().map(|extent| extent.len).sum();
        prop_assert_eq!(weights.values().flat_map(|nodes| nodes.values()).sum::<u64>(), bytes);
        for (stripe, nodes) in &weights {
            let of_stripe = of_stripe(&extents, *stripe, STRIPE);
            prop_assert_eq!(of_stripe.iter().map(|extent| extent.len).sum::<u64>(), nodes.values().sum::<u64>());
            prop_assert!(of_stripe.iter().all(|extent| extent.offset / STRIPE == *stripe));
        }
        let mut stripes = Stripes::new(&weights, STRIPE, &done, OWN);
        let (mut under_way, mut written, mut failed) = (vec![], BTreeSet::new(), BTreeSet::new());
        let mut fates = fates.into_iter().chain(std::iter::repeat(0));
        loop {
            match stripes.next_stripe() {
                NextStripe::Write { stripe, node } => {
                    prop_assert!(node == OWN || weights.values().any(|nodes| nodes.contains_key(&node)));
                    prop_assert!(!failed.contains(&node) || node == OWN, "who has failed is not asked again");
                    under_way.push((stripe, node));
                    prop_assert!(under_way.iter().filter(|(_, by)| *by == node).count() <= 2);
                    continue;
                }
                NextStripe::Wait => prop_assert!(!under_way.is_empty()),
                NextStripe::Over => break,
            }
            // One ends, now and then badly.
            let fate = fates.next().unwrap();
            let (stripe, node) = under_way.remove(usize::from(fate) % under_way.len());
            if fate == 11 && node != OWN {
                prop_assert!(stripes.failed(stripe));
                failed.insert(node);
            } else {
                stripes.verified(stripe);
                prop_assert!(written.insert(stripe), "twice");
            }
        }
        let wanted: BTreeSet<u64> = weights.keys().copied().filter(|stripe| !done.contains(stripe)).collect();
        prop_assert_eq!(written, wanted);
    }
}

/// Stripes that the leader itself cannot write are not tried for ever.
#[test]
fn the_leader_that_fails_is_told_so() {
    let mut stripes = Stripes::new(&weights(&strided(2, STRIPE, 4 * STRIPE), STRIPE), STRIPE, &BTreeSet::new(), OWN);
    let mut failures = vec![];
    while let NextStripe::Write { stripe, node } = stripes.next_stripe() {
        failures.push((node, stripes.failed(stripe)));
        if !failures.last().unwrap().1 {
            break;
        }
    }
    assert!(failures.iter().all(|(node, goes_on)| *goes_on == (*node != OWN)) && failures.len() < 4, "{failures:?}");
}

#[test]
fn a_node_that_is_left_out_writes_nothing_and_the_leader_does() {
    let extents = strided(4, 64 << 10, 24 * STRIPE);
    let mut stripes = Stripes::new(&weights(&extents, STRIPE), STRIPE, &BTreeSet::new(), OWN);
    stripes.leave_out(NodeRank(2));
    let mut shares: BTreeMap<NodeRank, usize> = BTreeMap::new();
    while let NextStripe::Write { stripe, node } = stripes.next_stripe() {
        *shares.entry(node).or_default() += 1;
        stripes.verified(stripe);
    }
    assert_eq!(shares, BTreeMap::from([(NodeRank(0), 12), (NodeRank(1), 6), (NodeRank(3), 6)]));
}
