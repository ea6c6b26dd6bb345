//! The files of a model job, and the script that every program of it follows.
//!
//! A start-up of thousands of real operations is told in some hundred steps: a file, a directory or a chunk of the model
//! may stand for several real ones (its weight), which take as many messages, bytes and, where a program does one after
//! the other, round trips. The same script with weight 1 is the whole story; how far the two are apart is measured in
//! docs/scale.md.
//!
//! The kernel is told by what it does not ask: with entries and attributes kept for ever, a name is looked up once, a
//! directory listed once, a chunk read once. Since all nodes run the same program, that is the same for all of them and
//! is decided here, once, not at each node.

use forebay_types::{Attributes, CHUNK_BYTES, Extent, Generation, Kind, Map, ViewPath, chunk_bytes};
use forebay_wire::{Listing, ListingBuilder, ListingEntry};

use super::stated::Stated;

/// The weight of one thing of the model: the real things that it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Weight {
    /// So many real things, with their messages and bytes.
    pub things: u32,
    /// So many of them come one after the other: a program waits for each.
    pub in_turn: u32,
}

impl Weight {
    pub const ONE: Self = Self { things: 1, in_turn: 1 };
}

/// Messages of the kernel for a listing, whatever its size: the entries, and that there are no more. Measured on Linux 6.18; a
/// kernel whose buffer for a listing is a page asks once more for each 20 entries.
pub(super) const LISTING_MESSAGES: u32 = 2;

/// The inode number of the first path.
const FIRST_INO: u64 = 2;

/// Number of a path of the model.
pub(super) type PathIndex = u32;

/// A request of a program to the kernel's file system, and the computing after it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub ask: Ask,
    /// Names, listings and chunks that this stands for.
    pub things: u32,
    /// Messages between kernel and daemon that this takes.
    pub messages: u32,
    /// Computing that follows, seconds.
    pub think_seconds: f64,
}

/// The request.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// A name in a directory that is known; the path of what is found, none for an absent name.
    Lookup { parent: PathIndex, dir: ViewPath, name: Vec<u8>, finds: Option<PathIndex> },
    /// A directory's contents, whose entries the kernel then knows.
    Directory { dir: PathIndex, path: ViewPath, entries: Vec<PathIndex> },
    /// Bytes of one chunk of a file, each of which stands for so many.
    Read { file: PathIndex, path: ViewPath, extent: Extent, weight: u32 },
}

/// A file or directory of the model.
struct Known {
    index: PathIndex,
    attributes: Attributes,
    weight: Weight,
}

/// Everything that lies below the view's root.
#[derive(Default)]
pub(super) struct Files {
    known: Map<ViewPath, Known>,
    children: Map<ViewPath, Vec<ViewPath>>,
    listings: Map<ViewPath, Listing>,
    /// By inode number, which is a path's number after the first.
    weights: Vec<Weight>,
    paths: Vec<ViewPath>,
}

impl Files {
    /// Only the root.
    pub fn new() -> Self {
        let mut files = Self::default();
        files.add(ViewPath::root(), Kind::Directory, 0, Weight::ONE);
        files
    }

    /// Adds a file, or a directory with those it lies in.
    pub fn add(&mut self, path: ViewPath, kind: Kind, size_bytes: u64, weight: Weight) -> PathIndex {
        if let Some(known) = self.known.get(&path) {
            return known.index;
        }
        if let Some((dir, _)) = path.split() {
            self.add(dir.clone(), Kind::Directory, 0, weight);
            self.children.entry(dir).or_default().push(path.clone());
        }
        let index = self.weights.len() as PathIndex;
        let mode = (u32::from(kind.dirent()) << 12) | 0o755;
        let attributes =
            Attributes { ino: u64::from(index) + FIRST_INO, size_bytes, mode, nlink: 1, ..Attributes::default() };
        self.weights.push(weight);
        self.paths.push(path.clone());
        self.known.insert(path, Known { index, attributes, weight });
        index
    }

    /// Makes the listings; nothing may be added after that.
    pub fn finish(&mut self) {
        for (path, known) in &self.known {
            if known.attributes.kind() != Kind::Directory {
                continue;
            }
            let mut builder = ListingBuilder::new();
            for child in self.children(path) {
                let (Some((_, name)), Some(known)) = (child.split(), self.known.get(child)) else { continue };
                let (kind, ino) = (known.attributes.kind(), known.attributes.ino);
                let entry = ListingEntry { name, kind, ino, attributes: Some(known.attributes), target: &[] };
                builder.push(entry).expect("names of the model are names");
            }
            let listing = builder.finish(&known.attributes).expect("a model's directory is small");
            self.listings.insert(path.clone(), listing);
        }
    }

    /// Whether anything lies in a directory.
    pub fn has_children(&self, dir: &ViewPath) -> bool {
        self.children.contains_key(dir)
    }

    /// Number of paths.
    pub fn count(&self) -> usize {
        self.weights.len()
    }

    pub fn index(&self, path: &ViewPath) -> Option<PathIndex> {
        self.known.get(path).map(|known| known.index)
    }

    pub fn path(&self, index: PathIndex) -> Option<&ViewPath> {
        self.paths.get(index as usize)
    }

    pub fn generation(&self, path: &ViewPath) -> Option<Generation> {
        self.known.get(path).map(|known| known.attributes.generation())
    }

    pub fn size_bytes(&self, path: &ViewPath) -> u64 {
        self.known.get(path).map_or(0, |known| known.attributes.size_bytes)
    }

    pub fn is_directory(&self, path: &ViewPath) -> bool {
        self.listings.contains_key(path)
    }

