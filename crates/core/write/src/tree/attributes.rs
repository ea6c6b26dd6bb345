//! `chmod`, `chown`, `utimensat`, `truncate`.

use forebay_types::{Attributes, Errno, FileId, Kind, Timestamp};
use forebay_wire::write::{AttributeChanges, Caller, Change, Done, TimeChange};

use super::nodes::Contents;
use super::permissions::{self, SET_GID, WRITE};
use super::state::{Refusal, Released, Tree};
use crate::landing::Step;
use crate::limits;

/// The bits of a mode that `chmod` sets.
const PERMISSION_BITS: u32 = 0o7777;

impl Tree {
    pub(super) fn set_attributes(
        &mut self,
        change: &Change,
        file: FileId,
        changes: &AttributeChanges,
        released: &mut Released,
    ) -> Result<Done, Refusal> {
        let attributes = self.node(file)?.attributes;
        check(&change.caller, &attributes, changes)?;
        if let Some(size_bytes) = changes.size_bytes {
            self.truncate(change, file, size_bytes, released)?;
        }
        let step = self.landing.end();
        let node = self.node_mut(file)?;
        change_owner(&change.caller, &mut node.attributes, changes);
        if let Some(mode) = changes.mode {
            let lent = if may_lend_group(&change.caller, &node.attributes) {
                PERMISSION_BITS
            } else {
                PERMISSION_BITS & !SET_GID
            };
            node.attributes.mode = node.attributes.mode & !PERMISSION_BITS | mode & lent;
        }
        let time = |to: Option<TimeChange>, before: Timestamp| match to {
            None => before,
            Some(TimeChange::Now) => change.now,
            Some(TimeChange::To(time)) => time,
        };
        node.attributes.atime = time(changes.atime, node.attributes.atime);
        node.attributes.mtime = time(changes.mtime, node.attributes.mtime);
        node.attributes.ctime = change.now;
        if changes.mode.or(changes.uid).or(changes.gid).is_some() {
            node.rights_step = Some(step);
        }
        self.landing.push(Step::Attributes { file });
        self.publish_if_closed(file);
        Ok(Done::File(self.state(file)?))
    }

    fn truncate(
        &mut self,
        change: &Change,
        file: FileId,
        size_bytes: u64,
        released: &mut Released,
    ) -> Result<(), Errno> {
        let node = self.node_mut(file)?;
        let Contents::File(extents) = &mut node.contents else { return Err(Errno::EINVAL) };
        let before = extents.counted_bytes();
        extents.truncate(size_bytes, &mut released.extents);
        let is_cut = size_bytes < node.attributes.size_bytes;
        node.attributes.size_bytes = size_bytes;
        node.recount(before);
        node.contents_changed(change.now);
        if is_cut {
            node.cut_at = node.version;
        }
        self.end_lent_rights(&change.caller, file)
    }
}

/// Whether all of `changes` are allowed.
fn check(caller: &Caller, attributes: &Attributes, changes: &AttributeChanges) -> Result<(), Errno> {
    let is_owner = permissions::is_owner(caller, attributes);
    if changes.mode.is_some() && !is_owner {
        return Err(Errno::EPERM);
    }
    let is_given_away = changes.uid.is_some_and(|uid| uid != attributes.uid);
    let is_foreign = changes.gid.is_some_and(|gid| gid != attributes.gid && !permissions::is_member(caller, gid));
    if caller.uid != 0 && (changes.uid.is_some() || changes.gid.is_some()) && (!is_owner || is_given_away || is_foreign)
    {
        return Err(Errno::EPERM);
    }
    let times = [changes.atime, changes.mtime];
    if times.iter().any(|time| matches!(time, Some(TimeChange::To(_)))) && !is_owner {
        return Err(Errno::EPERM);
    }
    if times.contains(&Some(TimeChange::Now)) && !is_owner {
        permissions::check(caller, attributes, WRITE)?;
    }
    changes
        .size_bytes
        .map_or(Ok(()), |size_bytes| check_size(caller, attributes, size_bytes, changes.is_through_descriptor))
}

fn check_size(caller: &Caller, attributes: &Attributes, size_bytes: u64, is_open: bool) -> Result<(), Errno> {
    match attributes.kind() {
        Kind::Directory => return Err(Errno::EISDIR),
        Kind::File => {}
        _ => return Err(Errno::EINVAL),
    }
    if size_bytes > limits::FILE_BYTES_MAX {
        return Err(Errno::EFBIG);
    }
    if is_open { Ok(()) } else { permissions::check(caller, attributes, WRITE) }
}

/// Sets owner and group. A new owner does not get rights that the file lends.
fn change_owner(caller: &Caller, attributes: &mut Attributes, changes: &AttributeChanges) {
    if changes.uid.is_some() || changes.gid.is_some() {
        attributes.mode = permissions::without_lent_rights(caller, attributes);
    }
    attributes.uid = changes.uid.unwrap_or(attributes.uid);
    attributes.gid = changes.gid.unwrap_or(attributes.gid);
}

/// Whether `caller` may let a file lend its group's rights.
fn may_lend_group(caller: &Caller, attributes: &Attributes) -> bool {
    caller.uid == 0 || permissions::is_member(caller, attributes.gid)
}
