//! Access checks by mode bits, as `path_resolution(7)` and `inode(7)` have it.

use forebay_types::{Attributes, Errno, Kind};
use forebay_wire::write::Caller;

pub const WRITE: u32 = 2;
pub const EXECUTE: u32 = 1;

/// Mode bits that lend rights.
pub const SET_UID: u32 = 0o4000;
pub const SET_GID: u32 = 0o2000;
/// Only owners remove entries.
const STICKY: u32 = 0o1000;
const GROUP_EXECUTE: u32 = 0o010;

/// Whether `caller` may do what `wanted` says (the bits of `access(2)`).
///
/// # Errors
/// EACCES.
pub fn check(caller: &Caller, attributes: &Attributes, wanted: u32) -> Result<(), Errno> {
    let mode = attributes.mode;
    if caller.uid == 0 {
        let may = wanted & EXECUTE == 0 || attributes.kind() == Kind::Directory || mode & 0o111 != 0;
        return if may { Ok(()) } else { Err(Errno::EACCES) };
    }
    let granted = match () {
        () if caller.uid == attributes.uid => mode >> 6,
        () if is_member(caller, attributes.gid) => mode >> 3,
        () => mode,
    };
    if granted & wanted == wanted { Ok(()) } else { Err(Errno::EACCES) }
}

/// Whether the caller owns the file, or is root.
pub fn is_owner(caller: &Caller, attributes: &Attributes) -> bool {
    caller.uid == 0 || caller.uid == attributes.uid
}

pub fn is_member(caller: &Caller, gid: u32) -> bool {
    caller.gid == gid || caller.groups.contains(&gid)
}

/// Whether `caller` may take away the entry in `directory` that names `file`.
///
/// # Errors
/// EACCES when the directory may not be written to, EPERM when its sticky bit forbids it.
pub fn check_removal(caller: &Caller, directory: &Attributes, file: &Attributes) -> Result<(), Errno> {
    check(caller, directory, WRITE)?;
    let is_sticky = directory.mode & STICKY != 0;
    if is_sticky && !is_owner(caller, file) && !is_owner(caller, directory) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// The mode of a file after `caller` wrote to it or gave it away: it lends no rights any more.
pub fn without_lent_rights(caller: &Caller, attributes: &Attributes) -> u32 {
    let mode = attributes.mode;
    if matches!(attributes.kind(), Kind::Directory | Kind::Symlink) {
        return mode;
    }
    // Without the group's execute bit it means mandatory locking, and stays where a member of the group changes the file.
    let is_lent = mode & GROUP_EXECUTE != 0 || caller.uid != 0 && !is_member(caller, attributes.gid);
    mode & !(SET_UID | if is_lent { SET_GID } else { 0 })
}
