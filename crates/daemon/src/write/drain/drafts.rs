//! Records of drafts, and of files that are changed where they are, so that the next daemon knows them.

use forebay_store::Draft;
use forebay_types::{BackingId, Errno, FileId, ViewPath};
use forebay_wire::journal::LeaderEntry;
use forebay_wire::write::Place;
use forebay_write::{Action, Identified};

use crate::write::calls::MayLand;
use crate::write::tree::leader::Leader;
use crate::write::tree::paths::draft_path;

/// A file is about to have a draft, which goes with it whatever happens to this daemon.
///
/// # Errors
/// The error that kept that from being recorded.
pub async fn note_draft(leader: &Leader, file: FileId, directory: FileId) -> Result<(), Errno> {
    let has_draft = leader.tree().draft(file).is_some();
    if has_draft { Ok(()) } else { leader.note_found(LeaderEntry::Drafting { file, directory }).await }
}

/// Files that an action takes the last name from, and that are needed, stay there as drafts, or open.
///
/// # Errors
/// The error that kept that from being recorded.
pub async fn keep_open(leader: &Leader, action: &Action) -> Result<(), Errno> {
    let places = match action {
        Action::Remove { place, .. }
        | Action::Rename { to: place, is_exchange: false, .. }
        | Action::Link { to: place, .. } => std::slice::from_ref(place),
        Action::Publish { places, .. } => places,
        _ => return Ok(()),
    };
    for place in places {
        let unlinked = leader.tree().unlinked_at(place);
        if let Some(file) = unlinked {
            keep_as_draft(leader, file, place).await?;
        }
    }
    Ok(())
}

/// A file that programs have open, or that is to change for names which the tree does not know, is about to lose its last name that the tree
/// knows there. This daemon keeps it open. The file stays there as
/// its own draft, too, which goes when the last program has closed it: so it outlives this daemon, where there are hard links.
///
/// # Errors
/// The error that kept that from being recorded.
async fn keep_as_draft(leader: &Leader, file: FileId, at: &Place) -> Result<(), Errno> {
    let is_needed = {
        let tree = leader.tree();
        tree.is_backing_resident(file) || tree.has_names_elsewhere(file)
    };
    let Some(path) = leader.path_of(at).ok().filter(|_| is_needed) else { return Ok(()) };
    let held = match leader.hold(file, &path).await {
        // Others have taken the name, or a daemon before this one that died before it could say so.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE) => return Ok(()),
        held => held?,
    };
    leader.keep_open(file, &path).await;
    let identified = leader.tree().identify(file, &held.backed());
    if identified != Identified::Unmodified {
        // It is theirs from now on.
        return Ok(());
    }
    let has_draft = leader.tree().draft(file).is_some();
    if !has_draft {
        leader.note_found(LeaderEntry::Drafting { file, directory: at.directory }).await?;
        leader.make_durable().await?;
    }
    let draft = draft_path(&leader.tree(), file);
    let Some(draft) = draft else { return Ok(()) };
    let from = path.clone();
    let linked = leader.local.land(move |place| place.link_beside(&from, &draft)).await;
    if let Err(errno @ (Errno::ENOSPC | Errno::EDQUOT | Errno::EIO)) = linked
        && leader.tree().has_names_elsewhere(file)
    {
        // Bytes for its other names would be lost.
        return Err(errno);
    }
    if let Err(errno) = linked {
        tracing::warn!(%path, %errno, "this file, which programs have open without a name, is lost if this daemon dies");
    }
    Ok(())
}

/// Drafts of files that programs have open without a name go with the job: nobody closes these any more. For a leader that still is one.
pub async fn remove_unlinked(leader: &Leader) {
    let drafts: Vec<ViewPath> = {
        let tree = leader.tree();
        tree.unlinked_with_drafts().into_iter().filter_map(|file| draft_path(&tree, file)).collect()
    };
    for draft in drafts {
        let path = draft.clone();
        let remove =
            move |leader: &Leader| leader.local.calls.serve_in_time(|| leader.local.place.remove(&path, false));
        if let Err(errno) = leader.call_backing(remove).await.and_then(|removed| removed) {
            tracing::warn!(%draft, %errno, "a draft stays");
        }
    }
}

/// Others have removed a draft. If logs have all that was in it, it is made again, by whoever looks next.
///
/// # Errors
/// EAGAIN then; else what was the matter.
pub async fn begin_anew<T>(leader: &Leader, file: FileId, errno: Errno) -> Result<T, Errno> {
    let draft = {
        let tree = leader.tree();
        tree.draft(file).filter(|_| !tree.is_backing_resident(file))
    };
    match (errno, draft) {
        (Errno::ENOENT | Errno::ESTALE, Some((directory, _))) => {
            leader.note_found(LeaderEntry::Drafting { file, directory }).await?;
            Err(Errno::EAGAIN)
        }
        _ => Err(errno),
    }
}

