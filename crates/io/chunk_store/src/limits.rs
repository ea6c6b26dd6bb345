//! The limits of a store, each with its reason.

use forebay_types::CHUNK_BYTES;

/// The least capacity: one whole chunk has a slot of a little more.
pub const CAPACITY_BYTES_MIN: u64 = 2 * CHUNK_BYTES;

/// The largest capacity: its slots, a sixteenth more than its chunks, are one file, and ext4 has none above 16 TiB.
pub const CAPACITY_BYTES_MAX: u64 = 14 << 40;

/// The room that is left to all others on the disk, as a part of its size: the twentieth that file systems keep for root, too.
pub const RESERVE_DIVISOR: u64 = 20;

/// The most that the reserve has: a second of writes to an NVMe, which is how often the free room is looked at.
pub const RESERVE_BYTES_MAX: u64 = 1 << 30;

/// Slots up to which a store has four for each MiB of its capacity, so that chunks of 256 KiB fill it too: their index has 63 MiB.
pub const ROOMY_SLOTS_MAX: u64 = 11_000_000;

/// Blocks of sets that one look goes through to give room back: 32,768 sets, some tens of milliseconds.
pub(crate) const RELEASE_BLOCKS_MAX: u64 = 512;

/// How long the opening of a store waits while another process makes it: ten seconds, of which it takes milliseconds.
pub(crate) const LOCK_TRIES_MAX: usize = 1000;
