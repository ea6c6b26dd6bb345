//! Every limit of the product in one place, each with its reason.

use std::time::Duration;

/// A directory entry's name, bytes (`NAME_MAX` of Linux).
pub const NAME_BYTES_MAX: usize = 255;

/// A path below the view's root, bytes (`PATH_MAX` less its NUL, and the leading slash is not counted).
pub const PATH_BYTES_MAX: usize = 4095;

/// A symbolic link's target, bytes (`PATH_MAX` less its NUL).
pub const TARGET_BYTES_MAX: usize = 4095;

/// Entries up to which a listing carries attributes (option `--listing-limit`). A listing of 4,096 entries is some
/// 0.5 MB; the attributes of a larger directory cost a busy metadata server more than most programs ask for.
pub const LISTING_ENTRIES_FULL: usize = 4096;

/// Entries a listing may have at all. At 32 bytes a name this is half a gigabyte, more than any budget should hold.
pub const LISTING_ENTRIES_MAX: usize = 8 << 20;

/// A listing's encoded size, bytes; the body limit of the protocol follows from it.
pub const LISTING_BYTES_MAX: usize = 512 << 20;

/// Names asked for at once when a listing carries no attributes: `ls -l` of 10,000 files takes 40 questions.
pub const ATTRIBUTES_PAGE_NAMES: usize = 256;

/// A frame's head (request or answer without its body), bytes: a page of 256 longest names and a longest path fit.
pub const HEAD_BYTES_MAX: usize = 128 << 10;

/// How long a request may take, whatever dies (option `--deadline`).
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Nodes of one tree that may read the backing file system for others: the root and, when it cannot, the next in the order. More
/// would not help a job that lost so many at once, and each is asked in vain when the network is cut.
pub const ROOT_CANDIDATES: usize = 8;

/// How much later than its neighbours a node may start to listen without being taken for lost.
pub const START_SKEW: Duration = Duration::from_millis(500);

/// Paths of one refresh.
pub const REFRESH_PATHS_MAX: usize = 64;

/// How long a peer may take to shake hands: a pending handshake must not hold a connection open for nothing.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);

/// Requests one peer may have under way at a node. A whole fan-out of busy children stays below it; above it the
/// connection is read no further, so that the child waits and nothing is lost.
pub const PEER_REQUESTS_MAX: usize = 1024;

/// Of these, requests that nobody waits for yet. Who makes parcels of small files asks for thousands at once, and what a
/// program wants must find room beside them.
pub const PEER_REQUESTS_AHEAD_MAX: usize = PEER_REQUESTS_MAX / 4 * 3;

/// Bytes of the bodies that one peer may have under way at a node, at most: 32 chunks keep a link of 100 Gbit/s busy over 2 ms.
/// A node with a small budget or many children gives each of them less.
pub const PEER_BODIES_BYTES_MAX: usize = 32 << 20;

/// Bytes of one body that may be under way to a peer without its credit: two pieces keep a hop's pipe full (the
/// next piece is on its way while the last one is acknowledged).
pub const BODY_CREDIT_BYTES: usize = 512 << 10;

/// Bytes a receiver takes before it grants them anew, so that a 1 MiB chunk costs two small frames of credit, not eight.
/// With one more piece under way it stays below `BODY_CREDIT_BYTES`, or sender and receiver would wait for each other.
pub const BODY_GRANT_BYTES: usize = 256 << 10;

/// A body that travels on the control connection within its answer, bytes. 16 KiB hold almost every listing and small
/// file and delay a request behind them by 13 us at 10 Gbit/s.
pub const CONTROL_BODY_BYTES_MAX: usize = 16 << 10;

/// Bytes of bodies gathered into one write on a bulk connection: a cancel waits no longer than this.
pub const BULK_WRITE_BYTES: usize = 1 << 20;

/// Frames that may wait for a connection's writer: a full window of requests, each promoted and cancelled, with credit. A
/// peer that lets more pile up has stopped reading, and its connection is closed.
pub const OUTBOX_FRAMES_MAX: usize = 5 * PEER_REQUESTS_MAX;

/// Frames gathered into one write; each takes two of the 1,024 slices that `writev(2)` allows.
pub const WRITE_FRAMES_MAX: usize = 32;

/// A connection's read buffer, bytes: dozens of requests in one read, and idle connections stay light (a root with 1,024
/// children holds 8 MiB of them). Bodies are read past it, into their own buffers.
pub const READ_BUFFER_BYTES: usize = 8 << 10;

