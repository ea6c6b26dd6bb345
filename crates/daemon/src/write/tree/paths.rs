//! Where the tree's files lie on the backing file system by now.

use std::time::Duration;

use forebay_store::Draft;
use forebay_types::{Attributes, Errno, FileId, Kind, ViewPath, limits};
use forebay_wire::write::{BURST_ROOT, Piece, Place};
use forebay_wire::write_message::Contents;
use forebay_write::Tree;

/// How long a file may be between two names on the backing file system, or its contents under way there from a log: a rename
/// there, and its note.
pub const MOVING_MAX: Duration = Duration::from_secs(10);

/// How often it is looked for meanwhile.
pub const MOVING_LOOK: Duration = Duration::from_millis(2);

/// Mode bits without which this daemon could not go on in a directory of the backing file system.
const OWN_DIRECTORY: u32 = 0o700;

/// Below the place of the tree; nothing where a file is not there.
pub fn backing_path(tree: &Tree, file: FileId) -> Option<ViewPath> {
    if file == BURST_ROOT {
        return Some(ViewPath::root());
    }
    match tree.backing_place(file) {
        Some(place) => path_at(tree, place),
        None => draft_path(tree, file),
    }
}

/// Whether a file, or a directory that it is in, lies there under another name than its own: others have taken that.
pub fn lies_aside(tree: &Tree, file: FileId) -> bool {
    let above = |place: &&Place| tree.backing_place(place.directory);
    let mut places = std::iter::successors(tree.backing_place(file), above);
    places.any(|place| tree.backing_name(place) != &place.name)
}

/// All paths of a file, the draft last. Others may have taken any of them away or replaced it.
pub fn backing_paths(tree: &Tree, file: FileId) -> Vec<ViewPath> {
    let root = (file == BURST_ROOT).then(ViewPath::root);
    let named = tree.backing_places(file).filter_map(|place| path_at(tree, place));
    root.into_iter().chain(named).chain(draft_path(tree, file)).collect()
}

fn path_at(tree: &Tree, place: &Place) -> Option<ViewPath> {
    backing_path(tree, place.directory)?.join_deep(tree.backing_name(place).as_bytes()).ok()
}

/// Where a file's draft is that stays there until it is whole, if it has one.
pub fn draft_path(tree: &Tree, file: FileId) -> Option<ViewPath> {
    let (directory, number) = tree.draft(file)?;
    Draft::path(&backing_path(tree, directory)?, number).ok()
}

/// Where pieces of a file are, for whoever reads them.
///
/// # Errors
/// ESTALE.
pub fn contents(tree: &Tree, file: FileId, pieces: Vec<Piece>) -> Result<Contents, Errno> {
    // The leader itself reads what lies deeper than a path that is sent.
    let path = backing_path(tree, file).filter(|path| path.as_bytes().len() <= limits::PATH_BYTES_MAX);
    Ok(Contents { state: tree.state(file)?, pieces, backing: path.zip(tree.backed(file)) })
}

/// The attributes that a file is to have on the backing file system; `None` when it is gone.
pub fn landed_attributes(tree: &Tree, file: FileId) -> Option<Attributes> {
    let attributes = tree.state(file).ok()?.attributes;
    let is_directory = attributes.kind() == Kind::Directory;
    Some(Attributes { mode: attributes.mode | if is_directory { OWN_DIRECTORY } else { 0 }, ..attributes })
}
