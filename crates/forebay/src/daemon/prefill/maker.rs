//! Making parcels, at a node that reads the backing file system.
//!
//! Listings, and contents that no pack holds, are asked of this node's own core, like a program's: so they are read once
//! a job, whoever else wants them. A piece of the pack is used only for a file whose listing still says the version that
//! the pack holds.

use std::sync::Arc;

use bytes::Bytes;
use forebay_body::Body;
use forebay_cache::CallId;
use forebay_node::PeerAnswer;
use forebay_types::{Errno, Generation, Kind, ViewPath};
use forebay_wire::parcel::{Codec, ParcelBlock, ParcelPiece};
use forebay_wire::{Listing, Parcel, Request};
use tokio::task::JoinSet;

use super::Source;
use super::plan::{PlannedChunk, PlannedParcel};
use crate::daemon::fetch::{answer_whole, fail};
use crate::daemon::peers::ask_own;
use crate::daemon::service::Service;

/// Listings that are asked for ahead at once: few enough that a program's own question never waits long behind them.
const LISTINGS_AHEAD: usize = 16;

/// Makes a parcel and hands it to the core as the answer to `call`.
pub(in crate::daemon) async fn answer(service: Arc<Service>, call: CallId, index: u32) {
    let made = match service.prefill().source(&service).await {
        Some(source) => make(&service, &source, index).await,
        None => Err(Errno::ENODATA),
    };
    match made {
        Ok(parcel) => answer_whole(&service, call, Body::whole(Bytes::from(parcel.encode().concat()))),
        Err(errno) => fail(&service, call, errno),
    }
}

/// Asks for the listings that the plan needs and this node reads for others, before anybody does.
pub(super) async fn list_ahead(service: &Arc<Service>) {
    if !service.core().is_reader() {
        return;
    }
    let Some(source) = service.prefill().source(service).await else { return };
    let mut asked = JoinSet::new();
    for dir in source.parcels.iter().flat_map(|parcel| &parcel.dirs) {
        if asked.len() >= LISTINGS_AHEAD {
            asked.join_next().await;
        }
        if service.core().reads_listing(dir) {
            let (service, dir) = (Arc::clone(service), dir.clone());
            asked.spawn(async move { drop(listing(&service, dir).await) });
        }
    }
    asked.join_all().await;
}

async fn make(service: &Arc<Service>, source: &Arc<Source>, index: u32) -> Result<Parcel, Errno> {
    let planned = source.parcels.get(index as usize).ok_or(Errno::ENODATA)?;
    let dirs = listings_of(service, planned).await;
    let mut parcel = Parcel {
        count: source.parcels.len() as u32,
        listings: dirs.into_iter().filter_map(|(dir, listing)| Some((dir, listing?))).collect(),
        absent: planned.absent.clone(),
        blocks: Vec::new(),
    };
    let mut unpacked = current(service, &planned.chunks).await;
    if let Some(block) = planned.block {
        let (packed, changed) = pack_block(service, source, block).await;
        parcel.blocks.extend(packed);
        unpacked.extend(changed);
    }
    parcel.blocks.extend(stored(service, unpacked).await);
    Ok(parcel)
}

async fn listings_of(service: &Arc<Service>, planned: &PlannedParcel) -> Vec<(ViewPath, Option<Listing>)> {
    let mut asked = JoinSet::new();
    for (place, dir) in planned.dirs.iter().cloned().enumerate() {
        let service = Arc::clone(service);
        asked.spawn(async move { (place, dir.clone(), listing(&service, dir).await) });
    }
    let mut listed = asked.join_all().await;
    listed.sort_unstable_by_key(|(place, ..)| *place);
    listed.into_iter().map(|(_, dir, listing)| (dir, listing)).collect()
}

async fn listing(service: &Arc<Service>, dir: ViewPath) -> Option<Listing> {
    match ask_own(service, Request::Listing { dir, epoch: 0 }).await {
        Some(PeerAnswer::Listing(listing)) => Some(listing),
        _ => None,
    }
}

/// The version that a file has now; `None` if it is gone.
async fn generation_of(service: &Arc<Service>, file: &ViewPath) -> Option<Generation> {
    let (dir, name) = file.split()?;
    let listing = listing(service, dir).await?;
    let attributes = listing.entry(listing.find(name)?).attributes?;
    (attributes.kind() == Kind::File).then(|| attributes.generation())
}

/// The same chunks of the files as they are now.
async fn current(service: &Arc<Service>, chunks: &[PlannedChunk]) -> Vec<PlannedChunk> {
    let mut now = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        if let Some(generation) = generation_of(service, &chunk.file).await {
            now.push(PlannedChunk { generation, ..chunk.clone() });
        }
    }
    now
}

/// A block of the pack with what of it is current, and the chunks whose files have changed.
async fn pack_block(
    service: &Arc<Service>,
    source: &Arc<Source>,
    block: usize,
) -> (Option<(ParcelBlock, Bytes)>, Vec<PlannedChunk>) {
    let Some(pack) = &source.pack else { return (None, Vec::new()) };
    let entry = &pack.index().blocks()[block];
    let mut changed = Vec::new();
    let mut pieces = Vec::with_capacity(entry.pieces.len());
    for piece in &entry.pieces {
        let now = generation_of(service, &piece.path).await;
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
            let head = ParcelBlock { codec: Codec::Zstd, encoded_bytes: bytes.len() as u32, pieces };
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
async fn stored(service: &Arc<Service>, chunks: Vec<PlannedChunk>) -> Option<(ParcelBlock, Bytes)> {
    let mut asked = JoinSet::new();
    for (place, chunk) in chunks.into_iter().enumerate() {
        let service = Arc::clone(service);
        asked.spawn(async move { (place, contents(&service, &chunk).await, chunk) });
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
pub(super) async fn contents(service: &Arc<Service>, chunk: &PlannedChunk) -> Option<Bytes> {
    let PlannedChunk { file, generation, index } = chunk.clone();
    let is_there = forebay_types::chunk_bytes(generation.size_bytes, index) > 0;
    let request = Request::Chunk { file, generation, index };
    match ask_own(service, request).await.filter(|_| is_there)? {
        PeerAnswer::Body(body) => {
            body.whole_bytes().await.ok()?;
            body.contiguous()
        }
        PeerAnswer::Parts(parts) => {
            let mut bytes = Vec::new();
            for part in parts {
                part.body.whole_bytes().await.ok()?;
                bytes.extend(part.body.slices(part.offset_bytes, part.len_bytes).concat());
            }
            Some(bytes.into())
        }
        _ => None,
    }
}