/// A handshake's message, bytes: a `Hello` with the longest job name is 150. A pending handshake is read no further.
pub const HELLO_BYTES_MAX: usize = 512;

/// Connections that have not shaken hands yet. A whole fan-out that starts at once comes through in some rounds, and
/// pending handshakes cost 256 descriptors and 2 MiB at most. One more takes the place of one of the source that has the
/// most (`transport::pending`), so that a flood keeps out itself and not the job's own nodes.
pub const PENDING_HANDSHAKES_MAX: usize = 256;

/// Connections that may wait in the kernel to be accepted. A wave of children, or a flood, waits there for milliseconds;
/// one that finds no room comes again after a second.
pub const BACKLOG_CONNECTIONS: i32 = 4096;

/// Frames that one key may protect in one direction; then the connection ends, and the next call makes a new one with
/// new keys. 2^32 frames of 128 KiB are 512 TiB, for which AES-GCM still leaves an attacker a chance below 2^-38 (with
/// q blocks q^2 / 2^129), and a counter of 64 bits never comes near its end.
pub const FRAMES_PER_KEY_MAX: u64 = 1 << 32;

/// How long a peer may take for one write of `BULK_WRITE_BYTES`: 300 kbit/s. A slower one counts as lost, so that bodies
/// are not held for it.
pub const WRITE_DEADLINE: Duration = Duration::from_secs(30);

/// How long after a request's own deadline its answer is still sent: the peer gave up before, if its clock runs as ours.
pub const ANSWER_GRACE: Duration = Duration::from_secs(2);

/// Addresses of refused connections that are remembered, so that each is reported once.
pub const REFUSED_REPORTED_MAX: usize = 1024;

/// How long a daemon that ends waits for its last answers to leave. `down` has a second in all.
pub const FLUSH_DEADLINE: Duration = Duration::from_millis(300);

/// How long a peer may leave bytes unacknowledged before its connection counts as lost, and a silent connection goes
/// unprobed. A dead host must not hold buffers for the 15 minutes that TCP would try.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Reads of the backing file system at once on one node (option `--backing-concurrency`).
pub const BACKING_CONCURRENCY: usize = 64;

/// Of so many reads of the backing file system at once, one may have been asked ahead: 16 of 64 keep a server of several
/// threads busy, and leave 48 to what programs want even while it hangs.
pub const BACKING_TURNS_PER_AHEAD: usize = 4;

/// Questions of programs that go, one after the other, before one that was asked ahead: prefill goes on, at a seventeenth
/// of the speed at least, beside a program that never stops asking.
pub const DEMANDS_PER_AHEAD: usize = 16;

/// Descriptors a node keeps open on the backing file system, directories and files each. RLIMIT_NOFILE is 1,024 by
/// default, and a daemon that kept one a file died of it.
pub const BACKING_DESCRIPTORS: usize = 256;

/// Memory for caches: a tenth of the node's, at most this, bytes (option `--budget`).
pub const BUDGET_BYTES_MAX: u64 = 4 << 30;

/// The least budget that works: some chunks in flight and the listings of a start-up, bytes.
pub const BUDGET_BYTES_MIN: u64 = 16 << 20;

/// Chunks a node asks for ahead of a program that reads a file in order. Eight chunks keep a 1 Gbit/s server busy
/// over three hops of 10 ms each.
pub const READ_AHEAD_CHUNKS: u64 = 8;

/// Chunks on their way to one node above which it reads nothing ahead: 32 MiB beside the budget, whatever number of
/// programs reads in order at once.
pub const READ_AHEAD_CHUNKS_UNDER_WAY: usize = 32;

/// Largest file that belongs to its directory, bytes: it comes from the directory's root, which asks for such files early
/// and in bundles. Larger ones are striped over all roots, because their bandwidth counts more than their latency.
pub const SMALL_FILE_BYTES_MAX: u64 = 256 << 10;

/// Small files that travel in one bundle, at most: the first of them waits for the last. In the trace of a large Python
/// import, 8 take 600 questions for 1,501 files and bring 228 more in vain; 16 take 539 and bring 281.
pub const BUNDLE_FILES_MAX: usize = 16;

/// Largest file of a bundle, bytes: for larger ones a question of their own is no matter.
pub const BUNDLE_FILE_BYTES_MAX: u64 = 128 << 10;

