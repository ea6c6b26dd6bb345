//! Making parcels, at a node that reads the backing file system.
//!
//! Listings, and contents that no pack holds, are asked of this node's own core, like a program's: so they are read once
//! a job, whoever else wants them. A piece of the pack is used only for a file whose listing still says the version that
//! the pack holds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use forebay_body::Body;
use forebay_prefetch::{ListingOrder, PlannedChunk, listings_at_once};
use forebay_profile::BlockEntry;
use forebay_read::AttemptId;
use forebay_read::PeerAnswer;
use forebay_types::{Errno, Generation, Kind, ViewPath};
use forebay_wire::parcel::{Codec, ParcelBlock, ParcelPiece};
use forebay_wire::{Listing, Parcel, ReadMessage};
use tokio::task::JoinSet;

use super::source::{Source, Sources};
use crate::read::arrivals::Arrivals;
use crate::read::core::Core;
use crate::read::peers::Peers;

/// The parts that build parcels.
pub struct Builder {
    core: Arc<Core>,
    peers: Arc<Peers>,
    sources: Arc<Sources>,
}

impl Builder {
    pub fn new(core: &Arc<Core>, peers: &Arc<Peers>, sources: &Arc<Sources>) -> Self {
        Self { core: Arc::clone(core), peers: Arc::clone(peers), sources: Arc::clone(sources) }
    }

    /// Makes a parcel and hands it to the core as the answer to `call`.
    pub async fn answer(&self, arrivals: &Arrivals, call: AttemptId, index: u32) {
        let made = match self.sources.get().await {
            Some(source) => self.make(&source, index).await,
            None => Err(Errno::ENODATA),
        };
        match made {
            Ok(parcel) => arrivals.answer_whole(call, Body::whole(Bytes::from(parcel.encode().concat()))),
            Err(errno) => arrivals.fail(call, errno),
        }
    }

    /// Reads the pack, and asks for the listings that the plan needs and this node reads for others, before anybody does.
    pub async fn read_ahead(&self) {
        if !self.core.lock().is_reader() {
            return;
        }
        let Some(source) = self.sources.get().await else { return };
        source.read_ahead(&self.core);
        let mut order = ListingOrder::of(source.parcels.iter().flat_map(|parcel| &parcel.dirs));
        let at_once = listings_at_once(1, false);
        let mut asked = JoinSet::new();
        loop {
            while asked.len() < at_once
                && let Some((at, dir)) = order.next()
            {
                if !self.core.lock().reads_listing(&dir) {
                    order.listed(at);
                    continue;
                }
                let (peers, source) = (Arc::clone(&self.peers), Arc::clone(&source));
                asked.spawn(async move {
                    listing(&peers, &source, dir).await;
                    at
                });
            }
            match asked.join_next().await {
                Some(listed) => listed.into_iter().for_each(|at| order.listed(at)),
                None => return,
            }
        }
    }

    async fn make(&self, source: &Arc<Source>, index: u32) -> Result<Parcel, Errno> {
        let planned = source.parcels.get(index as usize).ok_or(Errno::ENODATA)?;
        let entry = planned.block.zip(source.pack.as_ref()).map(|(block, pack)| &pack.index().blocks()[block]);
        let files = planned.chunks.iter().map(|chunk| &chunk.file);
        let files = files.chain(entry.iter().flat_map(|entry| &entry.pieces).map(|piece| &piece.path));
        let dirs = files.filter_map(|file| file.split().map(|(dir, _)| dir)).chain(planned.dirs.iter().cloned());
        source.read_ahead(&self.core);
        let listings = Listings::all(&self.peers, source, dirs.collect()).await;
        let mut unpacked = listings.current(&planned.chunks);
        let mut blocks = Vec::new();
        if let (Some(block), Some(entry)) = (planned.block, entry) {
            let (packed, changed) = pack_block(source, block, entry, &listings).await;
            blocks.extend(packed);
            unpacked.extend(changed);
        }
        blocks.extend(stored(&self.peers, unpacked).await);
        let count = source.parcels.len() as u32;
        let places = if index == 0 { source.parcel_places() } else { Vec::new() };
        Ok(Parcel { count, listings: listings.of(&planned.dirs), absent: planned.absent.clone(), places, blocks })
    }
}

/// The listings that a parcel needs, as they are in the job.
struct Listings(HashMap<ViewPath, Listing>);

impl Listings {
    /// Asks for all at once, as far as their turns allow. Directories that cannot be listed are left out.
    async fn all(peers: &Arc<Peers>, source: &Arc<Source>, dirs: HashSet<ViewPath>) -> Self {
        let mut asked = JoinSet::new();
        for dir in dirs {
            let (peers, source) = (Arc::clone(peers), Arc::clone(source));
            asked.spawn(async move { Some((dir.clone(), listing(&peers, &source, dir).await?)) });
        }
        Self(asked.join_all().await.into_iter().flatten().collect())
    }

