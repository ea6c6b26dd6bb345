//! The kernel's FUSE protocol as bytes: opcodes, flags and structures of `include/uapi/linux/fuse.h`, ABI 7.31 to 7.45.
//!
//! Only layouts, no behaviour. Everything is native-endian and padded to 8 bytes by the kernel's own rule, so each
//! structure is read and written whole (zerocopy checks at compile time that none has hidden padding). Names follow
//! the kernel header, so that it can be read beside this file.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Major version of the protocol.
pub const MAJOR: u32 = 7;
/// The newest minor version spoken here (Linux 6.18); older kernels are answered with their own.
pub const MINOR: u32 = 45;
/// The oldest minor version accepted (Linux 5.4): below it no-opendir and `EXPLICIT_INVAL_DATA` are missing.
pub const MINOR_MIN: u32 = 31;

/// Opcodes of requests.
#[allow(missing_docs)]
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const BMAP: u32 = 37;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const POLL: u32 = 40;
    pub const NOTIFY_REPLY: u32 = 41;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const SETUPMAPPING: u32 = 48;
    pub const REMOVEMAPPING: u32 = 49;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

/// Flags of INIT, 64 bits since ABI 7.36.
pub mod init_flag {
    /// Several reads of one file at once.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Locks are sent to the daemon: never asked for by a view, so that the kernel keeps real local ones.
    pub const POSIX_LOCKS: u64 = 1 << 1;
    /// `LOOKUP` of `.` and `..` finds any file by its node, for `open_by_handle_at(2)`.
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    /// Writes of more than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// `flock(2)` is sent to the daemon.
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    /// ioctl works on directories.
    pub const HAS_IOCTL_DIR: u64 = 1 << 11;
    /// The kernel drops pages when mtime or size changed: never asked for, because it asks for attributes at each read.
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    /// Listings carry attributes.
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    /// Only where the reader seems to want them.
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    /// ENOSYS to OPEN ends all OPEN and RELEASE messages.
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    /// Lookups and listings of one directory in parallel.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// `max_pages` of the answer counts.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// Link targets are kept in the page cache.
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    /// ENOSYS to OPENDIR ends all OPENDIR and RELEASEDIR messages.
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    /// Pages are dropped on a notification only.
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    /// The daemon takes lent rights away where somebody writes, truncates or gives away.
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    /// `flags2` counts.
    pub const INIT_EXT: u64 = 1 << 30;
    /// Files that are read and written directly can be mapped all the same (Linux 6.6).
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    /// A file can be read past the daemon, from another file of this machine (Linux 6.9); told of, not taken.
    pub const PASSTHROUGH: u64 = 1 << 37;
    /// Requests in flight are sent again on a notification, marked by the highest bit of their number.
    pub const HAS_RESEND: u64 = 1 << 39;
}

/// Flags of the answer to OPEN and OPENDIR.
pub mod open_flag {
    /// Reads bypass the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// Pages cached by earlier opens stay.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// Seeking fails.
    pub const NONSEEKABLE: u32 = 1 << 2;
    /// The kernel may cache the listing.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// No file position.
    pub const STREAM: u32 = 1 << 4;
    /// Close sends no FLUSH.
    pub const NOFLUSH: u32 = 1 << 5;
    /// Several direct writes at once, but for those that extend the file.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Flags of an IOCTL request.
pub mod ioctl_flag {
    /// From a 32-bit program.
    pub const COMPAT: u32 = 1 << 0;
    /// The daemon may ask for other buffers (CUSE only).
    pub const UNRESTRICTED: u32 = 1 << 1;
    /// The command came from a 32-bit program.
    pub const IS_32BIT: u32 = 1 << 3;
    /// On a directory.
    pub const DIR: u32 = 1 << 4;
}

/// Codes of notifications.
pub mod notify_code {
    /// Drop attributes and pages.
    pub const INVAL_INODE: i32 = 2;
    /// Drop a name.
    pub const INVAL_ENTRY: i32 = 3;
    /// Put bytes into the page cache.
    pub const STORE: i32 = 4;
    /// Send again what was read and not answered.
    pub const RESEND: i32 = 7;
    /// A name was deleted.
    pub const DELETE: i32 = 6;
    /// Drop all names at once (ABI 7.44).
    pub const INC_EPOCH: i32 = 8;
}

/// Which fields of SETATTR count.
#[allow(missing_docs)]
pub mod setattr_flag {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
}

/// `write_flags`: from the page cache.
pub const WRITE_CACHE: u32 = 1 << 0;

/// `write_flags`: the file lends no rights afterwards.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;

/// `release_flags`: what `flock(2)` gave to the descriptor is given back.
pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;

/// `lk_flags`: a lock of `flock(2)`.
pub const LK_FLOCK: u32 = 1 << 0;

/// In a request's number: it was sent before, to a daemon that has died.
pub const UNIQUE_RESEND: u64 = 1 << 63;

/// `getattr_flags`: `fh` is valid.
pub const GETATTR_FH: u32 = 1 << 0;
/// `fsync_flags`: contents only.
pub const FSYNC_FDATASYNC: u32 = 1 << 0;

macro_rules! wire_struct {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $field: $type),* }
    };
}