/// Largest bundle, bytes: no more than half a chunk, since not all of it is wanted.
pub const BUNDLE_BYTES_MAX: u64 = 512 << 10;

/// Bundles remembered as failed; beyond that all are tried again.
pub const BROKEN_BUNDLES_MAX: usize = 1024;

/// Questions that the reader of the backing file system asks early at a time: a metadata server with two threads is kept
/// busy, and a question that somebody waits for finds two others before it at most.
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

/// How long a node above may be out of reach before it is passed over and the next in the line hears the report.
pub const REPORT_PATIENCE: Duration = Duration::from_millis(500);

/// Hosts on which a program is run at once by the remote shell, where nothing waits for all of them: each takes a process
/// here and a login there, and `srun` a place in the queue of its controller.
pub const REMOTE_CALLS_AT_ONCE: usize = 64;

/// How much longer than `--wait-timeout` a node counts before it takes the job to be up without the missing: its own time
/// began when it was started, that of `forebay up` when the last node was, a login of thousands of hosts later. So `up`
/// decides.
pub const SETTLE_MARGIN: Duration = Duration::from_secs(10);

/// Fan-out of a tree (options `--fanout`, `--stripe-fanout`).
pub const FAN_OUT_MAX: u32 = 1024;

/// Roots of a job (option `--roots`): eight times the default. More would be more clients of the backing file system and
/// spread nothing further.
pub const ROOTS_MAX: u32 = 64;

/// Threads that read the kernel's requests (option `--readers`); more than two measured no gain.
pub const KERNEL_READERS: usize = 2;

/// The most threads that may read them: each has a buffer of its own.
pub const KERNEL_READERS_MAX: usize = 64;

/// Requests in flight that are kept for a next daemon, on kernels that do not send them again. More processes than this
/// do not wait for one node's files at once; where they do, further requests wait in the kernel, interrupts too.
pub const KERNEL_REQUESTS_KEPT: usize = 4096;

/// Requests the kernel may have waiting in the background, read-ahead mostly.
pub const KERNEL_BACKGROUND: u16 = 64;

/// How far the kernel may read ahead of a program on a view, bytes: one chunk, the largest read it makes.
pub const KERNEL_READ_AHEAD_BYTES: u32 = 1 << 20;

/// Buffer of each thread that reads the kernel's requests, bytes. The largest request on a read-only mount is an ioctl
/// with 16 KiB of input (the size field of its number has 14 bits); a batch of forgets fills what room there is.
pub const KERNEL_BUFFER_BYTES: usize = 32 << 10;

/// How long ending a FUSE session waits for requests that are being handled; then their threads are left behind.
pub const KERNEL_READERS_STOP: Duration = Duration::from_secs(5);

/// Daemons that a keeper starts within `RESTARTS_WINDOW` before it gives up: one that dies all the time is of no use,
/// and programs must learn it within a minute.
pub const RESTARTS_MAX: usize = 80;

/// The time in which deaths of daemons are counted together.
pub const RESTARTS_WINDOW: Duration = Duration::from_secs(60);

/// Deaths within `RESTARTS_WINDOW` that are followed by a start at once; a daemon that dies as often has a defect that
/// the next one meets too.
pub const RESTARTS_AT_ONCE: usize = 60;

/// How long a keeper waits before it starts one more daemon after that.
pub const RESTARTS_PAUSE: Duration = Duration::from_millis(500);

/// Daemons in a row that die before they serve, after which a keeper gives up: what keeps one from starting (a lost
/// export, a broken program) keeps all.
pub const RESTARTS_FAILED_MAX: u32 = 5;

/// How often a daemon tells its keeper that it is there.
pub const DAEMON_WORD_INTERVAL: Duration = Duration::from_secs(2);

/// What of a request's time limit a daemon may be silent before its keeper kills it and starts another, so that what
/// programs wait for is answered within that limit also when a daemon hangs.
pub const DAEMON_SILENCE_SHARE: f64 = 0.6;
/// At least this, for a machine that is busy.
pub const DAEMON_SILENCE_MIN: Duration = Duration::from_secs(10);

/// How much longer a silent daemon is given when its keeper finds it silent.
pub const DAEMON_DOUBT: Duration = Duration::from_secs(2);

/// How long a new daemon may take until it serves: as long as a request may take.
pub const DAEMON_START_DEADLINE: Duration = Duration::from_secs(30);

/// How long a daemon that is replaced may go on answering what it has taken. What is left then is answered by the next.
pub const HAND_OVER_DRAIN: Duration = Duration::from_secs(1);

