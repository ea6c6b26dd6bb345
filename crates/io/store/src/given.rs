//! Attributes of a file that its counterpart on the backing file system gets.

use forebay_types::{Attributes, Kind, Timestamp};
use rustix::fs::{Mode, Timespec, Timestamps};
use rustix::process::{getegid, geteuid};

/// The bits of a mode that lend the owner's and the group's rights.
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;

const GROUP_EXECUTE: u32 = 0o010;

/// The bits of a file's mode by which who runs it gets rights of its owner or group.
pub(crate) fn lent_bits(attributes: &Attributes) -> u32 {
    // Without the group's execute bit the other one means mandatory locking.
    let of_group = if attributes.mode & GROUP_EXECUTE == 0 { 0 } else { SET_GID };
    if attributes.kind() == Kind::File { attributes.mode & (SET_UID | of_group) } else { 0 }
}

/// The mode that a file gets. Without root it has this process's owner, and perhaps its group, whoever made it in the tree.
pub(crate) fn lent_mode(attributes: &Attributes) -> Mode {
    // A directory lends nothing: there the bit is for what is made in it.
    let is_root = geteuid().is_root() || attributes.kind() == Kind::Directory;
    let keeps_uid = is_root || attributes.uid == geteuid().as_raw();
    let keeps_gid = is_root || attributes.gid == getegid().as_raw();
    let lost = if keeps_uid { 0 } else { SET_UID } | if keeps_uid && keeps_gid { 0 } else { SET_GID };
    Mode::from_raw_mode(attributes.mode & !lost)
}

/// The times of a file, for the calls that set them.
pub(crate) fn times(attributes: &Attributes) -> Timestamps {
    let time = |time: Timestamp| Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() };
    Timestamps { last_access: time(attributes.atime), last_modification: time(attributes.mtime) }
}
