//! Requests of the read path: names, attributes, bytes.
//!
//! Paths travel with every message, so that any node can answer any request without a table of its own: a daemon may
//! be restarted, and a request may be sent to another parent, without anything to agree on first.

use forebay_types::{ChunkIndex, Generation, Name, ViewPath, limits};
use serde::{Deserialize, Serialize};

use crate::ListingVersion;

/// A request of the read path to a node's parent, or to the node that stands in for it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ReadMessage {
    /// The complete listing of a directory. Answer: `Listing`; body: the encoded listing.
    Listing {
        /// The directory.
        dir: ViewPath,
    },
    /// The attributes of one page of a listing that came without them. Answer: `Entries`, one a name.
    Page {
        /// The directory.
        dir: ViewPath,
        /// Which listing: pages of different ones must not be taken for each other.
        listing: ListingVersion,
        /// Number of the page in the listing.
        page: u32,
        /// The names of the page, `limits::ATTRIBUTES_PAGE_NAMES` at most.
        names: Vec<Name>,
    },
    /// One name in a directory that cannot be listed. Answer: `Entries` with one record.
    Lookup {
        /// The directory.
        dir: ViewPath,
        /// The name.
        name: Name,
    },
    /// One chunk of a file. Answer: `Body`; body: the bytes. `ESTALE` when the file is no longer that generation.
    Chunk {
        /// The file.
        file: ViewPath,
        /// The version wanted.
        generation: Generation,
        /// Which chunk.
        index: ChunkIndex,
    },
    /// The first chunks of small files of one directory, asked for in one message. Answer: `Bundle`; body: the bytes of
    /// those that did not fail, one after the other.
    Bundle {
        /// The directory.
        dir: ViewPath,
        /// The files with the versions wanted, within `limits::BUNDLE_*`.
        files: Vec<(Name, Generation)>,
    },
    /// Sizes of the file system that holds `path`. Answer: `FileSystem`.
    FileSystem {
        /// A path on it.
        path: ViewPath,
    },
    /// A file has turned out to be no longer of this generation. The asked node forgets the old one, after all that are
    /// asked in turn have. Answer: `Entries` with one record.
    Recheck {
        /// The file.
        file: ViewPath,
        /// The version that it is not any more.
        generation: Generation,
    },
    /// A part of the start-up's contents (see `parcel`). Answer: `Body`; `ENODATA` where there are no more.
    Parcel {
        /// Its number, from 0.
        index: u32,
    },
}

impl ReadMessage {
    /// Whether it is about names, whose answer may be another one after a refresh. Chunks and bundles name the version of
    /// what they ask for.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        match self {
            Self::Listing { .. }
            | Self::Page { .. }
            | Self::Lookup { .. }
            | Self::Parcel { .. }
            | Self::Recheck { .. } => true,
            Self::Chunk { .. } | Self::Bundle { .. } | Self::FileSystem { .. } => false,
        }
    }

    /// A short word for logs and counters.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Listing { .. } => "listing",
            Self::Page { .. } => "page",
            Self::Lookup { .. } => "lookup",
            Self::Chunk { .. } => "chunk",
            Self::Bundle { .. } => "bundle",
            Self::FileSystem { .. } => "file-system",
            Self::Recheck { .. } => "recheck",
            Self::Parcel { .. } => "parcel",
        }
    }

    pub(crate) fn is_within_limits(&self) -> bool {
        match self {
            Self::Page { names, .. } => (1..=limits::ATTRIBUTES_PAGE_NAMES).contains(&names.len()),
            Self::Bundle { files, .. } => is_bundle_within_limits(files),
            Self::Parcel { index } => *index < limits::PARCELS_MAX,
            _ => true,
        }
    }
}

fn is_bundle_within_limits(files: &[(Name, Generation)]) -> bool {
    let sizes = || files.iter().map(|(_, generation)| generation.size_bytes);
    (1..=limits::BUNDLE_FILES_MAX).contains(&files.len())
        && sizes().all(|bytes| (1..=limits::BUNDLE_FILE_BYTES_MAX).contains(&bytes))
        && sizes().sum::<u64>() <= limits::BUNDLE_BYTES_MAX
}
