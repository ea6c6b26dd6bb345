//! Modes, owners and times of files that land. Those that programs set land with their files; those that others give a file where it lies stay,
//! and so does what belongs to another user, where this daemon is not root.

use std::sync::Arc;

use forebay_store::Held;
use forebay_types::{Attributes, Errno, FileId, Rights, ViewPath};
use rustix::process::{getegid, geteuid};

use crate::write::tree::leader::Leader;

/// Writes to a file that is there. A user who runs it gets no rights of its owner meanwhile, and afterwards only where root alone has
/// written.
///
/// # Errors
/// The backing file system's error, or that of `write`.
pub async fn write_to<T>(
    leader: &Leader,
    file: FileId,
    held: &Arc<Held>,
    write: impl Future<Output = Result<T, Errno>>,
) -> Result<T, Errno> {
    let (calls, of_file) = (&leader.local.calls, Arc::clone(held));
    let lent = calls.land(move || of_file.end_lent_rights()).await?;
    let written = write.await;
    // The tree has taken them away when others wrote.
    let known = leader.tree().state(file).map_or(0, |state| state.attributes.mode);
    let of_file = Arc::clone(held);
    let lent_again = calls.land(move || of_file.lend_again(lent & known)).await;
    let written = written?;
    lent_again.map(|()| written)
}

/// Gives what the tree has made, at `path`, all that it has in the tree.
///
/// # Errors
/// The backing file system's error.
pub async fn give_all(
    leader: &Leader,
    held: &Arc<Held>,
    attributes: &Attributes,
    path: &ViewPath,
) -> Result<(), Errno> {
    let (held, attributes) = (Arc::clone(held), *attributes);
    let is_given = leader.local.calls.land(move || held.set_attributes(&attributes)).await?;
    warn_unless(is_given, path);
    Ok(())
}

/// Gives a file that is there the times that it has in the tree, and mode and owner where programs have set them (`is_own`).
///
/// # Errors
/// The backing file system's error.
pub async fn give(
    leader: &Leader,
    held: &Arc<Held>,
    (attributes, is_own): (&Attributes, bool),
    path: &ViewPath,
) -> Result<(), Errno> {
    if is_own {
        return give_all(leader, held, attributes, path).await;
    }
    let (held, attributes) = (Arc::clone(held), *attributes);
    let is_given = leader.local.calls.land(move || held.set_times(&attributes)).await?;
    warn_unless(is_given, path);
    Ok(())
}

fn warn_unless(is_given: bool, path: &ViewPath) {
    if !is_given {
        tracing::warn!(%path, "this belongs to another user: its mode and times stay as they are there");
    }
}

/// The rights of the copy that lands beside a file which others have changed: it may have bytes of theirs.
pub fn of_copy(leader: &Leader, file: FileId, theirs: &Attributes) -> Rights {
    let theirs = Rights::of(theirs);
    let own = {
        let tree = leader.tree();
        tree.state(file).ok().filter(|_| tree.has_own_rights(file)).map(|state| Rights::of(&state.attributes))
    };
    let copy = own.unwrap_or(theirs);
    if geteuid().is_root() {
        return copy.beside(theirs, copy.gid == theirs.gid);
    }
    // It belongs to this user and, perhaps, a group of this one's.
    Rights { uid: geteuid().as_raw(), gid: getegid().as_raw(), ..copy }.beside(theirs, false)
}
