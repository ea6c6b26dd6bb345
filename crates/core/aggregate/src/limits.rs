//! Limits of a case, each with its reason. A case above one is refused by name before any computation.

/// Ranks of a job: 64 on each of 65,536 nodes.
pub const RANKS_MAX: usize = 1 << 22;

/// Extents of all ranks together: 256 MiB of them in memory.
pub const EXTENTS_MAX: usize = 1 << 24;

/// I/O nodes: one for each 16 nodes of the largest job.
pub const IO_NODES_MAX: usize = 1 << 16;

/// Aggregators: more than one a node of the largest machine of today would aggregate nothing.
pub const AGGREGATORS_MAX: usize = 1 << 16;

/// Rounds of one exchange: 16 MiB in each of them are 64 GiB an aggregator.
pub const ROUNDS_MAX: usize = 1 << 12;

/// Buffers of one aggregator: a third hides nothing that two do not, and deeper queues only take memory.
pub const BUFFERS_MAX: usize = 64;

/// Dimensions of a torus: the largest that was built has six.
pub const TORUS_DIMENSIONS_MAX: usize = 8;

/// Levels of a fat tree: four carry a million nodes.
pub const FAT_TREE_LEVELS_MAX: usize = 6;

/// Switches above each other: more than anybody stacks, and a route over them is still short.
pub const SWITCH_LEVELS_MAX: usize = 16;

/// Nodes of a measured matrix: both its tables have their square.
pub const MATRIX_NODES_MAX: usize = 2048;

/// Directed links of a topology: a million nodes of a torus of five dimensions.
pub const LINKS_MAX: usize = 12 << 20;

/// Parts of ranks' data, cut by domain and round: half a gigabyte of them in memory. An exchange of 65,536 ranks in which
/// each sends to all of 256 aggregators has as many.
pub const PARTS_MAX: usize = 1 << 24;
