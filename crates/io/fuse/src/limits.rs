//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

use std::time::Duration;

use forebay_types::threads;

/// Requests in flight that are kept for a next daemon, on kernels that do not send them again. More processes than this
/// do not wait for one node's files at once; where they do, further requests wait in the kernel, interrupts too.
pub const KERNEL_REQUESTS_KEPT: usize = 4096;

/// How far the kernel may read ahead of a program on a view, bytes: one chunk, the largest read it makes.
pub const KERNEL_READ_AHEAD_BYTES: u32 = 1 << 20;

/// Buffer of each thread that reads the kernel's requests, bytes. The largest request on a read-only mount is an ioctl
/// with 16 KiB of input (the size field of its number has 14 bits); a batch of forgets fills what room there is.
pub const KERNEL_BUFFER_BYTES: usize = 32 << 10;

/// Bytes of the largest WRITE: the kernel's own limit for those without privileges, with pages of 4 KiB.
pub const WRITE_BYTES_MAX: u32 = 1 << 20;

/// The same buffer on a mount that is written to, bytes: the kernel refuses to be read into one that cannot hold the largest
/// WRITE with its head. The page more is for the head.
pub const WRITE_BUFFER_BYTES: usize = WRITE_BYTES_MAX as usize + 4096;

/// How long a reader without memory for the next request waits before it tries again, unless a request is answered meanwhile: what else frees
/// memory tells nobody.
pub const MEMORY_RETRY: Duration = Duration::from_millis(100);

/// How long ending a FUSE session waits for requests that are being handled; then their threads are left behind.
pub const KERNEL_READERS_STOP: Duration = Duration::from_secs(5);

/// The same where what they handle is left to the next daemon: long enough for those that handle nothing.
pub const KERNEL_READERS_HAND_OVER: Duration = Duration::from_millis(200);

/// Requests of a session that wait as tasks at the same time: more processes than this do not wait for one node's files at once. With
/// `TASKS_RESERVE` and what readers have they are fewer than requests that are kept, so that INTERRUPTs are read also on kernels before 6.9.
pub const TASKS_MAX: usize = 3072;

/// As many more are admitted if no other reader reads. Beyond them requests fail.
pub const TASKS_RESERVE: usize = 512;

/// Of these, requests that wait for a lock: more processes than this do not wait for locks on one node at once. Such a wait may last as long as
/// another program likes, and two thirds are left to all other requests. Beyond them a wait for a lock fails at once.
pub const LOCK_WAITS_MAX: usize = 1024;

/// Bytes of the requests that tasks have: writes of 1 MiB, the largest that the kernel sends, of as many processes as write at the same
/// time into a full store.
pub const TASK_BYTES_MAX: usize = 128 << 20;

/// As many more are admitted if no other reader reads. Beyond them requests fail.
pub const TASK_BYTES_RESERVE: usize = 32 << 20;

/// A request of up to so many bytes is copied for its task; a larger one stays in its reader's memory, and the reader takes other memory. To
/// copy 32 KiB takes less time than to touch 1 MiB.
pub const COPIED_REQUEST_BYTES_MAX: usize = 32 << 10;

/// Memory for largest requests that stays when nobody uses it: that of as many readers as have to wait at the same time usually.
pub const FREE_SPACES_MAX: usize = 8;

/// INTERRUPTs that are remembered for requests that are not known: more than come between a request's reading and its handling.
pub const EARLY_INTERRUPTS_MAX: usize = 1024;

const _: () = assert!(TASKS_MAX + TASKS_RESERVE + threads::KERNEL_READERS_MAX <= KERNEL_REQUESTS_KEPT);
