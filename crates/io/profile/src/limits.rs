//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

/// Chunks of one profile: 64 GiB of contents, more than any start-up reads and than a pack may hold.
pub const PROFILE_CHUNKS_MAX: usize = 1 << 16;

/// A profile's file, and the index of a pack, bytes: so many uses with paths of 200 bytes.
pub const PROFILE_BYTES_MAX: usize = 64 << 20;

/// The command that a profile belongs to, bytes: a job script with its arguments; what is longer is cut.
pub const PROFILE_COMMAND_BYTES_MAX: usize = 1024;

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
