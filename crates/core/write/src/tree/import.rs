//! Files that are there on the backing file system already. A tree is as large as the backing file system would have it, and memory is not: what
//! is only there, as it was met, can be forgotten and imported again.

use forebay_types::{Attributes, BackingId, FileId, Kind};
use forebay_wire::journal::ImportedEntry;
use forebay_wire::write::{BURST_ROOT, Place};

use super::nodes::{Contents, Directory, Node, inode_number};
use super::state::{Refusal, Tree};
use crate::extents::Extents;
use crate::limits::LINKS_MAX;

impl Tree {
    /// Takes entries of a directory in. One that has all its entries already keeps them: another node was faster.
    pub(super) fn import(
        &mut self,
        directory: FileId,
        entries: &[ImportedEntry],
        is_last: bool,
    ) -> Result<(), Refusal> {
        match self.directory(directory) {
            Ok(_) => return Ok(()),
            Err(Refusal::Unlisted(_)) => {}
            Err(refused) => return Err(refused),
        }
        let known = &mut self.node_mut(directory)?.contents;
        let Contents::Directory(mut known) = std::mem::replace(known, Contents::Special) else {
            return Ok(());
        };
        // The leader may have done with steps that a follower has not: these decide which files are there.
        let _ = self.landing.turn();
        let mut directories = 0;
        for entry in entries {
            if known.get(&entry.name).is_some() || self.nodes.contains_key(&entry.file) {
                continue;
            }
            let file = self.import_link(directory, entry).unwrap_or_else(|| {
                self.import_one(directory, entry);
                entry.file
            });
            known.insert(&entry.name, file);
            directories += u32::from(entry.attributes.kind() == Kind::Directory);
        }
        if is_last {
            known.complete();
        }
        let node = self.node_mut(directory)?;
        node.attributes.nlink += directories;
        node.contents = Contents::Directory(known);
        Ok(())
    }

    /// Files that a directory has only there, as they were met, are forgotten. Directories stay: programs may be in them.
    pub(super) fn unlist(&mut self, directory: FileId) -> Result<(), Refusal> {
        self.directory(directory)?;
        // The leader may have skipped steps without effect, which a follower has not: both are as far now.
        let _ = self.landing.turn();
        let forgotten: Vec<(Place, FileId)> = self.forgettable(directory)?.collect();
        if forgotten.is_empty() {
            return Ok(());
        }
        for (place, file) in &forgotten {
            self.nodes.remove(file);
            self.landing.forget(*file, place);
        }
        let entries = self.directory_mut(directory)?;
        forgotten.iter().for_each(|(place, _)| entries.remove(&place.name));
        entries.unlist();
        Ok(())
    }

    /// Whether unlisting a directory would make any room.
    #[must_use]
    pub fn can_be_unlisted(&self, directory: FileId) -> bool {
        self.forgettable(directory).is_ok_and(|mut files| files.next().is_some())
    }

    fn forgettable(&self, directory: FileId) -> Result<impl Iterator<Item = (Place, FileId)>, Refusal> {
        let entries = self.directory(directory)?.entries_after(None);
        let is_there = directory == BURST_ROOT || self.landing.place(directory).is_some();
        // A name that is to go there, or to move, would be met again.
        let is_followed = is_there && !self.landing.has_steps_in(directory);
        let named = entries.filter(move |_| is_followed);
        let named = named.map(move |(name, file)| (Place { directory, name: name.clone() }, *file));
        Ok(named.filter(|(place, file)| self.is_as_met(place, *file)))
    }

    /// Whether a file is at a place as the backing file system had it there, and nobody has it open or locked.
    fn is_as_met(&self, place: &Place, file: FileId) -> bool {
        self.nodes.get(&file).is_some_and(|node| node.is_as_met && !node.is_active())
            && self.landing.is_as_imported(file, place)
            && !self.locks.has_any(file)
    }

    /// The directories whose entries are known, in no order that means anything.
    pub fn listed_directories(&self) -> impl Iterator<Item = FileId> {
        let is_listed = |node: &Node| matches!(&node.contents, Contents::Directory(directory) if directory.is_whole());
        self.nodes.iter().filter(move |(_, node)| is_listed(node)).map(|(file, _)| *file)
    }

    /// The file of the tree that an entry is another name of.
    pub(super) fn linked_by(&self, entry: &ImportedEntry) -> Option<FileId> {
        let kind = entry.attributes.kind();
        if kind == Kind::Directory || entry.attributes.nlink < 2 {
            return None;
        }
        let found = BackingId { generation: entry.attributes.generation(), born: entry.born, kind };
        let file = self.landing.found_as(&found)?;
        let node = self.nodes.get(&file)?;
        (node.attributes.nlink < LINKS_MAX).then_some(file)
    }

    fn import_link(&mut self, directory: FileId, entry: &ImportedEntry) -> Option<FileId> {
        let file = self.linked_by(entry)?;
        let node = self.nodes.get_mut(&file)?;
        if node.attributes.nlink == 0 {
            node.directory = directory;
        }
        node.attributes.nlink += 1;
        self.landing.import_link(file, entry.attributes.kind(), &Place { directory, name: entry.name.clone() });
        Some(file)
    }

    fn import_one(&mut self, directory: FileId, entry: &ImportedEntry) {
        let kind = entry.attributes.kind();
        let contents = match kind {
            Kind::Directory => Contents::Directory(Directory::new(true)),
            Kind::File => Contents::File(Extents::over(entry.attributes.size_bytes)),
            Kind::Symlink => Contents::Symlink(entry.target.clone()),
            _ => Contents::Special,
        };
        // Other names that a file has there may lie outside of the tree: those that were met count.
        let nlink = if kind == Kind::Directory { 2 } else { 1 };
        let attributes = Attributes { ino: inode_number(entry.file), nlink, ..entry.attributes };
        let place = Place { directory, name: entry.name.clone() };
        let backed = BackingId { generation: entry.attributes.generation(), born: entry.born, kind };
        self.landing.import(entry.file, kind, &place, backed);
        if kind == Kind::File {
            self.landing.note_names_elsewhere(entry.file, entry.attributes.nlink.saturating_sub(1));
        }
        let node = Node { is_as_met: kind != Kind::Directory, ..Node::new(attributes, contents, directory) };
        self.nodes.insert(entry.file, node);
    }
}
