//! The attributes of a file as `stat(2)` returns them, and its version, which follows from them.

use serde::{Deserialize, Serialize};

/// The kind of a directory entry; the values are those of `d_type` in `getdents64(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    Fifo = 1,
    CharacterDevice = 2,
    Directory = 4,
    BlockDevice = 6,
    File = 8,
    Symlink = 10,
    Socket = 12,
}

impl Kind {
    /// The kind of a `d_type`; `None` for `DT_UNKNOWN` and numbers that mean nothing.
    #[must_use]
    pub fn from_dirent(d_type: u8) -> Option<Self> {
        Some(match d_type {
            1 => Self::Fifo,
            2 => Self::CharacterDevice,
            4 => Self::Directory,
            6 => Self::BlockDevice,
            8 => Self::File,
            10 => Self::Symlink,
            12 => Self::Socket,
            _ => return None,
        })
    }

    /// The kind in the type bits of `st_mode` (`inode(7)`).
    #[must_use]
    pub fn from_mode(mode: u32) -> Option<Self> {
        Self::from_dirent(((mode >> 12) & 0o17) as u8)
    }

    /// The value of `d_type`.
    #[must_use]
    pub fn dirent(self) -> u8 {
        self as u8
    }
}

/// A point in time as the file system keeps it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970; negative before it.
    pub seconds: i64,
    /// Nanoseconds, 0..1_000_000_000.
    pub nanos: u32,
}

/// The fields of `stat(2)`, as the backing file system returned them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// Inode number of the backing file system (made unique among the devices of a view by the reader of it).
    pub ino: u64,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Allocated, units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the contents.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number in the kernel's 32-bit encoding (`new_encode_dev`), for device files.
    pub rdev: u32,
    /// Preferred I/O size, bytes.
    pub blksize: u32,
}

impl Attributes {
    /// The kind in `mode`; a mode without type bits counts as a file.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::from_mode(self.mode).unwrap_or(Kind::File)
    }

    /// The version these attributes describe.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation { ino: self.ino, size_bytes: self.size_bytes, mtime: self.mtime, ctime: self.ctime }
    }
}

/// The version of a file or directory as read from the backing file system. Two reads with equal generations saw the
/// same contents, as far as a POSIX file system can tell (a change within the clock's grain is not seen by anyone).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Generation {
    /// Inode number.
    pub ino: u64,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Last change of the contents.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_agree_with_the_mode_bits() {
        for (mode, kind) in [(0o100_644, Kind::File), (0o040_755, Kind::Directory), (0o120_777, Kind::Symlink)] {
            assert_eq!(Kind::from_mode(mode), Some(kind));
            assert_eq!(Kind::from_dirent(kind.dirent()), Some(kind));
        }
        assert_eq!(Kind::from_mode(0o644), None);
    }

    #[test]
    fn a_touched_file_is_another_generation() {
        let before = Attributes { ino: 1, size_bytes: 2, ..Attributes::default() };
        let after = Attributes { mtime: Timestamp { seconds: 0, nanos: 1 }, ..before };
        assert_ne!(before.generation(), after.generation());
        let read = Attributes { atime: Timestamp { seconds: 9, nanos: 0 }, ..before };
        assert_eq!(before.generation(), read.generation());
    }
}
