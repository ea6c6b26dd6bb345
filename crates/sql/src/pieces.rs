//! A fragment's pieces: some files, or parts of them, each with the nodes that hold all of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::FileGroup;
use forebay_offload::Holder;
use forebay_types::Generation;
use futures::{StreamExt, TryStreamExt, stream};

use crate::cut::Fragment;
use crate::daemon::Daemon;

/// A piece of files that can be cut, bytes: a lost node costs no more than this.
const PIECE_BYTES_MAX: u64 = 64 << 20;

/// A part of a file, bytes: starting a program for less takes longer than reading it.
const PART_BYTES_MIN: u64 = 1 << 20;

/// Files of a piece (`forebay_wire::query::QUERY_FILES_MAX`).
const FILES_MAX: usize = 16;

/// Files of a table that nodes are asked about; those of larger ones are read by this host.
const FILES_ASKED_MAX: usize = 4096;

/// Questions about files at once.
const QUESTIONS_MAX: usize = 8;

/// Threads that a node may give a piece.
const THREADS_MAX: usize = 16;

/// A file, and who holds it.
struct Held {
    file: PartitionedFile,
    place: PathBuf,
    /// By rank: the version that the node has.
    versions: BTreeMap<u32, Generation>,
}

/// The files of one request to a node.
#[derive(Debug)]
pub struct Piece {
    files: Vec<(PartitionedFile, PathBuf, BTreeMap<u32, Generation>)>,
    /// Groups of files that are read at once.
    groups: usize,
    can_be_cut: bool,
    /// The nodes that hold all of it.
    pub ranks: Vec<u32>,
    /// How much of the files it is.
    pub bytes: u64,
}

/// The nodes that hold something, by rank, and the pieces of a fragment; none if a file has no holder, or there are too many.
pub async fn of(
    fragment: &Fragment,
    daemon: &Arc<Daemon>,
) -> anyhow::Result<Option<(BTreeMap<u32, Holder>, Vec<Piece>)>> {
    let mut nodes = BTreeMap::new();
    let files = fragment.files();
    if files.len() > FILES_ASKED_MAX {
        return Ok(None);
    }
    let asked = files.into_iter().map(|file| {
        let daemon = Arc::clone(daemon);
        async move {
            let (bytes, modified) = (file.object_meta.size, SystemTime::from(file.object_meta.last_modified));
            let place = Path::new("/").join(file.object_meta.location.as_ref());
            #[expect(clippy::disallowed_methods, reason = "a command may end where it has no thread")]
            let found = tokio::task::spawn_blocking(move || {
                let place = daemon.place(&place);
                let holders = place.to_str().map_or(Ok(vec![]), |place| daemon.holders(place, bytes, modified));
                holders.map(|holders| (place, holders))
            });
            let (place, holders) = found.await??;
            anyhow::Ok((file, place, holders))
        }
    });
    let mut held = vec![];
    let mut answers = stream::iter(asked).buffered(QUESTIONS_MAX);
    while let Some((file, place, holders)) = answers.try_next().await? {
        if holders.is_empty() {
            return Ok(None);
        }
        let versions = holders.iter().map(|holder| (holder.rank, holder.generation)).collect();
        nodes.extend(holders.into_iter().map(|holder| (holder.rank, holder)));
        held.push(Held { file, place, versions });
    }
    let groups = nodes.values().map(|node| node.threads).max().unwrap_or(1).clamp(1, THREADS_MAX);
    let pieces = pieces(held, groups, fragment.files_can_be_cut());
    Ok(Some((nodes, pieces)))
}

fn pieces(held: Vec<Held>, groups: usize, can_be_cut: bool) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = vec![];
    for Held { file, place, versions } in held {
        let ranks: Vec<u32> = versions.keys().copied().collect();
        let bytes = file.object_meta.size;
        let parts = match can_be_cut {
            true => bytes.div_ceil(PIECE_BYTES_MAX).max((bytes / PART_BYTES_MIN).min(ranks.len() as u64)).max(1),
            false => 1,
        };
        if parts == 1 {
            // Small files go together, as long as there is something for everybody.
            let has_room = |piece: &&mut Piece| {
                piece.ranks == ranks && piece.files.len() < FILES_MAX && piece.bytes + bytes <= PIECE_BYTES_MAX / 8
            };
            if let Some(piece) = pieces.last_mut().filter(has_room) {
                piece.bytes += bytes;
                piece.files.push((file, place, versions));
                continue;
            }
        }
        for part in 0..parts {
            let (start, end) = (bytes * part / parts, bytes * (part + 1) / parts);
            let range = can_be_cut.then_some(FileRange { start: start as i64, end: end as i64 });
            let file = PartitionedFile { range, ..file.clone() };
            let files = vec![(file, place.clone(), versions.clone())];
            pieces.push(Piece { files, groups, can_be_cut, ranks: ranks.clone(), bytes: end - start });
        }
    }
    pieces
}

impl Piece {
    /// Its files in groups, by the paths of this host.
    pub fn groups(&self) -> Vec<FileGroup> {
        self.grouped(|file, _| Some(file.clone())).unwrap_or_default()
    }

    /// The same, by the paths that nodes know; none if one cannot be written as text.
    pub fn placed_groups(&self) -> Option<Vec<FileGroup>> {
        self.grouped(|file, place| {
            let mut file = file.clone();
            file.object_meta.location = datafusion::object_store::path::Path::from_absolute_path(place).ok()?;
            Some(file)
        })
    }

    /// Its files, in the versions that a node has.
    pub fn files_of(&self, rank: u32) -> Option<Vec<(String, Generation)>> {
        let of = |place: &Path, versions: &BTreeMap<u32, Generation>| {
            Some((place.to_str()?.to_owned(), *versions.get(&rank)?))
        };
        self.files.iter().map(|(_, place, versions)| of(place, versions)).collect()
    }

    fn grouped(&self, named: impl Fn(&PartitionedFile, &Path) -> Option<PartitionedFile>) -> Option<Vec<FileGroup>> {
        let mut groups = vec![vec![]; self.groups];
        for (index, (file, place, _)) in self.files.iter().enumerate() {
            let file = named(file, place)?;
            let Some(FileRange { start, end }) = file.range.clone().filter(|_| self.can_be_cut) else {
                groups[index % self.groups].push(file);
                continue;
            };
            let at = |group: usize| start + (end - start) * group as i64 / self.groups as i64;
            for (group, files) in groups.iter_mut().enumerate() {
                let range = FileRange { start: at(group), end: at(group + 1) };
                if range.start < range.end {
                    files.push(PartitionedFile { range: Some(range), ..file.clone() });
                }
            }
        }
        groups.retain(|group| !group.is_empty());
        Some(groups.into_iter().map(FileGroup::new).collect())
    }
}
