//! What is written down of drafts, and of files that are changed where they are, so that the next daemon knows them.

use forebay_store::Draft;
use forebay_types::{Errno, FileId, ViewPath};
use forebay_wire::write::{Operation, Place};
use forebay_write::Action;

use crate::write::tree::owner::{Owner, draft_path};

/// A file is about to have a draft, which goes with it whatever happens to this daemon.
///
/// # Errors
/// What keeps that from being written down.
pub fn note_draft(owner: &Owner, file: FileId, directory: FileId) -> Result<(), Errno> {
    let has_draft = owner.tree().draft(file).is_some();
    if has_draft { Ok(()) } else { owner.carry_out_own(Operation::Drafting { file, directory }).map(drop) }
}

/// A file that programs have open is about to lose its last name on the backing file system: it stays there as its own draft, which goes when
/// the last of them has closed it. So it outlives this daemon. Where there are no hard links, this daemon keeps it open.
///
/// # Errors
/// What keeps that from being written down.
pub fn keep_as_draft(owner: &Owner, file: FileId, at: &Place) -> Result<(), Errno> {
    if !owner.tree().has_base(file) {
        return Ok(());
    }
    let path = owner.path_of(at)?;
    note_draft(owner, file, at.directory)?;
    let (draft, number) = {
        let tree = owner.tree();
        (draft_path(&tree, file).ok_or(Errno::ESTALE)?, tree.draft_number(file))
    };
    // A daemon that died before it could say so has made it, and perhaps taken the name.
    let is_kept = || owner.hold(file, &draft).is_ok();
    if !is_kept()
        && owner.hold(file, &path).is_ok()
        && owner.local.calls.land(|| owner.local.place.link(&path, &draft, number)).is_err()
    {
        owner.keep_open(file, &path);
    }
    Ok(())
}

/// Somebody has removed a draft. Where logs have all that was in it, it is made again, by whoever looks next.
///
/// # Errors
/// EAGAIN then; else what was the matter.
pub fn begin_anew<T>(owner: &Owner, file: FileId, errno: Errno) -> Result<T, Errno> {
    let draft = {
        let tree = owner.tree();
        tree.draft(file).filter(|_| !tree.has_base(file))
    };
    match (errno, draft) {
        (Errno::ENOENT | Errno::ESTALE, Some((directory, _))) => {
            owner.carry_out_own(Operation::Drafting { file, directory })?;
            Err(Errno::EAGAIN)
        }
        _ => Err(errno),
    }
}

/// A draft is not written to any more, and nothing of it counts: what comes to it late reaches nobody. The file's next draft is another
/// file of the same name.
///
/// # Errors
/// What keeps that from being written down.
pub fn give_up(owner: &Owner, file: FileId, path: &ViewPath) -> Result<(), Errno> {
    let directory = owner.tree().draft(file).map(|(directory, _)| directory);
    if let Some(directory) = directory {
        owner.carry_out_own(Operation::Drafting { file, directory })?;
    }
    owner.local.calls.land(|| owner.local.place.remove(path, false))
}

/// A file that was being changed where it is could not be changed whole, and is as it is now.
pub fn note_as_left(owner: &Owner, file: FileId, path: &ViewPath) {
    let is_there = owner.tree().backing_place(file).is_some();
    if is_there
        && let Ok(held) = owner.hold(file, path)
        && let Err(errno) = owner.carry_out_own(Operation::Publishing { file, backed: held.backed() })
    {
        tracing::warn!(%path, %errno, "what others change in this file is not noticed until it has landed");
    }
}

/// Drafts that are in a directory which an action takes away go to the root's.
///
/// # Errors
/// What the backing file system says.
pub fn save_drafts(owner: &Owner, action: &Action) -> Result<(), Errno> {
    let (Action::Remove { place: at, is_directory: true } | Action::Rename { to: at, is_exchange: false, .. }) = action
    else {
        return Ok(());
    };
    let tree = owner.tree();
    let moves = tree.drafts_at(at).into_iter().map(|file| {
        let from = draft_path(&tree, file).ok_or(Errno::ENOENT)?;
        let to = Draft::path(&ViewPath::root(), tree.draft_number(file))?;
        // Before it is forked, what a file has is where the file is.
        let is_needed = tree.has_base(file) && tree.backing_place(file).is_none();
        Ok((from, to, tree.backed(file).map(|backed| backed.generation.ino), is_needed))
    });
    let moves = moves.collect::<Result<Vec<_>, Errno>>()?;
    drop(tree);
    let (place, calls) = (&owner.local.place, &owner.local.calls);
    // A daemon that died before it could say so has moved it, and perhaps removed the directory.
    let is_moved = |to: &ViewPath, ino| calls.land(|| place.attributes(to)).is_ok_and(|found| Some(found.ino) == ino);
    moves.into_iter().filter(|(_, to, ino, _)| !is_moved(to, *ino)).try_for_each(|(from, to, ino, is_needed)| {
        match calls.land(|| place.rename(&from, &to, false, ino)) {
            // It was noted, and never made.
            Err(Errno::ENOENT) if !is_needed => Ok(()),
            renamed => renamed,
        }
    })
}
