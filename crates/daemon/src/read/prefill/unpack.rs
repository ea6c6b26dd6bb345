//! Taking parcels apart, and filling the kernel's caches from them: names by the walker, pages by notifications.
//!
//! Parcels are opened one after the other, so that programs find the processors free. A parcel's contents are checked
//! piece by piece before the core or the kernel gets them.

use std::sync::Arc;

use bytes::Bytes;
use forebay_body::Body;
use forebay_fuse::Notifier;
use forebay_profile::{BlockOpener, FormatError};
use forebay_read::ParcelChunk;
use forebay_types::{ViewPath, limits};
use forebay_wire::Parcel;
use forebay_wire::parcel::{Codec, ParcelBlock, ParcelPiece};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::source::Sources;
use crate::environment::Walker;
use crate::read::core::Core;
use crate::read::view::View;
use crate::shared::node::Node;

/// A parcel that is whole.
type Arrived = (u32, Arc<Body>);

/// A chunk of a parcel, decoded and checked.
type Chunk = ParcelChunk<Arc<Body>>;

/// The parts that fill this node's kernel.
pub struct Filler {
    node: Arc<Node>,
    core: Arc<Core>,
    view: Arc<View>,
    sources: Arc<Sources>,
}

/// The way to where parcels are opened.
pub struct Unpacker {
    queue: Sender<Arrived>,
    walker: Option<Arc<dyn Walker>>,
}

impl Unpacker {
    /// Starts the walker, and to open what comes.
    pub fn start(filler: &Arc<Filler>) -> Self {
        let node = &filler.node;
        let (queue, arrived) = channel(limits::PARCELS_UNDER_WAY_MAX as usize);
        let started = node.environment.start_walker(&node.options.view);
        let walker = started.inspect_err(|error| tracing::warn!(%error, "names are not prefilled: no walker")).ok();
        node.spawn(Arc::clone(filler).open_all(arrived, walker.clone()));
        Self { queue, walker }
    }

    /// Hands a parcel over. The core has no more of them under way than the queue has places.
    pub fn unpack(&self, index: u32, body: Arc<Body>) {
        let _ = self.queue.try_send((index, body));
    }

    /// The walker's process.
    pub fn walker_pid(&self) -> Option<u32> {
        self.walker.as_ref().map(|walker| walker.pid())
    }

    /// Ends the walker, for which a thread may be waiting.
    pub fn end(&self) {
        self.walker.iter().for_each(|walker| walker.end());
    }
}

/// The tools that open parcels.
struct Tools {
    /// The last parcel, whose memory is used again.
    parcel: Bytes,
    blocks: BlockOpener,
    walker: Option<Arc<dyn Walker>>,
}

impl Filler {
    pub fn new(node: &Arc<Node>, core: &Arc<Core>, view: &Arc<View>, sources: &Arc<Sources>) -> Arc<Self> {
        let (node, core) = (Arc::clone(node), Arc::clone(core));
        Arc::new(Self { node, core, view: Arc::clone(view), sources: Arc::clone(sources) })
    }

    /// Opens what comes, until no more is wanted.
    async fn open_all(self: Arc<Self>, mut arrived: Receiver<Arrived>, walker: Option<Arc<dyn Walker>>) {
        let mut tools = Tools { parcel: Bytes::new(), blocks: BlockOpener::new(), walker };
        while let Some((index, body)) = arrived.recv().await {
            let filler = Arc::clone(&self);
            let opened = self.node.block(move || filler.open(index, &body, &mut tools).then_some(tools));
            match opened.await.flatten() {
                Some(used) => tools = used,
                None => return,
            }
        }
    }

    /// Opens one parcel. `false` when there will be no more.
    fn open(&self, index: u32, body: &Body, tools: &mut Tools) -> bool {
        let (parcel, chunks) = match take_apart(body, tools) {
            Ok(parts) => parts,
            Err(error) => {
                tracing::warn!(index, %error, "a parcel is not as it was sent");
                self.core.decide(|core, now| core.handle_parcel_spoilt(now, index));
                return true;
            }
        };
        let dirs: Vec<ViewPath> = parcel.listings.iter().map(|(dir, _)| dir.clone()).collect();
        let is_wanted = self.core.decide(|core, now| {
            core.handle_parcel_places(&parcel.places);
            core.handle_parcel_opened(now, index, parcel.count, parcel.listings, &chunks)
        });
        if !is_wanted {
            return false;
        }
        let filled = match self.view.notifier() {
            Some(notifier) => {
                let walker = &mut tools.walker;
                walk(walker, &dirs, &parcel.absent);
                let unknown = self.core.lock().unknown_files(&chunks);
                walk(walker, &[], &unknown);
                self.fill(&notifier, &chunks)
            }
            None => Vec::new(),
        };
        let kept = self.core.decide(|core, now| {
            core.handle_parcel_stored(now, index, &filled);
            core.kept_chunks(chunks)
        });
        // A chunk that is kept must not keep its neighbours' bytes, nor the memory that the next block is opened into.
        let copies = kept.into_iter().map(copy).collect();
        self.core.decide(|core, _| {
            core.handle_chunks_copied(copies);
            core.is_prefilling()
        })
    }

