//! Limits of the write path, each with its reason.

/// Hard links of one file, as ext4 has it.
pub const LINKS_MAX: u32 = 65_000;

/// A file's size, bytes: what the kernel can ask for.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Ranges of one file that are locked.
pub const LOCKS_MAX: usize = 1 << 16;

/// Results kept for operations that may be sent again, of one node. A kernel has some dozens of requests in the background and
/// one for each thread that waits; a node that has more has its oldest forgotten, and is told EIO should it ask again.
pub const RESULTS_MAX: usize = 1 << 14;

/// Directories that are remembered once they are removed, about 200 bytes each: for programs that have one open or work in it.
pub const REMOVED_MAX: usize = 1 << 13;

/// Leases that are remembered one by one, about 40 bytes each; if there are more, nodes are told of every change for a while.
pub const LEASES_MAX: usize = 1 << 18;

/// Files, names and directories that a node knows of, about 200 bytes each; if there are more, it forgets all and begins anew.
pub const KNOWN_MAX: usize = 1 << 17;

/// Entries of a directory that a node remembers when it has listed it.
pub const LISTED_MAX: usize = 1 << 12;

/// Files of which a node knows what its kernel's page cache has, about 80 bytes each; if there are more, it drops all pages of a file
/// before the file's next use.
pub const PAGED_MAX: usize = 1 << 16;

/// Pieces of files of which a node knows where they are, about 70 bytes each.
pub const PIECES_KNOWN_MAX: usize = 1 << 16;

/// Extended attributes of all files of a tree together, bytes: they are in the leader's memory, and one part of a tree that travels may have
/// all of them.
pub const EXTENDED_BYTES_MAX: u64 = 16 << 20;

/// Extended attributes of one file that programs have set or removed and that have not landed: more are not set until they have.
pub const EXTENDED_NAMES_MAX: usize = 1 << 12;
