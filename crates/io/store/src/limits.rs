//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

/// Entries up to which a listing carries attributes (option `--listing-limit`). A listing of 4,096 entries is some
/// 0.5 MB; the attributes of a larger directory cost a busy metadata server more than most programs ask for.
pub const LISTING_ENTRIES_FULL: usize = 4096;

/// Descriptors a node keeps open on the backing file system, directories and files each. RLIMIT_NOFILE is 1,024 by
/// default, and a daemon that kept one a file died of it.
pub const BACKING_DESCRIPTORS: usize = 256;

/// A read of a file, bytes (option `--backing-read-size`): a piece at least.
pub const READ_BYTES_MIN: u64 = 128 << 10;

/// The same at most: a home's row of chunks.
pub const READ_BYTES_MAX: u64 = 4 << 20;
