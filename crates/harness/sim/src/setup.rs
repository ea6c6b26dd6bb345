//! How a job is set up.

use std::time::Duration;

/// The time limit of every request.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// How much later than that a request may be answered: the daemon's grace and its tick.
pub const GRACE: Duration = Duration::from_millis(700);

/// How a job is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of roots.
    pub roots: u32,
    /// Fan-out of the trees of directories.
    pub fan_out: u32,
    /// Fan-out of the trees of stripes.
    pub stripe_fan_out: u32,
    /// Whether every node is home of a share of the large files.
    pub has_homes: bool,
    /// Chunks of a large file in a row that one tree serves.
    pub row_chunks: u64,
    /// Whether every node has a cache store.
    pub has_cache_stores: bool,
    /// Memory for caches at each node.
    pub budget_bytes: u64,
    /// Operations at the backing file system at a time, by each node.
    pub turns: usize,
    /// Whether contents come ahead, in parcels.
    pub prefill: bool,
    /// How long names are believed; for ever if not given.
    pub revalidate: Option<Duration>,
    /// Files above this size are read by each node itself.
    pub direct_above_bytes: Option<u64>,
    /// Whether to write down what happens.
    pub log: bool,
}

impl Default for Setup {
    /// A chain of one node, with room for everything.
    fn default() -> Self {
        Self {
            nodes: 1,
            roots: 1,
            fan_out: 1,
            stripe_fan_out: 1,
            has_homes: false,
            row_chunks: 1,
            has_cache_stores: false,
            budget_bytes: 512 << 20,
            turns: usize::MAX,
            prefill: false,
            revalidate: None,
            direct_above_bytes: None,
            log: false,
        }
    }
}
