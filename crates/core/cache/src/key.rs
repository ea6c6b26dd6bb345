//! Keys of the objects that requests ask for and nodes keep.

use std::sync::{Arc, LazyLock};

use forebay_types::{ChunkIndex, Generation, Name, ViewPath};
use forebay_wire::{EntryRecord, Listing, ListingVersion, ReadMessage};

/// Bytes that a chunk costs beside its own and its place in the tables: its body's and its handle's (measured with 100,000 files of 60
/// bytes).
const CHUNK_OVERHEAD_BYTES: u64 = 320;

/// The name under which an answer is kept and requests are joined.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Key {
    /// A directory's complete listing.
    Listing { dir: ViewPath },
    /// The attributes of one page of a listing that came without them.
    Page { dir: ViewPath, listing: ListingVersion, page: u32 },
    /// One name in a directory that cannot be listed; kept as a negative answer when it does not exist.
    Name { dir: ViewPath, name: Name },
    /// A chunk of one version of a file.
    Chunk { file: ViewPath, generation: Generation, index: ChunkIndex },
    /// A part of the start-up's contents.
    Parcel { index: u32 },
    /// Sizes of the file system that holds a path; joined, never kept.
    FileSystem { path: ViewPath },
    /// That a file is no longer of a version; joined, never kept.
    Recheck { file: ViewPath, generation: Generation },
}

impl Key {
    /// The key of what is asked; none for a bundle, which asks for several things.
    #[must_use]
    pub fn of(message: &ReadMessage) -> Option<Self> {
        Some(match message.clone() {
            ReadMessage::Listing { dir } => Self::Listing { dir },
            ReadMessage::Page { dir, listing, page, .. } => Self::Page { dir, listing, page },
            ReadMessage::Lookup { dir, name } => Self::Name { dir, name },
            ReadMessage::Chunk { file, generation, index } => Self::Chunk { file, generation, index },
            ReadMessage::Parcel { index } => Self::Parcel { index },
            ReadMessage::FileSystem { path } => Self::FileSystem { path },
            ReadMessage::Recheck { file, generation } => Self::Recheck { file, generation },
            ReadMessage::Bundle { .. } => return None,
        })
    }

    /// The message that asks for it; none for a page, which is asked for by the names in it.
    #[must_use]
    pub fn message(&self) -> Option<ReadMessage> {
        Some(match self.clone() {
            Self::Listing { dir } => ReadMessage::Listing { dir },
            Self::Page { .. } => return None,
            Self::Name { dir, name } => ReadMessage::Lookup { dir, name },
            Self::Chunk { file, generation, index } => ReadMessage::Chunk { file, generation, index },
            Self::Parcel { index } => ReadMessage::Parcel { index },
            Self::FileSystem { path } => ReadMessage::FileSystem { path },
            Self::Recheck { file, generation } => ReadMessage::Recheck { file, generation },
        })
    }

    /// The path the key is about.
    #[must_use]
    pub fn path(&self) -> &ViewPath {
        match self {
            Self::Listing { dir } | Self::Page { dir, .. } | Self::Name { dir, .. } => dir,
            Self::Chunk { file, .. } | Self::Recheck { file, .. } => file,
            Self::FileSystem { path } => path,
            Self::Parcel { .. } => &EVERYWHERE,
        }
    }
}

/// The path of keys that are about no path in particular.
static EVERYWHERE: LazyLock<ViewPath> = LazyLock::new(ViewPath::root);

/// An answer as it is kept. `B` is the handle of a chunk's bytes.
#[derive(Clone, Debug)]
pub enum Object<B> {
    /// A directory's complete listing.
    Listing(Listing),
    /// Records of a page or of one name, `None` for what does not exist.
    Entries(Arc<[Option<EntryRecord>]>),
    /// A chunk's bytes.
    Chunk(B),
}

/// The kinds that counters tell apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum ObjectKind {
    Attributes,
    Listings,
    Chunks,
}

impl<B> Object<B> {
    /// The kind it is counted as.
    #[must_use]
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::Listing(_) => ObjectKind::Listings,
            Self::Entries(_) => ObjectKind::Attributes,
            Self::Chunk(_) => ObjectKind::Chunks,
        }
    }

    /// Bytes it holds, without a chunk's (whose owner knows).
    #[must_use]
    pub fn own_bytes(&self) -> u64 {
        match self {
            Self::Listing(listing) => listing.bytes().len() as u64,
            Self::Entries(records) => {
                let targets: usize = records.iter().flatten().map(|record| record.target.len()).sum();
                (records.len() * size_of::<Option<EntryRecord>>() + targets) as u64
            }
            Self::Chunk(_) => CHUNK_OVERHEAD_BYTES,
        }
    }
}
