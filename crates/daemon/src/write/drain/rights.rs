//! Modes, owners and times of files that land. Those that programs set land with their files; those that others give a file where it lies stay,
//! and so does what belongs to another user, where this daemon is not root.

use forebay_store::Held;
use forebay_types::{Attributes, Errno, FileId, Rights, ViewPath};
use rustix::process::{getegid, geteuid};

use crate::write::tree::owner::Owner;

/// Writes to a file that is there. A user who runs it gets no rights of its owner meanwhile, and afterwards only where root alone has
/// written.
///
/// # Errors
/// The backing file system's error, or that of `write`.
pub fn write_to<T>(
    owner: &Owner,
    file: FileId,
    held: &Held,
    write: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let calls = &owner.local.calls;
    let lent = calls.land(|| held.end_lent_rights())?;
    let written = write();
    // The tree has taken them away when others wrote.
    let known = owner.tree().state(file).map_or(0, |state| state.attributes.mode);
    let lent_again = calls.land(|| held.lend_again(lent & known));
    let written = written?;
    lent_again.map(|()| written)
}

/// Gives what the tree has made, at `path`, all that it has in the tree.
///
/// # Errors
/// The backing file system's error.
pub fn give_all(owner: &Owner, held: &Held, attributes: &Attributes, path: &ViewPath) -> Result<(), Errno> {
    let is_given = owner.local.calls.land(|| held.set_attributes(attributes))?;
    warn_unless(is_given, path);
    Ok(())
}

/// Gives a file that is there the times that it has in the tree, and mode and owner where programs have set them (`is_own`).
///
/// # Errors
/// The backing file system's error.
pub fn give(
    owner: &Owner,
    held: &Held,
    (attributes, is_own): (&Attributes, bool),
    path: &ViewPath,
) -> Result<(), Errno> {
    if is_own {
        return give_all(owner, held, attributes, path);
    }
    let is_given = owner.local.calls.land(|| held.set_times(attributes))?;
    warn_unless(is_given, path);
    Ok(())
}

fn warn_unless(is_given: bool, path: &ViewPath) {
    if !is_given {
        tracing::warn!(%path, "this belongs to another user: its mode and times stay as they are there");
    }
}

/// The rights of the copy that lands beside a file which others have changed: it may have bytes of theirs.
pub fn of_copy(owner: &Owner, file: FileId, theirs: &Attributes) -> Rights {
    let theirs = Rights::of(theirs);
    let own = {
        let tree = owner.tree();
        tree.state(file).ok().filter(|_| tree.has_own_rights(file)).map(|state| Rights::of(&state.attributes))
    };
    let copy = own.unwrap_or(theirs);
    if geteuid().is_root() {
        return copy.beside(theirs, copy.gid == theirs.gid);
    }
    // It belongs to this user and, perhaps, a group of this one's.
    Rights { uid: geteuid().as_raw(), gid: getegid().as_raw(), ..copy }.beside(theirs, false)
}
