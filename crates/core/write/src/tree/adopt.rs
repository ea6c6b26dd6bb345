//! What is there on the backing file system already.

use forebay_types::{Attributes, Backed, Errno, FileId, Kind};
use forebay_wire::write::{AdoptedEntry, Done, Place};

use super::nodes::{Contents, Directory, Node, inode_number};
use super::state::{Refusal, Tree};
use crate::extents::Extents;

impl Tree {
    /// Takes entries of a directory in. One that has all its entries already keeps them: somebody else was faster.
    pub(super) fn adopt(
        &mut self,
        directory: FileId,
        entries: &[AdoptedEntry],
        is_last: bool,
    ) -> Result<Done, Refusal> {
        if self.directory(directory).is_ok() {
            return Ok(Done::Nothing);
        }
        for entry in entries {
            if self.directory_mut(directory)?.get(&entry.name).is_none() && !self.nodes.contains_key(&entry.file) {
                self.adopt_one(directory, entry)?;
            }
        }
        if is_last {
            self.directory_mut(directory)?.complete();
        }
        Ok(Done::Nothing)
    }

    fn adopt_one(&mut self, directory: FileId, entry: &AdoptedEntry) -> Result<(), Errno> {
        let kind = entry.attributes.kind();
        let contents = match kind {
            Kind::Directory => Contents::Directory(Directory::new(true)),
            Kind::File => Contents::File(Extents::over(entry.attributes.size_bytes)),
            Kind::Symlink => Contents::Symlink(entry.target.clone()),
            _ => Contents::Special,
        };
        // Other names that a file has there may lie outside of the tree; each name that is met is a file of its own.
        let nlink = if kind == Kind::Directory { 2 } else { 1 };
        let attributes = Attributes { ino: inode_number(entry.file), nlink, ..entry.attributes };
        let place = Place { directory, name: entry.name.clone() };
        let backed = Backed { generation: entry.attributes.generation(), born: entry.born, kind };
        self.landing.adopt(entry.file, kind, &place, backed);
        self.nodes.insert(entry.file, Node::new(attributes, contents, directory));
        self.directory_mut(directory)?.insert(&entry.name, entry.file);
        self.node_mut(directory)?.attributes.nlink += u32::from(kind == Kind::Directory);
        Ok(())
    }
}
