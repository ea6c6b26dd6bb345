//! Names that go.

use forebay_types::{Errno, FileId, Kind};
use forebay_wire::write::{Change, Done, Place};

use super::permissions;
use super::state::{Refusal, Released, Tree};
use crate::landing::Step;

impl Tree {
    pub(super) fn unlink(&mut self, change: &Change, place: &Place, released: &mut Released) -> Result<Done, Refusal> {
        let file = self.find_to_remove(change, place)?;
        if self.node(file)?.attributes.kind() == Kind::Directory {
            return Err(Errno::EISDIR.into());
        }
        self.leave(change, place, file)?;
        self.publish_for_elsewhere(file);
        self.landing.push(Step::Unname { file, place: place.clone() });
        self.drop_name(change, file, released);
        Ok(Done::Nothing)
    }

    pub(super) fn remove_directory(
        &mut self,
        change: &Change,
        place: &Place,
        released: &mut Released,
    ) -> Result<Done, Refusal> {
        let file = self.find_to_remove(change, place)?;
        if self.node(file)?.attributes.kind() != Kind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        if !self.directory(file)?.is_empty() {
            return Err(Errno::ENOTEMPTY.into());
        }
        self.leave(change, place, file)?;
        self.landing.push(Step::Unname { file, place: place.clone() });
        self.drop_name(change, file, released);
        Ok(Done::Nothing)
    }

    /// The file that `place` names, for a caller who may take that name away.
    pub(super) fn find_to_remove(&self, change: &Change, place: &Place) -> Result<FileId, Refusal> {
        let file = self.find(&change.caller, place)?.ok_or(Errno::ENOENT)?;
        let directory = &self.node(place.directory)?.attributes;
        permissions::check_removal(&change.caller, directory, &self.node(file)?.attributes)?;
        Ok(file)
    }

    /// Takes an entry away, and counts what is a directory.
    pub(super) fn leave(&mut self, change: &Change, place: &Place, file: FileId) -> Result<(), Errno> {
        let is_directory = self.node(file)?.attributes.kind() == Kind::Directory;
        self.directory_mut(place.directory)?.remove(&place.name);
        let parent = self.node_mut(place.directory)?;
        parent.attributes.nlink -= u32::from(is_directory);
        parent.contents_changed(change.now);
        Ok(())
    }

    /// A file is about to lose a name. Before the last that the tree knows goes, its contents land by that, for its other names on the
    /// backing file system: also while programs have it open.
    pub(super) fn publish_for_elsewhere(&mut self, file: FileId) {
        let is_last = self.nodes.get(&file).is_some_and(|node| node.attributes.nlink == 1);
        if is_last && self.landing.has_names_elsewhere(file) {
            let _ = self.publish_now(file);
        }
    }

    /// A file has one name less; an empty directory has none.
    pub(super) fn drop_name(&mut self, change: &Change, file: FileId, released: &mut Released) {
        if let Ok(node) = self.node_mut(file) {
            let is_directory = node.attributes.kind() == Kind::Directory;
            node.attributes.nlink = if is_directory { 0 } else { node.attributes.nlink - 1 };
            node.attributes.ctime = change.now;
        }
        self.release_if_unused(file, released);
    }
}
