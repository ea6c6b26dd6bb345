//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

use std::time::Duration;

/// Threads that read the kernel's requests (option `--readers`); more than two measured no gain.
pub const KERNEL_READERS: usize = 2;

/// The most threads that may read them: each has a buffer of its own.
pub const KERNEL_READERS_MAX: usize = 64;

/// Requests in flight that are kept for a next daemon, on kernels that do not send them again. More processes than this
/// do not wait for one node's files at once; where they do, further requests wait in the kernel, interrupts too.
pub const KERNEL_REQUESTS_KEPT: usize = 4096;

/// Readers of a session that requests which may wait leave free: one reads while the other handles.
pub const KERNEL_READERS_FREE: usize = 2;

/// The most threads of a session that wait in place of its readers. Each waits for another node, and takes little more than its stack's first
/// pages. More requests than this queue.
pub const SPARE_THREADS_MAX: usize = 256;

/// The largest writes that wait in place of readers: as many processes of one node as write at the same time into a full store.
pub const SPARE_WRITES_MAX: usize = 128;

/// Bytes of the requests that wait in place of readers, queued or not.
pub const SPARE_BYTES_MAX: usize = SPARE_WRITES_MAX * WRITE_BYTES_MAX as usize;

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

/// How long ending a FUSE session waits for requests that are being handled; then their threads are left behind.
pub const KERNEL_READERS_STOP: Duration = Duration::from_secs(5);

/// The same where what they handle is left to the next daemon: long enough for those that handle nothing.
pub const KERNEL_READERS_HAND_OVER: Duration = Duration::from_millis(200);
