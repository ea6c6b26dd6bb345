//! How much at once.

/// Bytes that are copied and checked as one: what a copy that was broken off does again at most, and four stripes of a file system
/// that stripes by 4 MiB.
pub const BLOCK_BYTES: usize = 16 << 20;

/// Entries of a tree: more than a job's inputs have, and 2 GB of names.
pub const ENTRIES_MAX: usize = 16 << 20;

/// How deep a tree may be: `PATH_MAX` of names with one letter.
pub const DEPTH_MAX: usize = 2048;