    fn of(&self, dirs: &[ViewPath]) -> Vec<(ViewPath, Listing)> {
        dirs.iter().filter_map(|dir| Some((dir.clone(), self.0.get(dir)?.clone()))).collect()
    }

    /// The version that a file has now; `None` if it is gone.
    fn generation_of(&self, file: &ViewPath) -> Option<Generation> {
        let (dir, name) = file.split()?;
        let listing = self.0.get(&dir)?;
        let attributes = listing.entry(listing.find(name)?).attributes?;
        (attributes.kind() == Kind::File).then(|| attributes.generation())
    }

    /// The same chunks of the files as they are now.
    fn current(&self, chunks: &[PlannedChunk]) -> Vec<PlannedChunk> {
        let now =
            |chunk: &PlannedChunk| Some(PlannedChunk { generation: self.generation_of(&chunk.file)?, ..chunk.clone() });
        chunks.iter().filter_map(now).collect()
    }
}

async fn listing(peers: &Peers, source: &Source, dir: ViewPath) -> Option<Listing> {
    let _turn = source.listing_turns.next(source.pack.as_ref().map(|pack| &pack.blocks)).await;
    match peers.ask_own(ReadMessage::Listing { dir }).await {
        Some(PeerAnswer::Listing(listing)) => Some(listing),
        _ => None,
    }
}

/// A block of the pack with what of it is current, and the chunks whose files have changed.
async fn pack_block(
    source: &Arc<Source>,
    block: usize,
    entry: &BlockEntry,
    listings: &Listings,
) -> (Option<(ParcelBlock, Bytes)>, Vec<PlannedChunk>) {
    let mut changed = Vec::new();
    let mut pieces = Vec::with_capacity(entry.pieces.len());
    for piece in &entry.pieces {
        let now = listings.generation_of(&piece.path);
        let is_current = now == Some(piece.generation);
        if let Some(generation) = now.filter(|_| !is_current) {
            changed.push(PlannedChunk { file: piece.path.clone(), generation, index: piece.index });
        }
        pieces.push(ParcelPiece {
            file: piece.path.clone(),
            generation: piece.generation,
            index: piece.index,
            checksum: piece.checksum,
            is_current,
        });
    }
    if !pieces.iter().any(|piece| piece.is_current) {
        return (None, changed);
    }
    match source.read_block(block).await {
        Some(bytes) => {
            let head = ParcelBlock { codec: Codec::Lz4, encoded_bytes: bytes.len() as u32, pieces };
            (Some((head, bytes)), changed)
        }
        // A pack that cannot be read is as good as none.
        None => {
            let lost = pieces.into_iter().filter(|piece| piece.is_current);
            changed.extend(lost.map(|piece| PlannedChunk {
                file: piece.file,
                generation: piece.generation,
                index: piece.index,
            }));
            (None, changed)
        }
    }
}

/// Chunks from their own files, as one block that is not compressed. Those that cannot be read are left out.
async fn stored(peers: &Arc<Peers>, chunks: Vec<PlannedChunk>) -> Option<(ParcelBlock, Bytes)> {
    let mut asked = JoinSet::new();
    for (place, chunk) in chunks.into_iter().enumerate() {
        let peers = Arc::clone(peers);
        asked.spawn(async move { (place, contents(&peers, &chunk).await, chunk) });
    }
    let mut read = asked.join_all().await;
    read.sort_unstable_by_key(|(place, ..)| *place);
    let (mut pieces, mut bytes) = (Vec::new(), Vec::new());
    for (_, contents, PlannedChunk { file, generation, index }) in read {
        if let Some(contents) = contents {
            let checksum = crc32c::crc32c(&contents);
            pieces.push(ParcelPiece { file, generation, index, checksum, is_current: true });
            bytes.extend_from_slice(&contents);
        }
    }
    let block = ParcelBlock { codec: Codec::Stored, encoded_bytes: bytes.len() as u32, pieces };
    (!bytes.is_empty()).then(|| (block, Bytes::from(bytes)))
}

/// A chunk's bytes, whole; `None` where there are none, or not any more.
pub async fn contents(peers: &Peers, chunk: &PlannedChunk) -> Option<Bytes> {
    let PlannedChunk { file, generation, index } = chunk.clone();
    let is_there = forebay_types::chunk_bytes(generation.size_bytes, index) > 0;
    let request = ReadMessage::Chunk { file, generation, index };
    match peers.ask_own(request).await.filter(|_| is_there)? {
        PeerAnswer::Body(body) => {
            body.whole_bytes().await.ok()?;
            body.contiguous()
        }
        _ => None,
    }
}