    pub fn listing(&self, dir: &ViewPath) -> Option<&Listing> {
        self.listings.get(dir)
    }

    /// The weight of the file or directory of a generation.
    pub fn weight(&self, generation: &Generation) -> Weight {
        let index = generation.ino.saturating_sub(FIRST_INO) as usize;
        self.weights.get(index).copied().unwrap_or(Weight::ONE)
    }

    pub fn weight_of(&self, path: &ViewPath) -> Weight {
        self.known.get(path).map_or(Weight::ONE, |known| known.weight)
    }

    /// The entries of a directory, in the order of its listing, which a kernel knows after reading it.
    pub fn entries(&self, dir: &ViewPath) -> Vec<PathIndex> {
        let entries = self.listings.get(dir).into_iter().flat_map(Listing::entries);
        entries.map(|entry| entry.ino.saturating_sub(FIRST_INO) as PathIndex).collect()
    }

    fn children(&self, dir: &ViewPath) -> impl Iterator<Item = &ViewPath> {
        self.children.get(dir).into_iter().flatten()
    }
}

/// The steps of a program.
#[derive(Clone, Default, Debug)]
pub(super) struct Script {
    pub steps: Vec<Step>,
    /// Different files that are read from.
    pub files: u64,
    /// Bytes that are read, as the model stands for them.
    pub bytes: u64,
    /// Messages between kernel and daemon.
    pub messages: u64,
}

/// Writes a script: keeps what the kernel knows already.
pub(super) struct Writer<'a> {
    files: &'a Files,
    script: Script,
    is_known: Map<ViewPath, bool>,
    is_listed: Map<ViewPath, ()>,
    is_read: Map<(ViewPath, u64), ()>,
    /// The kernel's read size, bytes.
    read_bytes: u64,
}

impl<'a> Writer<'a> {
    pub fn new(files: &'a Files, kernel_read: Stated) -> Self {
        let read_bytes = kernel_read.count() as u64;
        let is_known = [(ViewPath::root(), true)].into_iter().collect();
        let (is_listed, is_read) = (Map::default(), Map::default());
        Self { files, script: Script::default(), is_known, is_listed, is_read, read_bytes }
    }

    /// A path is looked up, name by name; whether it exists.
    pub fn find(&mut self, path: &ViewPath) -> bool {
        if let Some(known) = self.is_known.get(path) {
            return *known;
        }
        let Some((dir, name)) = path.split() else { return true };
        let name = name.to_vec();
        if !self.find(&dir) || !self.files.is_directory(&dir) {
            return false;
        }
        let finds = self.files.index(path);
        // A name that does not exist has the weight of its neighbours.
        let weight = if finds.is_some() { self.files.weight_of(path) } else { self.files.weight_of(&dir) };
        let Some(parent) = self.files.index(&dir) else { return false };
        self.push(Ask::Lookup { parent, dir, name, finds }, weight.things, 1);
        self.is_known.insert(path.clone(), finds.is_some());
        finds.is_some()
    }

    /// A directory is listed.
    pub fn list(&mut self, dir: &ViewPath) {
        if !self.find(dir) || self.is_listed.insert(dir.clone(), ()).is_some() {
            return;
        }
        let Some(index) = self.files.index(dir).filter(|_| self.files.listing(dir).is_some()) else { return };
        let entries = self.files.entries(dir);
        for path in self.files.children(dir) {
            self.is_known.insert(path.clone(), true);
        }
        let ask = Ask::Directory { dir: index, path: dir.clone(), entries };
        self.push(ask, self.files.weight_of(dir).things, LISTING_MESSAGES);
    }

    /// A file is read to its end.
    pub fn read(&mut self, file: &ViewPath) {
        self.read_until(file, u64::MAX);
    }

    /// A file is read up to here, as far as that has not been done.
    pub fn read_until(&mut self, file: &ViewPath, end_bytes: u64) {
        if !self.find(file) {
            return;
        }
        let (Some(index), size_bytes) = (self.files.index(file), self.files.size_bytes(file)) else { return };
        let wanted = size_bytes.min(end_bytes);
        let weight = self.files.weight_of(file);
        let mut is_first = false;
        for (chunk, within) in (Extent { offset_bytes: 0, len_bytes: wanted }).chunks() {
            let len_bytes = chunk_bytes(wanted, chunk) as u64;
            if self.is_read.insert((file.clone(), chunk.0), ()).is_some() {
                continue;
            }
            is_first |= chunk.0 == 0;
            let extent = Extent { offset_bytes: chunk.0 * CHUNK_BYTES + within.offset_bytes, len_bytes };
            let messages = len_bytes.div_ceil(self.read_bytes) as u32;
            self.script.bytes += len_bytes * u64::from(weight.things);
            let ask = Ask::Read { file: index, path: file.clone(), extent, weight: weight.things };
            self.push(ask, weight.things, messages);
        }
        self.script.files += u64::from(is_first) * u64::from(weight.in_turn);
    }

    /// Something is asked that stands for so many things, each of which takes so many messages.
    fn push(&mut self, ask: Ask, things: u32, messages: u32) {
        let messages = messages * things;
        self.script.messages += u64::from(messages);
        self.script.steps.push(Step { ask, things, messages, think_seconds: 0.0 });
    }

    /// The script, in which a program computes so long in all: as much after each name, listing and chunk as after any
    /// other, however many messages the kernel makes of them.
    pub fn finish(mut self, think_seconds: f64) -> Script {
        let things: u64 = self.script.steps.iter().map(|step| u64::from(step.things)).sum();
        let share = think_seconds / things.max(1) as f64;
        self.script.steps.iter_mut().for_each(|step| step.think_seconds = share * f64::from(step.things));
        self.script
    }
}
