//! Threads of a node's daemon: each pool with its limit and the reason for it.
//!
//! A pool is for one kind of wait, so that a wait that lasts holds no thread of another kind. Uses that share `BLOCKING_THREADS` have
//! limits of their own within it. Threads of which a node has one each, such as those of its log, are not listed.

use std::time::Duration;

/// `fuse-N`: readers of a view's requests (option `--readers`); more than two measured no gain.
pub const KERNEL_READERS: usize = 2;

/// The most readers of a session: each has a buffer of its own.
pub const KERNEL_READERS_MAX: usize = 64;

/// `fuse-N`: readers of a burst mount's requests, at least. None waits, but each copies what it has read into the log, which holds it up
/// while the disk is behind. Each has a buffer of 1 MiB.
pub const BURST_READERS: usize = 8;

/// `fuse-task`: threads of a session that go on with requests that wait, while these have something to do. That is little, unless a disk
/// blocks them: as many as may then be blocked.
pub const FUSE_TASK_THREADS_MAX: usize = 8;

/// Writers that wait for room in the store at the same time: their requests, of 1 MiB at most, take three quarters of the memory for requests
/// that wait (`forebay_fuse::limits::TASK_BYTES_MAX`), so that those go on on which landing depends.
pub const WAITING_FOR_ROOM_MAX: usize = 96;

/// `backing`: calls on the backing file system at once on one node (option `--backing-concurrency`): reads of the exports and landing. One that
/// hangs holds these and nothing else of the daemon.
pub const BACKING_CONCURRENCY: usize = 64;

/// How long one of these threads stays that has nothing to do: longer than the wait of landing for other nodes between two calls, and short
/// enough that a daemon at rest has no more than the one that stays.
pub const BACKING_IDLE_MAX: Duration = Duration::from_millis(300);

/// `blocking`: threads for other calls that may block: requests of other nodes, the kernel's caches, the view's end. They do not read the exports, so
/// the kernel is told what is stale and the view is taken away also while the backing file system hangs.
pub const BLOCKING_THREADS: usize = 48;

/// How long one of these threads stays that is not needed beside others: longer than the pauses between requests of one node.
pub const BLOCKING_IDLE_MAX: Duration = Duration::from_secs(2);

/// Of these, threads that are made at the start and stay: at its limit of processes a machine gives no other. One keeps what the tree
/// depends on going while the kernel holds up the other.
pub const BLOCKING_THREADS_STAYING: usize = 2;

/// Of these, threads of the leader's requests that wait for the backing file system at the same time: one that hangs leaves the rest to
/// requests that need the node's own disk alone.
pub const LEADER_BACKING_THREADS_MAX: usize = 16;

/// Stripes that a node writes for the leader at the same time. Each has a part in memory, and one of the threads `backing` while it is written.
pub const STRIPES_FOR_LEADER_MAX: usize = 4;

/// Nodes that are asked the same thing at once, by tasks: silent ones hold up only so many others.
pub const NODES_ASKED_AT_ONCE: usize = 64;

/// `pack`: threads that read parts of a pack: as many as keep it busy with one while the other comes, and few enough that answers about
/// names do not wait long behind contents.
pub const PACK_READERS: usize = 2;

/// Parts of queries that are made at once at most, on a machine with as many processors; each has one of `BLOCKING_THREADS` as long as it
/// reads, however long nobody waits for it any more.
pub const QUERY_PARTS_MAX: usize = 16;

/// Of `BLOCKING_THREADS`, threads that look whether the node holds files of queries: each may hang with the backing file system.
pub const QUERY_LOOKS_MAX: usize = 2;

// The kernel's caches and requests that need the node's own disk alone have the rest, whatever hangs.
const _: () = assert!(LEADER_BACKING_THREADS_MAX + QUERY_PARTS_MAX + QUERY_LOOKS_MAX < BLOCKING_THREADS);

/// A daemon with default options has fewer threads: clusters allow a user 1,024 processes and threads on a node and more.
pub const THREADS_MAX: usize = 512;

const _: () = assert!(
    KERNEL_READERS + BURST_READERS + FUSE_TASK_THREADS_MAX + BACKING_CONCURRENCY + BLOCKING_THREADS < THREADS_MAX
);
