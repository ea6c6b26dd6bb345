//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

/// Entries up to which a listing carries attributes (option `--listing-limit`). A listing of 4,096 entries is some
/// 0.5 MB; the attributes of a larger directory cost a busy metadata server more than most programs ask for.
pub const LISTING_ENTRIES_FULL: usize = 4096;

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
