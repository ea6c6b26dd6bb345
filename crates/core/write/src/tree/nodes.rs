//! The files and directories of a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use forebay_types::{Attributes, BackingId, ExtendedAttributes, FileId, Name, NodeRank, Timestamp};
use serde::{Deserialize, Serialize};

use crate::extents::Extents;

/// Preferred I/O size that programs are told, bytes: stdio and Python gather small writes up to it (`st_blksize`).
pub const BLOCK_BYTES: u32 = 1 << 20;

/// Files take blocks of so many bytes on the file systems that they land on, and `stat` counts in units of `BLOCK_UNIT_BYTES`.
const FILE_BLOCK_BYTES: u64 = 4096;
const BLOCK_UNIT_BYTES: u64 = 512;

/// The blocks of so many bytes, as `stat` counts them.
pub fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(FILE_BLOCK_BYTES) * (FILE_BLOCK_BYTES / BLOCK_UNIT_BYTES)
}

/// A file, a directory, or whatever has attributes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// As `stat` says; `nlink` is the number of its names, for a directory one more, and one more for each in it.
    pub attributes: Attributes,
    /// Its contents, by kind.
    pub contents: Contents,
    /// The directory where it got its newest name; the root's is itself.
    pub directory: FileId,
    /// Counts what changes its contents.
    pub version: u64,
    /// The version that made it shorter last.
    pub cut_at: u64,
    /// How often nodes of the job have it open; never 0.
    pub open_on: BTreeMap<NodeRank, u32>,
    /// Whether it may get a name although it has none: it has never had one.
    pub may_be_named: bool,
    /// Whether its contents have changed since they were last to be published.
    pub is_dirty: bool,
    /// Whether the file of the backing file system with its unwritten ranges was removed from outside.
    pub is_backing_removed: bool,
    /// How much of it is as others have left it there, bytes.
    pub bytes_of_others: u64,
    /// Whether the backing file system had it as it is, when its directory was imported, and nothing in the tree has changed it since.
    pub is_as_met: bool,
    /// The landing step after the last change of its mode or owner by programs: when it is done, they are there. `None`: others may have
    /// given it other ones where it lies, and these stay.
    pub rights_step: Option<u64>,
    /// Its extended attributes; `None`: those that it has on the backing file system, if it is there.
    pub extended: Option<Box<OwnExtended>>,
    /// The stripes in its draft before it is published.
    pub sent: Option<SentStripes>,
}

/// Extended attributes that the backing file system does not have as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OwnExtended {
    /// All that the file has.
    pub attributes: ExtendedAttributes,
    /// The names of those that programs have set or removed. Others may have changed the rest where the file lies.
    pub changed: BTreeSet<Vec<u8>>,
    /// The landing step after the last change of them: when it is done, they are there.
    pub step: u64,
}

/// The stripes of a file that are in its draft on the backing file system before it is published.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SentStripes {
    /// Which contents.
    pub version: u64,
    /// The draft.
    pub draft: BackingId,
    /// How long stripes are, bytes; not 0.
    pub stripe_bytes: u64,
    /// Those that are there, durable and verified.
    pub verified: BTreeSet<u64>,
}

impl SentStripes {
    /// An empty set for these contents.
    #[must_use]
    pub fn new(version: u64, draft: BackingId, stripe_bytes: u64) -> Self {
        Self { version, draft, stripe_bytes: stripe_bytes.max(1), verified: BTreeSet::new() }
    }

    /// Whether both are of the same contents in the same draft.
    pub(super) fn is_same_sending(&self, other: &Self) -> bool {
        (self.version, self.stripe_bytes) == (other.version, other.stripe_bytes)
            && self.draft.is_same_file(&other.draft)
    }
}

/// The contents of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Contents {
    /// Entries.
    Directory(Directory),
    /// Bytes.
    File(Extents),
    /// A target.
    Symlink(Vec<u8>),
    /// None: devices, sockets, fifos.
    Special,
}