/// How long a daemon may take to end, in order or to be replaced, before it is killed: longer than it gives its mount
/// and its connections (5 s each).
pub const DAEMON_END_DEADLINE: Duration = Duration::from_secs(11);

/// How long a daemon may take to be gone when it has taken its view away, and when it was killed: it frees its memory. What is
/// there then is held in the kernel by a file system that does not answer, and a keeper that ends does not wait for that.
pub const DAEMON_LAST_GRACE: Duration = Duration::from_secs(1);

/// Memory for the inodes that the kernel knows, bytes: some ten million, whose kernel memory is ten times as much.
pub const LEDGER_BYTES_MAX: usize = 4 << 30;

/// How long `munge` and `unmunge` may take: they answer in milliseconds, and a job must not wait for a service that hangs.
pub const MUNGE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a sealed key can be opened: longer than nodes take to start, with clocks that do not quite agree. After
/// that, what somebody has recorded of it cannot be opened any more.
pub const MUNGE_TIME_TO_LIVE: Duration = Duration::from_secs(600);

/// A sealed key, or what else the programs say, bytes: a credential with a key has 228.
pub const MUNGE_BYTES_MAX: usize = 4096;

/// How long a program waits at the entrance of the namespace that shows exports at their own paths: a keeper answers in
/// microseconds, and one that lends the view in milliseconds.
pub const ENTRANCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Questions that a keeper answers in a row: as many as a socket's queue holds by default (`net.unix.max_dgram_qlen`).
pub const ENTRANCE_QUESTIONS: usize = 512;

/// Namespaces that a keeper holds: one for the node, and one for each container that programs run in now. Programs in one
/// that is let go do not mind.
pub const NAMESPACES_KEPT: usize = 16;

/// Directories that parts of the view are laid over in one namespace: the kernel allows 100,000 mounts
/// (`fs.mount-max`).
pub const COVERED_DIRECTORIES_MAX: usize = 4096;

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

/// Chunks of one profile: 64 GiB of contents, more than any start-up reads and than a pack may hold.
pub const PROFILE_CHUNKS_MAX: usize = 1 << 16;

/// A profile's file, and the index of a pack, bytes: so many uses with paths of 200 bytes.
pub const PROFILE_BYTES_MAX: usize = 64 << 20;

/// The command that a profile belongs to, bytes: a job script with its arguments; what is longer is cut.
pub const PROFILE_COMMAND_BYTES_MAX: usize = 1024;

/// Exports that a profile may name.
pub const PROFILE_EXPORTS_MAX: usize = 1024;

/// Profiles of one directory. Each is a command of the user's; the least recently used leave first.
pub const PROFILES_MAX: usize = 256;

/// Bytes of all profiles and packs of one directory (option `--profile-budget`): dozens of large Python environments,
/// and a share of a home directory that nobody misses.
pub const PROFILE_BUDGET_BYTES: u64 = 4 << 30;

/// A pack's block before compression, bytes: one chunk, or many small files. It compresses nearly as well as a larger
/// one, and is what nodes ask each other for at a time.
pub const PACK_BLOCK_BYTES: usize = 1 << 20;

/// A pack's block as it lies on disk, bytes: contents that do not compress grow by a byte for every 255 and by 16.
pub const PACK_BLOCK_COMPRESSED_BYTES_MAX: usize = PACK_BLOCK_BYTES + (8 << 10);

/// What of a directory's small files lies together in a pack though other files were used in between, bytes: a block.
pub const PACK_GROUP_BYTES: u64 = PACK_BLOCK_BYTES as u64;

/// How old a file must be that somebody began to write into a directory of profiles and did not finish, before it is
/// removed: whoever still writes it touches it every few seconds.
pub const PROFILE_UNFINISHED_AGE: Duration = Duration::from_secs(3600);

/// How long after its first use a start-up is recorded: what is read later is a program's input.
pub const START_UP_LONGEST: Duration = Duration::from_secs(180);

/// Contents of a start-up that are recorded, bytes: the libraries of the largest frameworks several times over.
pub const START_UP_BYTES_MAX: u64 = 4 << 30;

/// How long nothing new must have been used before a start-up counts as over and is written down.
pub const START_UP_QUIET: Duration = Duration::from_secs(3);

/// How much of a pack is read before it is asked for, bytes: what one node holds of it for a moment.
pub const PACK_AHEAD_BYTES: u64 = 256 << 20;
