//! The backing file system: a small tree whose every attribute and absence is known.

use std::collections::BTreeMap;

use forebay_random::Random;
use forebay_types::{Attributes, Errno, Generation, Kind, Name, ViewPath};
use forebay_wire::{EntryRecord, Listing, ListingBuilder, ListingEntry};

/// Entries up to which the model's listings carry attributes: small, so that pages are met often.
const FULL_ENTRIES: usize = 12;

/// A file, directory or symbolic link.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its attributes.
    pub attributes: Attributes,
    /// A symbolic link's target.
    pub target: Vec<u8>,
    /// Whether a directory may be listed; it may always be searched.
    pub listable: bool,
}

impl Node {
    /// One with no more than a kind, a size and an inode number.
    #[must_use]
    pub fn new(kind: Kind, size_bytes: u64, ino: u64, listable: bool) -> Self {
        let mode = (u32::from(kind.dirent()) << 12) | 0o755;
        let attributes = Attributes { ino, size_bytes, mode, nlink: 1, ..Attributes::default() };
        let target = if kind == Kind::Symlink { format!("to{size_bytes}").into_bytes() } else { Vec::new() };
        Self { attributes, target, listable }
    }
}

/// The tree.
#[derive(Clone, Debug)]
pub struct Model {
    /// Everything in it, by path.
    pub nodes: BTreeMap<ViewPath, Node>,
}

impl Model {
    /// A tree of some 15 directories and 300 files and links, by seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut model = Self { nodes: BTreeMap::new() };
        let mut random = Random::new(seed);
        model.add(ViewPath::root(), Kind::Directory, &mut random);
        let mut dirs = vec![ViewPath::root()];
        for number in 0..14 {
            let parent = dirs[random.below(dirs.len() as u64) as usize].clone();
            let dir = parent.join(format!("d{number}").as_bytes()).unwrap();
            model.add(dir.clone(), Kind::Directory, &mut random);
            dirs.push(dir);
        }
        for dir in &dirs {
            for number in 0..random.below(3 * FULL_ENTRIES as u64) {
                let kind = if random.below(8) == 0 { Kind::Symlink } else { Kind::File };
                model.add(dir.join(format!("f{number}").as_bytes()).unwrap(), kind, &mut random);
            }
        }
        model
    }

    /// Eight packages, each with a directory of the same name that holds ten small files.
    #[must_use]
    pub fn packages(seed: u64) -> Self {
        let mut model = Self { nodes: BTreeMap::new() };
        let mut random = Random::new(seed);
        model.add_sized(ViewPath::root(), Kind::Directory, 0, true);
        for package in 0..8 {
            let dir = ViewPath::new(format!("p{package}").as_bytes()).unwrap();
            let cache = dir.join(b"cache").unwrap();
            model.add_sized(dir, Kind::Directory, 0, true);
            model.add_sized(cache.clone(), Kind::Directory, 0, true);
            for file in 0..10 {
                let path = cache.join(format!("m{file}.pyc").as_bytes()).unwrap();
                model.add_sized(path, Kind::File, 1 + random.below(30_000), true);
            }
        }
        model
    }

    fn add(&mut self, path: ViewPath, kind: Kind, random: &mut Random) {
        let size_bytes = match random.below(4) {
            0 => 0,
            1 => random.below(5 << 20),
            _ => random.below(100_000),
        };
        let listable = path.is_root() || random.below(6) != 0;
        self.add_sized(path, kind, size_bytes, listable);
    }

    fn add_sized(&mut self, path: ViewPath, kind: Kind, size_bytes: u64, listable: bool) {
        let ino = self.nodes.len() as u64 + 2;
        self.nodes.insert(path, Node::new(kind, size_bytes, ino, listable));
    }

    /// The paths of a refresh of this number: all, a directory, or a directory with one that may lie in it.
    #[must_use]
    pub fn subtrees(&self, number: u64) -> Vec<ViewPath> {
        let is_dir = |node: &Node| node.attributes.kind() == Kind::Directory;
        let dirs: Vec<&ViewPath> = self.nodes.iter().filter(|(_, node)| is_dir(node)).map(|(path, _)| path).collect();
        let dir = |number: u64| dirs[(number % dirs.len() as u64) as usize].clone();
        match number % 4 {
            0 => vec![ViewPath::root()],
            1 => vec![dir(number / 4), dir(number / 1024)],
            _ => vec![dir(number / 4)],
        }
    }

    /// Whether a directory stands at a path.
    #[must_use]
    pub fn is_directory(&self, path: &ViewPath) -> bool {
        self.nodes.get(path).is_some_and(|node| node.attributes.kind() == Kind::Directory)
    }

    fn directory(&self, path: &ViewPath) -> Result<&Node, Errno> {
        let node = self.nodes.get(path).ok_or(Errno::ENOENT)?;
        if node.attributes.kind() == Kind::Directory { Ok(node) } else { Err(Errno::ENOTDIR) }
    }

    /// The listing of a directory.
    ///
    /// # Errors
    /// `EACCES` for one that may only be searched, `ENOENT` where there is nothing, `ENOTDIR` where something else is.
    pub fn listing(&self, dir: &ViewPath) -> Result<Listing, Errno> {
        let node = self.directory(dir)?;
        if !node.listable {
            return Err(Errno::EACCES);
        }
        let children: Vec<_> = self.children(dir).collect();
        let full = children.len() <= FULL_ENTRIES;
        let mut builder = ListingBuilder::new();
        for (path, node) in children {
            let (_, name) = path.split().unwrap();
            let attributes = full.then_some(node.attributes);
            let (kind, ino) = (node.attributes.kind(), node.attributes.ino);
            builder.push(ListingEntry { name, kind, ino, attributes, target: &node.target }).unwrap();
        }
        Ok(builder.finish(&node.attributes).unwrap())
    }

    /// The record of a name, if it is there.
    ///
    /// # Errors
    /// `ENOENT` where there is no directory, `ENOTDIR` where something else is.
    pub fn record(&self, dir: &ViewPath, name: &Name) -> Result<Option<EntryRecord>, Errno> {
        self.directory(dir)?;
        let node = dir.join(name.as_bytes()).ok().and_then(|path| self.nodes.get(&path));
        Ok(node.map(|node| EntryRecord { attributes: node.attributes, target: node.target.clone() }))
    }

    /// The version of a file.
    ///
    /// # Errors
    /// `ENOENT` where there is nothing, `EISDIR` where there is a directory.
    pub fn generation(&self, file: &ViewPath) -> Result<Generation, Errno> {
        let node = self.nodes.get(file).ok_or(Errno::ENOENT)?;
        if node.attributes.kind() == Kind::Directory { Err(Errno::EISDIR) } else { Ok(node.attributes.generation()) }
    }

    /// The file of a number, if there is any file.
    #[must_use]
    pub fn file(&self, number: u64) -> Option<ViewPath> {
        self.one_of(Kind::File, number)
    }

    /// The entry of a kind that has a number, if there is one.
    #[must_use]
    pub fn one_of(&self, kind: Kind, number: u64) -> Option<ViewPath> {
        let all = || self.nodes.iter().filter(|(_, node)| node.attributes.kind() == kind);
        let count = all().count() as u64;
        all().nth(number.checked_rem(count)? as usize).map(|(path, _)| path.clone())
    }

    /// The entries of a directory, in the order of names.
    pub fn children<'a>(&'a self, dir: &'a ViewPath) -> impl Iterator<Item = (&'a ViewPath, &'a Node)> {
        self.nodes.iter().filter(move |(path, _)| path.split().is_some_and(|(parent, _)| parent == *dir))
    }
}