/// A draft is not written to any more, and nothing of it counts: what comes to it late reaches nobody. The file's next draft is another
/// file of the same name.
///
/// # Errors
/// The error that kept that from being recorded.
pub async fn give_up(leader: &Leader, file: FileId, draft: Draft) -> Result<(), Errno> {
    let directory = leader.tree().draft(file).map(|(directory, _)| directory);
    if let Some(directory) = directory {
        leader.note_found(LeaderEntry::Drafting { file, directory }).await?;
    }
    leader.local.land(move |_| draft.remove()).await
}

/// A draft that did not become whole goes, unless it is kept: it would take room until the next attempt. If this node does not lead the tree
/// any more, the draft is left to the leader that does, which finds it by its note. May block.
pub fn discard(draft: &Draft, may_land: &MayLand) {
    if draft.is_kept() {
        return;
    }
    if let Err(errno) = may_land.call(|| draft.remove()) {
        tracing::debug!(%errno, "a draft stays until the next attempt");
    }
}

/// The draft into which contents were `written`; otherwise it goes.
///
/// # Errors
/// The error of writing them.
pub async fn or_discard(leader: &Leader, draft: Draft, written: Result<(), Errno>) -> Result<Draft, Errno> {
    let Err(errno) = written else { return Ok(draft) };
    let discarded = leader.local.land_together(1, move |_, may_land| {
        discard(&draft, may_land);
        Ok(())
    });
    discarded.await.and(Err(errno))
}

/// Keeps a draft that has a part of its file.
///
/// # Errors
/// The backing file system's error.
pub async fn keep(leader: &Leader, mut draft: Draft) -> Result<BackingId, Errno> {
    let keep = leader.local.land_together(2, move |place, may_land| {
        let backed = may_land.call(|| place.backed_draft(&draft));
        let kept = backed.and_then(|backed| may_land.call(|| draft.keep()).map(|()| backed));
        kept.inspect_err(|_| discard(&draft, may_land))
    });
    keep.await
}

/// Checks that a found file is the one that the tree knows.
///
/// # Errors
/// ESTALE where it is another one.
pub fn check_same(leader: &Leader, file: FileId, found: &BackingId) -> Result<(), Errno> {
    let is_it = leader.tree().backed(file).is_none_or(|known| known.is_same_file(found));
    if is_it { Ok(()) } else { Err(Errno::ESTALE) }
}

/// A file that was being changed where it is could not be changed whole, and is as it is now.
pub async fn note_unmodified(leader: &Leader, file: FileId, path: &ViewPath) {
    let is_there = {
        let tree = leader.tree();
        tree.backing_place(file).is_some() || tree.has_names_elsewhere(file)
    };
    if is_there
        && let Ok(held) = leader.hold(file, path).await
        && let Err(errno) = leader.note_found(LeaderEntry::Publishing { file, backed: held.backed() }).await
    {
        tracing::warn!(%path, %errno, "what others change in this file is not noticed until it has landed");
    }
}

/// Drafts that are in a directory which an action takes away go to the root's.
///
/// # Errors
/// The backing file system's error.
pub async fn save_drafts(leader: &Leader, action: &Action) -> Result<(), Errno> {
    let (Action::Remove { place: at, is_directory: true } | Action::Rename { to: at, is_exchange: false, .. }) = action
    else {
        return Ok(());
    };
    let moves = {
        let tree = leader.tree();
        let moves = tree.drafts_at(at).into_iter().map(|file| {
            let from = draft_path(&tree, file).ok_or(Errno::ENOENT)?;
            let to = Draft::path(&ViewPath::root(), tree.draft_number(file))?;
            // Before it is forked, what a file has is where the file is.
            let has_name = tree.state(file).is_ok_and(|state| state.attributes.nlink > 0);
            // Without one, whoever has taken it away has taken away what only it had.
            let is_needed = has_name && tree.is_backing_resident(file) && tree.backing_place(file).is_none();
            Ok((from, to, tree.backed(file).map(|backed| backed.generation.ino), is_needed))
        });
        moves.collect::<Result<Vec<_>, Errno>>()?
    };
    for (from, to, ino, is_needed) in moves {
        let moved = leader.local.land_together(2, move |place, may_land| {
            // A daemon that died before it could say so has moved it, and perhaps removed the directory.
            match may_land.call(|| place.attributes(&to)) {
                Ok(found) if Some(found.ino) == ino => Ok(()),
                _ => may_land.call(|| place.rename(&from, &to, false, ino)),
            }
        });
        match moved.await {
            // It was noted, and never made.
            Err(Errno::ENOENT) if !is_needed => {}
            moved => moved?,
        }
    }
    Ok(())
}
