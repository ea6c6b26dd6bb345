//! The pack that a job uses: which chunks it holds, and a chunk of it for a program that wants it by itself.

use std::sync::Arc;

use bytes::Bytes;
use forebay_prefetch::{Places, PlannedChunk};
use forebay_profile::{BlockOpener, FormatError, PackIndex, PackReader, Piece, Profile, Wanted};
use tokio::sync::Mutex;

use super::pack_blocks::PackBlocks;
use crate::shared::node::Node;

pub struct Pack {
    reader: Arc<PackReader>,
    pub places: Places,
    pub blocks: PackBlocks,
    opened: Arc<Mutex<Opened>>,
}

/// The block that was opened last: whoever asks for one file of a block soon asks for the next.
#[derive(Default)]
struct Opened {
    opener: BlockOpener,
    pieces: Option<(usize, Vec<Bytes>)>,
}

impl Pack {
    /// The pack that is open; of its blocks as much may be read ahead as there is room for.
    pub fn new(reader: PackReader, room_bytes: u64) -> Self {
        let reader = Arc::new(reader);
        let (places, from) = (places(reader.index()), Arc::clone(&reader));
        let read = move |block| {
            let read = from.read_block(block);
            read.inspect_err(|error| tracing::warn!(%error, "a block of the pack is not used")).ok()
        };
        Self { reader, places, blocks: PackBlocks::new(room_bytes, read), opened: Arc::default() }
    }

    pub fn index(&self) -> &PackIndex {
        self.reader.index()
    }

    /// The chunk at a place of a block; `None` if it is not to be had soon.
    pub async fn chunk(&self, node: &Node, (block, place): (usize, usize)) -> Option<Bytes> {
        if let Some(bytes) = self.opened.lock().await.chunk(block, place) {
            return Some(bytes);
        }
        let compressed = self.blocks.for_program(block).await?;
        let (reader, mut opened) = (Arc::clone(&self.reader), Arc::clone(&self.opened).lock_owned().await);
        let open = move || {
            let entry = &reader.index().blocks()[block];
            if opened.chunk(block, place).is_none() {
                opened.pieces = None;
                let pieces = opened.opener.open(&compressed, &entry.pieces);
                let warn = |error: &FormatError| tracing::warn!(%error, block, "a block of the pack is not used");
                opened.pieces = pieces.inspect_err(warn).ok().map(|pieces| (block, pieces));
            }
            opened.chunk(block, place)
        };
        // Fails only when the daemon ends.
        node.block(open).await.flatten()
    }
}

impl Opened {
    /// A copy: it may be kept for long, and the block's memory is wanted for the next one.
    fn chunk(&self, block: usize, place: usize) -> Option<Bytes> {
        let (_, pieces) = self.pieces.as_ref().filter(|(opened, _)| *opened == block)?;
        pieces.get(place).map(|bytes| Bytes::copy_from_slice(bytes))
    }
}

/// Where each chunk lies in a pack.
pub fn places(pack: &PackIndex) -> Places {
    let chunk =
        |piece: &Piece| PlannedChunk { file: piece.path.clone(), generation: piece.generation, index: piece.index };
    Places::of(pack.blocks().iter().map(|block| block.pieces.iter().map(chunk).collect()).collect())
}

/// The chunks that a profile has, in the order in which packs hold them.
pub fn wanted(profile: &Profile) -> Vec<PlannedChunk> {
    let chunk = |Wanted { path: file, generation, index }| PlannedChunk { file, generation, index };
    profile.wanted().into_iter().map(chunk).collect()
}
