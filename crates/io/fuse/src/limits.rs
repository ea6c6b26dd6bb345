//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

use std::time::Duration;

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

/// How long ending a FUSE session waits for requests that are being handled; then their threads are left behind.
pub const KERNEL_READERS_STOP: Duration = Duration::from_secs(5);

/// The same where what they handle is left to the next daemon: long enough for those that handle nothing.
pub const KERNEL_READERS_HAND_OVER: Duration = Duration::from_millis(200);