    /// Stores chunks into the kernel's page cache, and returns those that it took.
    fn fill(&self, notifier: &Notifier, chunks: &[Chunk]) -> Vec<Chunk> {
        let inodes = self.core.lock().inodes_to_fill(chunks);
        let is_filled = |(chunk, inode): &(&Chunk, Option<forebay_read::InodeId>)| {
            let parts = chunk.body.slices(0, chunk.body.expected_bytes());
            if self.sources.is_left(&chunk.file, &chunk.generation, chunk.index) {
                return false;
            }
            // A chunk that the kernel does not take is read like any other.
            inode.is_some_and(|inode| matches!(notifier.store(inode.0, chunk.index.start_bytes(), &parts), Ok(true)))
        };
        chunks.iter().zip(inodes).filter(is_filled).map(|(chunk, _)| chunk.clone()).collect()
    }
}

fn copy(chunk: Chunk) -> Chunk {
    let bytes = chunk.body.slices(0, chunk.body.expected_bytes()).concat();
    Chunk { body: Body::whole(Bytes::from(bytes)), ..chunk }
}

fn walk(walker: &mut Option<Arc<dyn Walker>>, dirs: &[ViewPath], names: &[ViewPath]) {
    let walks = walker.as_mut().filter(|_| !dirs.is_empty() || !names.is_empty());
    let failed = walks.and_then(|walker| walker.walk(dirs, names).err());
    if let Some(error) = failed {
        tracing::debug!(%error, "the walker has ended");
        *walker = None;
    }
}

/// A parcel and its chunks, decoded and checked.
fn take_apart(body: &Body, tools: &mut Tools) -> Result<(Parcel, Vec<Chunk>), FormatError> {
    let mut memory = std::mem::take(&mut tools.parcel).try_into_mut().unwrap_or_default();
    memory.clear();
    body.slices(0, body.expected_bytes()).iter().for_each(|piece| memory.extend_from_slice(piece));
    tools.parcel = memory.freeze();
    let mut parcel = Parcel::parse(tools.parcel.clone()).map_err(|_| FormatError::Content("it is no parcel"))?;
    let mut chunks = Vec::new();
    for (block, encoded) in std::mem::take(&mut parcel.blocks) {
        chunks.append(&mut open_block(block, encoded, &mut tools.blocks)?);
    }
    Ok((parcel, chunks))
}

fn open_block(block: ParcelBlock, encoded: Bytes, opener: &mut BlockOpener) -> Result<Vec<Chunk>, FormatError> {
    let contents = match block.codec {
        Codec::Stored => encoded,
        Codec::Lz4 => opener.decompress(&encoded, block.plain_bytes())?,
    };
    let mut at = 0;
    let mut chunks = Vec::with_capacity(block.pieces.len());
    for ParcelPiece { file, generation, index, checksum, is_current } in block.pieces {
        let end = at + forebay_types::chunk_bytes(generation.size_bytes, index);
        let bytes = contents.get(at..end).map(|_| contents.slice(at..end)).ok_or(FormatError::Length)?;
        at = end;
        if !is_current {
            continue;
        }
        if crc32c::crc32c(&bytes) != checksum {
            return Err(FormatError::Checksum);
        }
        chunks.push(ParcelChunk { file, generation, index, body: Body::whole(bytes) });
    }
    Ok(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{ChunkIndex, Generation};

    fn piece(number: u8) -> (ParcelPiece, Vec<u8>) {
        let bytes = vec![number; 1000];
        let generation = Generation { size_bytes: 1000, ..Generation::default() };
        let file = ViewPath::new(&[b'a' + number]).unwrap();
        let checksum = crc32c::crc32c(&bytes);
        (ParcelPiece { file, generation, index: ChunkIndex(0), checksum, is_current: true }, bytes)
    }

    #[test]
    fn a_chunk_that_is_kept_does_not_keep_its_block() {
        let (pieces, bytes): (Vec<_>, Vec<_>) = (0..8).map(piece).unzip();
        let encoded = forebay_profile::compress(&bytes.concat(), 3).unwrap();
        let block = ParcelBlock { codec: Codec::Lz4, encoded_bytes: encoded.len() as u32, pieces };
        let mut opener = BlockOpener::new();
        let place = |opener: &mut BlockOpener| opener.decompress(&encoded, 8000).unwrap().as_ptr();
        let first = place(&mut opener);
        let chunks = open_block(block, encoded.clone(), &mut opener).unwrap();
        let kept = copy(chunks[3].clone());
        drop(chunks);
        assert_eq!(place(&mut opener), first, "the block's memory is free for the next one");
        assert_eq!(kept.body.contiguous().unwrap(), bytes[3]);
    }
}