/// The entries of a directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Directory {
    /// Copies of the tree share them: a directory may have a million.
    #[serde(with = "crate::versioned::shared")]
    entries: Arc<BTreeMap<Name, FileId>>,
    /// Whether entries of the backing file system are still to be imported.
    is_partial: bool,
}

impl Node {
    pub fn new(attributes: Attributes, contents: Contents, directory: FileId) -> Self {
        Self {
            attributes,
            contents,
            directory,
            version: 1,
            cut_at: 0,
            open_on: BTreeMap::new(),
            may_be_named: false,
            is_dirty: false,
            is_backing_removed: false,
            bytes_of_others: 0,
            is_as_met: false,
            rights_step: None,
            extended: None,
            sent: None,
        }
    }

    /// A node opens it once more.
    pub fn open(&mut self, node: NodeRank) {
        let opens = self.open_on.entry(node).or_default();
        *opens = opens.saturating_add(1);
    }

    /// A node has closed it once.
    pub fn close(&mut self, node: NodeRank) {
        if let Some(opens) = self.open_on.get_mut(&node) {
            *opens -= 1;
            if *opens == 0 {
                self.open_on.remove(&node);
            }
        }
    }

    /// Whether it is more than what the backing file system has: it is open, or a change of it is still to land.
    pub fn is_active(&self) -> bool {
        let is_written = matches!(&self.contents, Contents::File(extents) if !extents.is_empty());
        let is_to_land = self.is_dirty || is_written || self.sent.is_some() || self.is_backing_removed;
        is_to_land || self.attributes.nlink == 0 || !self.open_on.is_empty() || self.bytes_of_others > 0
    }

    /// Counts its blocks again, of which it held and had written so many bytes before. A file on the backing file system may have holes, so
    /// its blocks are known from there. Writes over it may fill some holes until they have landed.
    pub fn recount(&mut self, (held_before, written_before): (u64, u64)) {
        let Contents::File(extents) = &self.contents else { return };
        let (held, written) = extents.counted_bytes();
        if held == written {
            self.attributes.blocks = blocks_of(held);
            return;
        }
        let blocks = self.attributes.blocks.saturating_add(blocks_of(held)).saturating_sub(blocks_of(held_before));
        let over_base = (written + held_before).saturating_sub(written_before + held);
        let most = blocks_of(self.attributes.size_bytes).max(blocks);
        self.attributes.blocks = blocks.saturating_add(blocks_of(over_base)).min(most);
    }

    /// Its contents have changed.
    pub fn contents_changed(&mut self, now: Timestamp) {
        (self.attributes.mtime, self.attributes.ctime) = (now, now);
        self.version += 1;
        self.is_dirty = matches!(self.contents, Contents::File(_));
    }
}

impl Directory {
    pub fn new(is_backed: bool) -> Self {
        Self { entries: Arc::default(), is_partial: is_backed }
    }

    /// Whether all its entries are known.
    pub fn is_whole(&self) -> bool {
        !self.is_partial
    }

    /// All its entries are known from now on.
    pub fn complete(&mut self) {
        self.is_partial = false;
    }

    /// Entries are to be imported from now on.
    pub fn unlist(&mut self) {
        self.is_partial = true;
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, name: &Name) -> Option<FileId> {
        self.entries.get(name).copied()
    }

    pub fn insert(&mut self, name: &Name, file: FileId) {
        Arc::make_mut(&mut self.entries).insert(name.clone(), file);
    }

    pub fn remove(&mut self, name: &Name) {
        Arc::make_mut(&mut self.entries).remove(name);
    }

    pub fn entries_after(&self, after: Option<&Name>) -> impl Iterator<Item = (&Name, &FileId)> {
        self.entries.range((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
    }
}

/// The inode number of a file: room for 2^24 nodes with 2^40 files each.
pub fn inode_number(file: FileId) -> u64 {
    // 0 is no inode number, and 1 is the root's.
    (u64::from(file.creator.0) << 40) + file.serial + 1
}
