//! Threads of a node's daemon: each pool with its limit and the reason for it.
//!
//! A pool is for one kind of wait, so that a wait that lasts holds no thread of another kind. Uses that share `BLOCKING_THREADS` have
//! limits of their own within it. Threads of which a node has one each, such as those of its log, are not listed.

/// `fuse-N`: readers of a view's requests (option `--readers`); more than two measured no gain.
pub const KERNEL_READERS: usize = 2;

/// The most readers of a session: each has a buffer of its own.
pub const KERNEL_READERS_MAX: usize = 64;

/// Readers of a session that requests which may wait leave free: one reads while the other handles.
pub const KERNEL_READERS_FREE: usize = 2;

/// `fuse-N`: readers of a burst mount's requests, at least: each waits for the owner of the tree, which may be another node. Each has
/// a buffer of 1 MiB.
pub const BURST_READERS: usize = 8;

/// Readers of a burst mount that wait for room in its store at the same time: those beside them answer requests on which landing depends.
pub const READERS_WAITING_FOR_ROOM_MAX: usize = BURST_READERS - KERNEL_READERS_FREE;

/// `fuse-spare`: threads of a session that wait in place of its readers. Each waits for another node, and takes little more than its
/// stack's first pages. More requests than this queue.
pub const SPARE_THREADS_MAX: usize = 256;

/// The largest writes that wait in place of readers: as many processes of one node as write at the same time into a full store.
pub const SPARE_WRITES_MAX: usize = 128;

/// Bytes of the requests that wait in place of readers, queued or not: writes of 1 MiB, the largest that the kernel sends.
pub const SPARE_BYTES_MAX: usize = SPARE_WRITES_MAX << 20;

/// Writers that wait for room in the store at the same time: fewer than spare threads and their bytes suffice for, which answer requests
/// on which landing depends.
pub const WAITING_FOR_ROOM_MAX: usize = SPARE_WRITES_MAX * 3 / 4;

/// `backing`: reads of the backing file system at once on one node (option `--backing-concurrency`). One that hangs holds these and
/// nothing else of the daemon.
pub const BACKING_CONCURRENCY: usize = 64;

/// Threads for other calls that may block: requests of other nodes, the kernel's caches, the view's end. They do not read the exports, so
/// the kernel is told what is stale and the view is taken away also while the backing file system hangs.
pub const BLOCKING_THREADS: usize = 48;

/// Of these, threads of the owner's requests that wait for the backing file system at the same time: one that hangs leaves the rest to
/// requests that need the node's own disk alone.
pub const OWNER_BACKING_THREADS_MAX: usize = 16;

/// Of `BLOCKING_THREADS`, threads that write stripes for the owner: one backing file system that hangs must not take all.
pub const STRIPES_FOR_OWNER_MAX: usize = 4;

/// `answer`: requests of one node that have a thread each, those of drains. A node has a few of them at the same time, and asks again.
pub const THREADS_PER_NODE_MAX: usize = 8;

/// Threads of the owner that wait for stripes of other nodes: one for each stripe under way.
pub const STRIPES_UNDER_WAY_MAX: usize = 64;

/// Threads that ask nodes the same thing at once, one for each node: 1,000 nodes are asked in 16 rounds, and silent ones hold up only
/// their round.
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
const _: () =
    assert!(OWNER_BACKING_THREADS_MAX + STRIPES_FOR_OWNER_MAX + QUERY_PARTS_MAX + QUERY_LOOKS_MAX < BLOCKING_THREADS);
