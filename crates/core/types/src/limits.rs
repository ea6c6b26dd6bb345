//! Limits that several crates keep to, each with its reason. The others stand beside what they limit, or in the `limits`
//! of the crate that owns them.

use std::time::Duration;

/// A directory entry's name, bytes (`NAME_MAX` of Linux).
pub const NAME_BYTES_MAX: usize = 255;

/// A path below the view's root, bytes (`PATH_MAX` less its NUL, and the leading slash is not counted).
pub const PATH_BYTES_MAX: usize = 4095;

/// A symbolic link's target, bytes (`PATH_MAX` less its NUL).
pub const TARGET_BYTES_MAX: usize = 4095;

/// Entries a listing may have at all. At 32 bytes a name this is half a gigabyte, more than any budget should hold.
pub const LISTING_ENTRIES_MAX: usize = 8 << 20;

/// A listing's encoded size, bytes; the body limit of the protocol follows from it.
pub const LISTING_BYTES_MAX: usize = 512 << 20;

/// Names asked for at once when a listing carries no attributes: `ls -l` of 10,000 files takes 40 requests.
pub const ATTRIBUTES_PAGE_NAMES: usize = 256;

/// A frame's head (request or answer without its body), bytes: a page of 256 longest names and a longest path fit.
pub const HEAD_BYTES_MAX: usize = 128 << 10;

/// Paths of one refresh.
pub const REFRESH_PATHS_MAX: usize = 64;

/// Chunks a node asks for ahead of a program that reads a file in order. Sixteen keep the links of four homes busy, where all nodes read one
/// file at once; eight a 1 Gbit/s server over three hops of 10 ms each.
pub const READ_AHEAD_CHUNKS: u64 = 16;

/// Chunks on their way to one node above which it reads nothing ahead: 32 MiB beside the budget, whatever number of
/// programs reads in order at once. Small files do not count: they travel many at a time.
pub const READ_AHEAD_CHUNKS_UNDER_WAY: usize = 32;

/// Largest file that belongs to its directory, bytes: it comes from the directory's root, which prefetches such files;
/// they travel in bundles. Larger ones are striped over all roots, because their bandwidth counts more than their latency.
pub const SMALL_FILE_BYTES_MAX: u64 = 256 << 10;

/// Small files that travel in one bundle, at most: the first of them waits for the last. In the trace of a large Python
/// import, 8 take 600 requests for 1,501 files and bring 228 more in vain; 16 take 539 and bring 281.
pub const BUNDLE_FILES_MAX: usize = 16;

/// Largest file of a bundle, bytes: for larger ones a request of their own is no matter.
pub const BUNDLE_FILE_BYTES_MAX: u64 = 128 << 10;

/// Largest bundle, bytes: no more than half a chunk, since not all of it is wanted.
pub const BUNDLE_BYTES_MAX: u64 = 512 << 10;

/// Requests that the reader of the backing file system prefetches at a time: a metadata server with two threads is kept
/// busy, and a request that somebody waits for finds two others before it at most.
pub const ANTICIPATED_UNDER_WAY: usize = 4;

/// Chunks that a node without children keeps for its own kernel, bytes: what was read ahead or in part. Its daemon stays
/// below 48 MiB with it (measured after a large Python import: 53 MiB without this limit).
pub const LEAF_CHUNK_BYTES: u64 = 24 << 20;

/// Nodes of a job (the design is meant for 100,000).
pub const NODES_MAX: usize = 1 << 20;

/// Nodes that a report of readiness names as missing, a subtree of which nothing is known counting once: all children of
/// the widest tree. The report says so when there are more.
pub const REPORT_MISSING_MAX: usize = 1024;

/// Reasons that a report carries along: enough for a few broken hosts, and more would not be read.
pub const REPORT_TROUBLES_MAX: usize = 16;

/// One such reason, bytes: an error of the operating system with an address.
pub const TROUBLE_BYTES_MAX: usize = 256;

/// How long a node that is ready waits for those below it before it reports without them, and how often it does at most.
/// A start without stragglers takes one report a node.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// How long a complete report stays unanswered while the job starts; then it is made again, since a daemon above may
/// have been started anew.
pub const REPORT_HELD_MAX: Duration = Duration::from_millis(1500);

/// How long a report may take: longer than it may be held, or the node above does not answer.
pub const REPORT_DEADLINE: Duration = Duration::from_secs(3);

/// The first pause before a node above that cannot be reached is tried again; doubled each time. Most are late by
/// milliseconds, since all start at once.
pub const REPORT_RETRY_FIRST: Duration = Duration::from_millis(5);
/// The longest of these pauses while the node is waited for.
pub const REPORT_RETRY_LONGEST: Duration = Duration::from_millis(100);
/// The pause once it is passed over.
pub const REPORT_RETRY_PASSED_OVER: Duration = Duration::from_secs(1);

/// How long a node above may be out of reach before it is passed over and the next in the failover order hears the report.
pub const REPORT_PATIENCE: Duration = Duration::from_millis(500);

/// Parcels of one start-up. At 1 MiB each they hold more than any start-up reads that is not its program's own input.
pub const PARCELS_MAX: u32 = 4096;

/// Bytes of one block of a parcel, encoded or not: a chunk, or small files up to as much.
pub const PARCEL_BLOCK_BYTES_MAX: usize = 2 << 20;

/// Bytes of contents after which a parcel is full. As large as a chunk, so that no parcel delays another for long.
pub const PARCEL_BYTES: u64 = 1 << 20;

/// Parcels that a node asks for ahead of the one it is storing: enough for the network to be busy meanwhile.
pub const PARCELS_AHEAD: u32 = 6;

/// Parcels that a node has under way at most, with those that a program waits for before their turn.
pub const PARCELS_UNDER_WAY_MAX: u32 = PARCELS_AHEAD * 2;

/// Time that a read waits for its parcel before it asks for itself: some times what a parcel takes in a storm.
pub const PARCEL_WAIT: Duration = Duration::from_secs(1);

/// Chunks of a start-up of which it is said where they come from. Of more, reads do not wait.
pub const PARCEL_PLACES_MAX: usize = 64 << 10;

/// Parcels that fail one after the other before a node gives the others up.
pub const PARCELS_FAILED_MAX: u32 = 8;

/// Directories and files of one profile. A large Python environment has some 100,000 files, of which a start-up uses a
/// tenth.
pub const PROFILE_USES_MAX: usize = 1 << 18;

/// How long after its first use a start-up is recorded: what is read later is a program's input.
pub const START_UP_LONGEST: Duration = Duration::from_secs(180);

/// Contents of a start-up that are recorded, bytes: the libraries of the largest frameworks several times over.
pub const START_UP_BYTES_MAX: u64 = 4 << 30;
