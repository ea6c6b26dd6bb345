//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

use std::time::Duration;

/// How often a daemon tells its keeper that it is there.
pub const DAEMON_WORD_INTERVAL: Duration = Duration::from_secs(2);

/// How long a new daemon may take until it serves: as long as a request may take.
pub const DAEMON_START_DEADLINE: Duration = Duration::from_secs(30);

/// How long a daemon may take to end, in order or to be replaced, before it is killed: longer than it gives its mount
/// and its connections (5 s each).
pub const DAEMON_END_DEADLINE: Duration = Duration::from_secs(11);

/// How many arenas the allocator of a daemon may have (mallopt(3)). By default glibc takes up to eight for each processor, and what one thread
/// has freed stays with its arena: a daemon with a budget of 16 MiB then held 96 MB on two busy processors, and 60 MB with four arenas.
pub(crate) const ARENAS: usize = 4;

/// The variable by which glibc takes that number. One that the user has set holds.
pub(crate) const ARENAS_VARIABLE: &str = "MALLOC_ARENA_MAX";

/// A message between a keeper and its daemons or programs, bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The paths of all exports as JSON, bytes: programs are told them in one message, which has a path as long as it can be
/// and names beside them.
pub const EXPORTS_BYTES_MAX: usize = MESSAGE_BYTES_MAX - (8 << 10);