wire_struct! {
    /// Head of every request.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16,
    }
}
wire_struct! {
    /// Head of every reply (`error` is 0 or a negative errno) and notification (`error` is its code, `unique` is 0).
    OutHeader { len: u32, error: i32, unique: u64 }
}
wire_struct! {
    /// After the major and minor version; `flags2` follows where `INIT_EXT` is set.
    InitIn { max_readahead: u32, flags: u32 }
}
wire_struct! {
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused0: u16, unused: [u32; 5],
    }
}
wire_struct! {
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
}
wire_struct! {
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: Attr,
    }
}
wire_struct! { AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr } }
wire_struct! { GetattrIn { getattr_flags: u32, dummy: u32, fh: u64 } }
wire_struct! { StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 } }
wire_struct! { ForgetIn { nlookup: u64 } }
wire_struct! { ForgetOne { nodeid: u64, nlookup: u64 } }
wire_struct! { BatchForgetIn { count: u32, dummy: u32 } }
wire_struct! { OpenIn { flags: u32, open_flags: u32 } }
wire_struct! { OpenOut { fh: u64, open_flags: u32, backing_id: i32 } }
wire_struct! { ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 } }
wire_struct! { FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64 } }
wire_struct! {
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
}
wire_struct! { FsyncIn { fh: u64, fsync_flags: u32, padding: u32 } }
wire_struct! {
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
}
wire_struct! { MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 } }
wire_struct! { MkdirIn { mode: u32, umask: u32 } }
wire_struct! { RenameIn { newdir: u64 } }
wire_struct! { Rename2In { newdir: u64, flags: u32, padding: u32 } }
wire_struct! { LinkIn { oldnodeid: u64 } }
wire_struct! { CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 } }
wire_struct! {
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
}
wire_struct! { WriteOut { size: u32, padding: u32 } }
wire_struct! { FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 } }
wire_struct! { FileLock { start: u64, end: u64, kind: u32, pid: u32 } }
wire_struct! { LkIn { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32 } }
wire_struct! { SetxattrIn { size: u32, flags: u32 } }
wire_struct! { GetxattrIn { size: u32, padding: u32 } }
wire_struct! { GetxattrOut { size: u32, padding: u32 } }
wire_struct! { AccessIn { mask: u32, padding: u32 } }
wire_struct! { InterruptIn { unique: u64 } }
wire_struct! { BmapIn { block: u64, blocksize: u32, padding: u32 } }
wire_struct! { IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 } }
wire_struct! { IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 } }
wire_struct! { PollIn { fh: u64, kh: u64, flags: u32, events: u32 } }
wire_struct! { PollOut { revents: u32, padding: u32 } }
wire_struct! { LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 } }
wire_struct! { LseekOut { offset: u64 } }
wire_struct! {
    Kstatfs {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6],
    }
}
wire_struct! {
    /// Head of a directory entry; the name follows, padded to 8 bytes.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }
}
wire_struct! { NotifyInvalInodeOut { ino: u64, off: i64, len: i64 } }
wire_struct! { NotifyInvalEntryOut { parent: u64, namelen: u32, flags: u32 } }
wire_struct! { NotifyDeleteOut { parent: u64, child: u64, namelen: u32, padding: u32 } }
wire_struct! { NotifyStoreOut { nodeid: u64, offset: u64, size: u32, padding: u32 } }

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of `linux/fuse.h`, taken with `sizeof` from the header.
    #[test]
    fn structures_have_the_sizes_of_the_kernel_header() {
        let sizes = [
            (size_of::<InHeader>(), 40),
            (size_of::<OutHeader>(), 16),
            (size_of::<InitOut>(), 64),
            (size_of::<Attr>(), 88),
            (size_of::<EntryOut>(), 128),
            (size_of::<AttrOut>(), 104),
            (size_of::<GetattrIn>(), 16),
            (size_of::<StatxIn>(), 24),
            (size_of::<ForgetOne>(), 16),
            (size_of::<BatchForgetIn>(), 8),
            (size_of::<OpenOut>(), 16),
            (size_of::<ReleaseIn>(), 24),
            (size_of::<FlushIn>(), 24),
            (size_of::<ReadIn>(), 40),
            (size_of::<FsyncIn>(), 16),
            (size_of::<BmapIn>(), 16),
            (size_of::<IoctlIn>(), 32),
            (size_of::<IoctlOut>(), 16),
            (size_of::<PollIn>(), 24),
            (size_of::<LseekIn>(), 24),
            (size_of::<Kstatfs>(), 80),
            (size_of::<Dirent>(), 24),
            (size_of::<NotifyInvalInodeOut>(), 24),
            (size_of::<NotifyInvalEntryOut>(), 16),
            (size_of::<NotifyDeleteOut>(), 24),
            (size_of::<NotifyStoreOut>(), 24),
        ];
        for (index, (ours, kernels)) in sizes.into_iter().enumerate() {
            assert_eq!(ours, kernels, "structure {index} of the list");
        }
    }
}
