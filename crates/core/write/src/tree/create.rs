//! New names: files, directories, links.

use forebay_types::{Attributes, Errno, FileId, Kind, NodeRank};
use forebay_wire::write::{Caller, Change, Done, FILE_SERIALS, Operation, Place};

use super::nodes::{BLOCK_BYTES, Contents, Directory, Node, inode_number};
use super::permissions::{self, SET_GID};
use super::state::{Refusal, Released, Tree};
use crate::extents::Extents;
use crate::landing::Step;
use crate::limits;

impl Tree {
    pub(super) fn create(&mut self, change: &Change, _: &mut Released) -> Result<Done, Refusal> {
        let Operation::Create { place, file, mode, rdev, target, is_opened, is_exclusive } = &change.operation else {
            return Err(Errno::EINVAL.into());
        };
        if let Some(found) = self.find_to_change(&change.caller, place)? {
            return if *is_exclusive || !is_opened { Err(Errno::EEXIST.into()) } else { self.open(change, found) };
        }
        let kind = Kind::from_mode(*mode).ok_or(Errno::EINVAL)?;
        self.check_new(*file)?;
        let parent = self.node(place.directory)?.attributes;
        if kind == Kind::Directory && parent.nlink >= limits::LINKS_MAX {
            return Err(Errno::EMLINK.into());
        }
        let mut attributes = inherited(&parent, &change.caller, *mode);
        (attributes.ino, attributes.rdev, attributes.size_bytes) = (inode_number(*file), *rdev, target.len() as u64);
        (attributes.atime, attributes.mtime, attributes.ctime) = (change.now, change.now, change.now);
        let contents = match kind {
            Kind::Directory => Contents::Directory(Directory::new(false)),
            Kind::File => Contents::File(Extents::default()),
            Kind::Symlink => Contents::Symlink(target.clone()),
            _ => Contents::Special,
        };
        let mut node = Node::new(attributes, contents, place.directory);
        node.is_dirty = kind == Kind::File;
        node.rights_step = Some(self.landing.end());
        if *is_opened {
            node.open(change.id.node);
        }
        self.nodes.insert(*file, node);
        self.enter(change, place, *file)?;
        self.landing.push(Step::Name { file: *file, kind, place: place.clone() });
        self.publish_if_closed(*file);
        Ok(Done::File(self.state(*file)?))
    }

    /// A file that goes when the last program has closed it, unless it gets a name before.
    pub(super) fn create_unnamed(
        &mut self,
        change: &Change,
        directory: FileId,
        file: FileId,
        mode: u32,
        may_be_named: bool,
    ) -> Result<Done, Refusal> {
        let Some(parent) = self.nodes.get(&directory).map(|node| node.attributes) else {
            return Err(self.find_in_removed(&change.caller, directory));
        };
        if parent.kind() != Kind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        permissions::check(&change.caller, &parent, permissions::WRITE | permissions::EXECUTE)?;
        self.check_new(file)?;
        let mut attributes = inherited(&parent, &change.caller, mode & 0o7777 | 0o100_000);
        (attributes.ino, attributes.nlink) = (inode_number(file), 0);
        (attributes.atime, attributes.mtime, attributes.ctime) = (change.now, change.now, change.now);
        let mut node = Node::new(attributes, Contents::File(Extents::default()), directory);
        (node.is_dirty, node.may_be_named) = (true, may_be_named);
        node.rights_step = Some(self.landing.end());
        node.open(change.id.node);
        self.nodes.insert(file, node);
        Ok(Done::File(self.state(file)?))
    }

    pub(super) fn link(&mut self, change: &Change, file: FileId, place: &Place) -> Result<Done, Refusal> {
        let attributes = self.node(file)?.attributes;
        if attributes.kind() == Kind::Directory {
            return Err(Errno::EPERM.into());
        }
        if self.find_to_change(&change.caller, place)?.is_some() {
            return Err(Errno::EEXIST.into());
        }
        // A file that has lost its names is gone as soon as it is closed, and may not come back (linkat(2)).
        if attributes.nlink == 0 && !self.node(file)?.may_be_named {
            return Err(Errno::ENOENT.into());
        }
        if attributes.nlink >= limits::LINKS_MAX {
            return Err(Errno::EMLINK.into());
        }
        let node = self.node_mut(file)?;
        node.attributes.nlink += 1;
        node.may_be_named = false;
        node.attributes.ctime = change.now;
        self.enter(change, place, file)?;
        self.landing.push(Step::Name { file, kind: attributes.kind(), place: place.clone() });
        Ok(Done::File(self.state(file)?))
    }

    /// A name that a node gives must be of its own count and new.
    fn check_new(&self, file: FileId) -> Result<(), Errno> {
        let is_root = file.creator == NodeRank(0) && file.serial == 0;
        if is_root || file.serial >= FILE_SERIALS || self.nodes.contains_key(&file) {
            Err(Errno::EINVAL)
        } else {
            Ok(())
        }
    }

    /// Adds an entry, and counts what is a directory.
    pub(super) fn enter(&mut self, change: &Change, place: &Place, file: FileId) -> Result<(), Errno> {
        let node = self.node_mut(file)?;
        node.directory = place.directory;
        let is_directory = node.attributes.kind() == Kind::Directory;
        self.directory_mut(place.directory)?.insert(&place.name, file);
        let parent = self.node_mut(place.directory)?;
        parent.attributes.nlink += u32::from(is_directory);
        parent.contents_changed(change.now);
        Ok(())
    }
}

/// The attributes of what `caller` makes in a directory.
fn inherited(parent: &Attributes, caller: &Caller, mode: u32) -> Attributes {
    let is_directory = Kind::from_mode(mode) == Some(Kind::Directory);
    let is_group_inherited = parent.mode & SET_GID != 0;
    let gid = if is_group_inherited { parent.gid } else { caller.gid };
    let foreign = caller.uid != 0 && !permissions::is_member(caller, gid);
    let mode = match is_directory {
        true if is_group_inherited => mode | SET_GID,
        false if foreign => mode & !SET_GID,
        _ => mode,
    };
    let nlink = if is_directory { 2 } else { 1 };
    Attributes { mode, nlink, uid: caller.uid, gid, blksize: BLOCK_BYTES, ..Attributes::default() }
}
