//! Keeping the pack, in steps: each takes the blocks of the pack before over as they are, but for those that are out of date,
//! and adds behind them what these lack, for as long as the job lasts.
//!
//! A step that comes to no end is not lost: a pack that lacks something is a pack, and the next step, in this job or a later
//! one, goes on behind its blocks. It takes the place of the one before only if it holds more of what is wanted.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_prefetch::PlannedChunk;
use forebay_profile::{Block, LEVEL_DEFAULT, PackReader, PackWriter, Piece, ProfileError, ProfileFiles};
use forebay_types::{chunk_bytes, limits};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use super::build::contents;
use super::pack::{places, wanted};
use crate::options::ProfileOptions;
use crate::read::peers::Peers;
use crate::shared::node::{NO_THREAD, Node};

/// A block is made anew when more than one in so many of its bytes are out of date: they are sent to all nodes.
const WORN: u64 = 16;

/// Chunks that are read at once: a pack is made beside programs, and must not wait for each file in turn either.
const READ_AT_ONCE: usize = 8;

/// The part that makes packs, one step after the other.
#[derive(Default)]
pub struct Packer {
    /// Held by who writes, also when nobody waits for him any more.
    writing: Arc<Mutex<()>>,
}

/// The contents that a pack is to have.
struct Wanted {
    files: ProfileFiles,
    /// The pack before, and which of its blocks are taken over.
    kept: Option<(PackReader, Vec<usize>)>,
    /// Chunks to read from files.
    chunks: Vec<PlannedChunk>,
    /// Bytes that the pack is to hold more than the one before, beside the blocks that are taken over.
    least_bytes: u64,
}

impl Packer {
    /// Adds to the pack what it lacks, or as much as can be read in so long.
    pub async fn pack(
        &self,
        options: ProfileOptions,
        (node, peers): (&Node, &Arc<Peers>),
        time: Duration,
    ) -> Result<(), String> {
        if !options.pack {
            return Ok(());
        }
        let alone = Arc::clone(&self.writing).lock_owned().await;
        let wanted = node.block(move || wanted_pack(&options)).await;
        // Fails only when the daemon ends.
        let wanted = wanted.unwrap_or(Ok(None)).map_err(|error| error.to_string())?;
        let Some(mut wanted) = wanted else { return Ok(()) };
        let (queue, pieces) = channel(limits::PARCELS_AHEAD as usize);
        let chunks = std::mem::take(&mut wanted.chunks);
        let writer = node.block_long(move || {
            let _alone = alone;
            write_pack(wanted, pieces)
        });
        let _ = tokio::time::timeout(time, read(peers, chunks, queue)).await;
        writer.await.ok_or(NO_THREAD)?.map_err(|error| error.to_string())
    }
}

/// Reads chunks, some at once, and hands them on in order. A file that cannot be read any more is left out.
async fn read(peers: &Arc<Peers>, chunks: Vec<PlannedChunk>, queue: Sender<(Piece, Bytes)>) {
    for some in chunks.chunks(READ_AT_ONCE) {
        let mut asked = JoinSet::new();
        for (place, chunk) in some.iter().cloned().enumerate() {
            let peers = Arc::clone(peers);
            asked.spawn(async move {
                let bytes = contents(&peers, &chunk).await?;
                let PlannedChunk { file, generation, index } = chunk;
                Some((place, Piece::of(file, generation, index, &bytes).ok()?, bytes))
            });
        }
        let mut read: Vec<_> = asked.join_all().await.into_iter().flatten().collect();
        read.sort_unstable_by_key(|(place, ..)| *place);
        for (_, piece, bytes) in read {
            if queue.send((piece, bytes)).await.is_err() {
                // The writer has failed, and says why.
                return;
            }
        }
    }
}

/// The contents that the pack is to have; `None` if the one that is there lacks nothing.
fn wanted_pack(options: &ProfileOptions) -> Result<Option<Wanted>, ProfileError> {
    let files = options.files()?;
    let Some(profile) = files.read()? else { return Ok(None) };
    let chunks = wanted(&profile);
    // One that cannot be read is as good as none.
    let Some(pack) = files.open_pack().ok().flatten() else {
        return Ok(Some(Wanted { files, kept: None, chunks, least_bytes: 1 }));
    };
    let places = places(pack.index());
    if chunks.iter().all(|chunk| places.get(chunk).is_some()) {
        return Ok(None);
    }
    let mut wanted_bytes = vec![0; pack.index().blocks().len()];
    for chunk in &chunks {
        if let Some((block, _)) = places.get(chunk) {
            wanted_bytes[block] += chunk_bytes(chunk.generation.size_bytes, chunk.index) as u64;
        }
    }
    let is_kept = |block: &usize| {
        let all_bytes = pack.index().blocks()[*block].contents_bytes();
        (all_bytes - wanted_bytes[*block]) * WORN <= all_bytes
    };
    let kept: Vec<usize> = (0..wanted_bytes.len()).filter(is_kept).collect();
    let known: HashSet<usize> = kept.iter().copied().collect();
    let lost_bytes: u64 =
        (0..).zip(&wanted_bytes).filter(|(block, _)| !known.contains(block)).map(|(_, bytes)| bytes).sum();
    let is_kept = |chunk: &PlannedChunk| places.get(chunk).is_some_and(|(block, _)| known.contains(&block));
    let chunks = chunks.into_iter().filter(|chunk| !is_kept(chunk)).collect();
    Ok(Some(Wanted { files, kept: Some((pack, kept)), chunks, least_bytes: lost_bytes.max(1) }))
}

/// Writes what comes until nobody sends any more, be that the end of the chunks, of the time or of the job.
fn write_pack(wanted: Wanted, mut pieces: Receiver<(Piece, Bytes)>) -> Result<(), ProfileError> {
    let mut pack = wanted.files.begin_pack(LEVEL_DEFAULT)?;
    if let Some((before, blocks)) = &wanted.kept {
        take_over(&mut pack, before, blocks)?;
    }
    let mut added_bytes = 0;
    while let Some((piece, bytes)) = pieces.blocking_recv() {
        pack.add(piece, &bytes)?;
        added_bytes += bytes.len() as u64;
    }
    if added_bytes >= wanted.least_bytes {
        let written = pack.finish()?;
        let (bytes, contents_bytes) = (written.file_bytes, written.contents_bytes);
        tracing::info!(bytes, contents_bytes, added_bytes, "a pack is written");
    }
    Ok(())
}

/// Adds blocks of the pack before. One that cannot be read is left out, and lacking when this is done the next time.
fn take_over(pack: &mut PackWriter, before: &PackReader, blocks: &[usize]) -> Result<(), ProfileError> {
    for &number in blocks {
        match before.read_block(number) {
            Ok(compressed) => {
                let pieces = before.index().blocks()[number].pieces.clone();
                pack.add_block(&Block { pieces, compressed })?;
            }
            Err(error) => tracing::warn!(%error, "a block of the pack is not taken over"),
        }
    }
    Ok(())
}
