//! Nodes shared by these tests.

use std::time::Duration;

use forebay_overlay::Forest;
use forebay_read::Options;
use forebay_types::NodeRank;

/// A node of a job with one tree of fan-out 2, that prefetches nothing.
pub fn options(rank: u32, nodes: u32) -> Options {
    Options {
        rank: NodeRank(rank),
        forest: Forest::single(nodes, 2).unwrap(),
        budget_bytes: 64 << 20,
        deadline: Duration::from_secs(30),
        direct_above_bytes: None,
        prefetch: false,
        entry_ttl: None,
        links: None,
    }
}
