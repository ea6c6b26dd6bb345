//! Where the tree's files lie on the backing file system by now.

use forebay_store::Draft;
use forebay_types::{FileId, ViewPath};
use forebay_wire::write::BURST_ROOT;
use forebay_write::Tree;

/// Below the place of the tree; nothing where a file is not there.
pub fn backing_path(tree: &Tree, file: FileId) -> Option<ViewPath> {
    if file == BURST_ROOT {
        return Some(ViewPath::root());
    }
    match tree.backing_place(file) {
        Some(place) => backing_path(tree, place.directory)?.join_deep(tree.backing_name(place).as_bytes()).ok(),
        None => draft_path(tree, file),
    }
}

/// Where a file's draft is that stays there until it is whole, if it has one.
pub fn draft_path(tree: &Tree, file: FileId) -> Option<ViewPath> {
    let (directory, number) = tree.draft(file)?;
    Draft::path(&backing_path(tree, directory)?, number).ok()
}
