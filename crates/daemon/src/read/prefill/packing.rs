//! Keeping the pack: what it lacks is added behind its blocks, which are taken over as they are; once it lacks much, or
//! much of it is out of date, it is made anew.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use forebay_profile::{Block, LEVEL_DEFAULT, PackReader, PackWriter, Piece, ProfileError, ProfileFiles};
use forebay_types::{chunk_bytes, limits};

use super::maker::contents;
use super::plan::{PlannedChunk, places};
use crate::options::ProfileOptions;
use crate::read::peers::Peers;

/// A pack is made anew when more than one in so many bytes are to be added or out of date: small pieces at its end compress
/// and are read worse, and what is out of date is sent to all nodes.
const WORN: u64 = 16;

/// What a pack is to be made of.
struct Wanted {
    files: ProfileFiles,
    /// The pack before, and which of its blocks are taken over.
    kept: Option<(PackReader, Vec<usize>)>,
    /// What is read from files.
    chunks: Vec<PlannedChunk>,
}

/// Makes the pack complete, if anything of the profile is not in it.
pub async fn pack(options: ProfileOptions, peers: &Peers) -> Result<(), ProfileError> {
    if !options.pack {
        return Ok(());
    }
    let wanted = tokio::task::spawn_blocking(move || wanted_pack(&options)).await;
    let Ok(Some(Wanted { files, kept, chunks })) = wanted.unwrap_or(Ok(None)) else { return Ok(()) };
    let (queue, pieces) = sync_channel(limits::PARCELS_AHEAD as usize);
    let writer = tokio::task::spawn_blocking(move || write_pack(&files, kept, &pieces));
    'reading: for chunk in chunks {
        // A file that cannot be read any more is left out.
        let Some(bytes) = contents(peers, &chunk).await else { continue };
        let PlannedChunk { file, generation, index } = chunk;
        let Ok(piece) = Piece::of(file, generation, index, &bytes) else { continue };
        let mut piece = Some((piece, bytes));
        while let Some(waiting) = piece.take() {
            match queue.try_send(Some(waiting)) {
                Ok(()) => {}
                Err(TrySendError::Full(back)) => {
                    piece = back;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                // The writer has failed: what it says is told below.
                Err(TrySendError::Disconnected(_)) => break 'reading,
            }
        }
    }
    // Without its end a pack is not finished: this task may be given up at any place above.
    tokio::task::spawn_blocking(move || drop(queue.send(None))).await.ok();
    writer.await.unwrap_or(Ok(()))
}

/// What the pack is to be made of; `None` if the one that is there lacks nothing.
fn wanted_pack(options: &ProfileOptions) -> Result<Option<Wanted>, ProfileError> {
    let files = options.files()?;
    let Some(profile) = files.read()? else { return Ok(None) };
    let chunks: Vec<PlannedChunk> = profile.wanted().into_iter().map(PlannedChunk::from).collect();
    // One that cannot be read is as good as none.
    let pack = files.open_pack().ok().flatten();
    let places = pack.as_ref().map(|pack| places(pack.index())).unwrap_or_default();
    let (there, lacking): (Vec<_>, Vec<_>) = chunks.iter().partition(|chunk| places.contains_key(chunk));
    if lacking.is_empty() {
        return Ok(None);
    }
    let bytes = |chunk: &&PlannedChunk| chunk_bytes(chunk.generation.size_bytes, chunk.index) as u64;
    let (used, added): (u64, u64) = (there.iter().map(bytes).sum(), lacking.iter().map(bytes).sum());
    let outdated = pack.as_ref().map_or(0, |pack| pack.index().contents_bytes().saturating_sub(used));
    if (added + outdated) * WORN > used + added {
        return Ok(Some(Wanted { files, kept: None, chunks }));
    }
    let blocks: HashSet<usize> = there.iter().map(|chunk| places[*chunk].0).collect();
    let mut blocks: Vec<usize> = blocks.into_iter().collect();
    blocks.sort_unstable();
    let chunks = lacking.into_iter().cloned().collect();
    Ok(Some(Wanted { files, kept: pack.map(|pack| (pack, blocks)), chunks }))
}

fn write_pack(
    files: &ProfileFiles,
    kept: Option<(PackReader, Vec<usize>)>,
    pieces: &Receiver<Option<(Piece, Bytes)>>,
) -> Result<(), ProfileError> {
    let mut pack = files.begin_pack(LEVEL_DEFAULT)?;
    if let Some((before, blocks)) = kept {
        take_over(&mut pack, &before, &blocks)?;
    }
    while let Ok(piece) = pieces.recv() {
        let Some((piece, bytes)) = piece else {
            let written = pack.finish()?;
            tracing::info!(bytes = written.file_bytes, contents = written.contents_bytes, "a pack is written");
            return Ok(());
        };
        pack.add(piece, &bytes)?;
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
