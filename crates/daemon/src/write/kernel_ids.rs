//! How the kernel names files, and what its flags mean.

use forebay_fuse::{NewTime, Request, open_flag};
use forebay_types::{Errno, FileId, Name, NodeRank, Timestamp};
use forebay_wire::write::{Caller, Done, Place, TimeChange};

const O_ACCMODE: u32 = 0o3;
const O_RDONLY: u32 = 0;
const O_RDWR: u32 = 2;
pub const O_EXCL: u32 = 0o200;
pub const O_TRUNC: u32 = 0o1000;
pub const O_APPEND: u32 = 0o2000;

/// The flags of an open that are in its handle, at its lowest bits; and where its number begins.
const HANDLE_FLAGS: u32 = 0o7777;
const HANDLE_NUMBER_AT: u32 = 16;

/// The bits of `access(2)`.
const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

/// The kernel opens a program that is to run.
const FMODE_EXEC: u32 = 0x20;

/// The user and the group without rights, `nobody`.
const NOBODY: u32 = 65_534;

/// The kernel's number of a file: also its inode number. 1 is the root's.
pub fn node_of(file: FileId) -> u64 {
    (u64::from(file.creator.0) << 40) + file.serial + 1
}

pub fn file_of(node: u64) -> FileId {
    let number = node.wrapping_sub(1);
    FileId { creator: NodeRank((number >> 40) as u32), serial: number & ((1 << 40) - 1) }
}

/// A name that the kernel sends.
pub fn place(directory: u64, name: &[u8]) -> Result<Place, Errno> {
    let name = Name::new(name).map_err(|_| Errno::ENAMETOOLONG)?;
    Ok(Place { directory: file_of(directory), name })
}

pub fn time(new: NewTime) -> TimeChange {
    match new {
        NewTime::Now => TimeChange::Now,
        NewTime::To(seconds, nanos) => TimeChange::To(Timestamp { seconds, nanos }),
    }
}

pub fn mode_of(done: &Done) -> u32 {
    match done {
        Done::File(state) => state.attributes.mode,
        Done::Nothing => 0,
    }
}

/// The writer, if the kernel says that the rights which the file lends end with the write: the process may not keep them (`CAP_FSETID`), even if
/// it is root's.
pub fn without_rights(request: &Request<'_>) -> Caller {
    let uid = if request.uid == 0 { NOBODY } else { request.uid };
    Caller { uid, gid: request.gid, groups: vec![] }
}

/// The unknown writer of bytes that an earlier daemon has left. The log does not name it, so the rights which the file lends end.
pub fn unknown_writer() -> Caller {
    Caller { uid: NOBODY, gid: NOBODY, groups: vec![] }
}

/// The access to a file that an open with these flags needs.
pub fn wanted(flags: u32) -> u32 {
    let access = match flags & O_ACCMODE {
        O_RDONLY if flags & FMODE_EXEC != 0 => EXECUTE,
        O_RDONLY => READ,
        O_RDWR => READ | WRITE,
        _ => WRITE,
    };
    access | if flags & O_TRUNC != 0 { WRITE } else { 0 }
}

/// The next daemon's knowledge of an open file: the flags that matter, and which open of its mount it is. The kernel numbers requests over
/// all daemons of a mount, and one that comes again has its number.
pub fn handle(request: &Request<'_>, flags: u32) -> u64 {
    request.id() << HANDLE_NUMBER_AT | u64::from(flags & HANDLE_FLAGS)
}

/// Whether who opens a file with these flags may change it.
pub fn may_write(flags: u32) -> bool {
    flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0
}

/// Whether who opens a file with these flags may change it through a map.
pub fn may_map(flags: u32) -> bool {
    flags & O_ACCMODE == O_RDWR
}

/// Writers go past the page cache; programs that only read go on with the pages that are there, if those are the file's.
pub fn open_flags(flags: u32, is_current: bool) -> u32 {
    match flags & O_ACCMODE {
        O_RDONLY if is_current => open_flag::KEEP_CACHE,
        O_RDONLY => 0,
        _ => open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES,
    }
}
