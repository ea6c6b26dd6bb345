//! The plan: how a profile's contents are cut into parcels, and where each part of them comes from.
//!
//! Every node that reads the backing file system makes the same plan from the same profile and pack, so a parcel's number means
//! the same to all. A parcel is one block of the pack where there is one, so that it can be handed on compressed; what the
//! pack lacks comes from its own files. The first parcel is empty but for where each chunk is to be found.

use std::collections::BTreeSet;

use forebay_types::{ChunkIndex, Generation, Map, ViewPath, chunk_bytes, limits};
use forebay_wire::ParcelPlace;

/// One parcel as it is to be made.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PlannedParcel {
    /// Directories that are used.
    pub dirs: Vec<ViewPath>,
    /// Names that are looked for in vain.
    pub absent: Vec<ViewPath>,
    /// A block of the pack.
    pub block: Option<usize>,
    /// Chunks that no pack holds.
    pub chunks: Vec<PlannedChunk>,
    bytes: u64,
}

/// A chunk that is used.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PlannedChunk {
    /// Of which file.
    pub file: ViewPath,
    /// The version that was recorded.
    pub generation: Generation,
    /// Which chunk.
    pub index: ChunkIndex,
}

/// A thing that a start-up used, in the order of first use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstUse<'a> {
    /// A directory whose entries were used.
    Directory(&'a ViewPath),
    /// A name that was looked for in vain.
    Absent(&'a ViewPath),
    /// A file whose contents were.
    File(&'a ViewPath),
}

/// Where each chunk lies in a pack: its block, and its place there.
#[derive(Clone, Default, Debug)]
pub struct Places {
    by_chunk: Map<PlannedChunk, (usize, usize)>,
    blocks: Vec<Vec<PlannedChunk>>,
}

impl Places {
    /// Of a pack whose blocks hold these chunks.
    #[must_use]
    pub fn of(blocks: Vec<Vec<PlannedChunk>>) -> Self {
        let in_block = |(block, chunks): (usize, &Vec<PlannedChunk>)| {
            (0..).zip(chunks).map(move |(place, chunk)| (chunk.clone(), (block, place))).collect::<Vec<_>>()
        };
        Self { by_chunk: blocks.iter().enumerate().flat_map(in_block).collect(), blocks }
    }

    /// The block that holds a chunk, and its place there.
    #[must_use]
    pub fn get(&self, chunk: &PlannedChunk) -> Option<(usize, usize)> {
        self.by_chunk.get(chunk).copied()
    }
}

/// Cuts a profile into parcels: names in the order of first use, contents in the order in which packs hold them (`wanted`).
#[must_use]
pub fn cut<'a>(
    uses: impl IntoIterator<Item = FirstUse<'a>>,
    wanted: Vec<PlannedChunk>,
    places: &Places,
) -> Vec<PlannedParcel> {
    let parcels = vec![PlannedParcel::default()];
    let mut cutter = Cutter { places, parcels, parcel: PlannedParcel::default(), blocks: BTreeSet::new() };
    let mut wanted = wanted.into_iter();
    let mut done = BTreeSet::new();
    for first in uses {
        match first {
            FirstUse::Directory(path) => cutter.add_directory(path),
            FirstUse::Absent(path) => cutter.parcel.absent.push(path.clone()),
            FirstUse::File(path) => {
                while !done.contains(path)
                    && let Some(next) = wanted.next()
                {
                    done.insert(next.file.clone());
                    cutter.add_chunk(next);
                }
            }
        }
    }
    // The chunks of the last file after its first.
    wanted.for_each(|next| cutter.add_chunk(next));
    cutter.end()
}

/// Which parcels bring which chunks, in the order of the parcels.
#[must_use]
pub fn parcel_places(parcels: &[PlannedParcel], places: &Places) -> Vec<ParcelPlace> {
    let brought = (0..).zip(parcels).flat_map(|(number, parcel)| {
        let packed = parcel.block.and_then(|block| places.blocks.get(block)).into_iter().flatten();
        packed.chain(&parcel.chunks).map(move |chunk| ParcelPlace::new(&chunk.file, chunk.index, number))
    });
    brought.take(limits::PARCEL_PLACES_MAX).collect()
}

struct Cutter<'a> {
    places: &'a Places,
    parcels: Vec<PlannedParcel>,
    parcel: PlannedParcel,
    /// Blocks that a parcel holds already.
    blocks: BTreeSet<usize>,
}

impl Cutter<'_> {
    fn add_directory(&mut self, path: &ViewPath) {
        if self.parcel.dirs.len() >= DIRECTORIES_MAX {
            self.next();
        }
        self.parcel.dirs.push(path.clone());
    }

    fn add_chunk(&mut self, chunk: PlannedChunk) {
        let block = self.places.get(&chunk).map(|(block, _)| block);
        // A block comes with the first of its chunks that is used.
        if block.is_some_and(|block| !self.blocks.insert(block)) {
            return;
        }
        if !self.parcel.has_room(&chunk, block) {
            self.next();
        }
        self.parcel.add(chunk, block);
    }

    fn next(&mut self) {
        self.parcels.push(std::mem::take(&mut self.parcel));
    }

    fn end(mut self) -> Vec<PlannedParcel> {
        if self.parcel != PlannedParcel::default() {
            self.next();
        }
        self.parcels.truncate(limits::PARCELS_MAX as usize);
        self.parcels
    }
}

impl PlannedParcel {
    fn has_room(&self, chunk: &PlannedChunk, block: Option<usize>) -> bool {
        let bytes = chunk_bytes(chunk.generation.size_bytes, chunk.index) as u64;
        match (self.block, block) {
            // A block fills a parcel by itself.
            (here, Some(_)) => here.is_none() && self.bytes == 0,
            (Some(_), None) => false,
            (None, None) => self.bytes == 0 || self.bytes + bytes <= limits::PARCEL_BYTES,
        }
    }

    fn add(&mut self, chunk: PlannedChunk, block: Option<usize>) {
        match block {
            Some(_) => self.block = block,
            None => {
                self.bytes += chunk_bytes(chunk.generation.size_bytes, chunk.index) as u64;
                self.chunks.push(chunk);
            }
        }
    }
}

/// Directories in one parcel: few enough that their listings do not make it much larger than its contents.
const DIRECTORIES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ViewPath {
        ViewPath::new(text.as_bytes()).unwrap()
    }

    fn chunk(number: usize, size_bytes: u64, index: u64) -> PlannedChunk {
        let generation = Generation { size_bytes, ..Generation::default() };
        PlannedChunk { file: path(&format!("d{number}/f")), generation, index: ChunkIndex(index) }
    }

    /// A directory with one file of each size.
    fn cut_files(sizes: &[u64], places: &Places) -> Vec<PlannedParcel> {
        let dirs: Vec<ViewPath> = (0..sizes.len()).map(|number| path(&format!("d{number}"))).collect();
        let files: Vec<ViewPath> = dirs.iter().map(|dir| dir.join(b"f").unwrap()).collect();
        let uses = dirs.iter().zip(&files).flat_map(|(dir, file)| [FirstUse::Directory(dir), FirstUse::File(file)]);
        let chunks = |(number, size): (usize, &u64)| {
            let size = *size;
            (0..size.div_ceil(1 << 20)).map(move |index| chunk(number, size, index))
        };
        cut(uses, sizes.iter().enumerate().flat_map(chunks).collect(), places)
    }

    #[test]
    fn parcels_hold_about_as_much_as_a_chunk_and_everything_once() {
        let parcels = cut_files(&[700 << 10, 200 << 10, 200 << 10, 3 << 20, 1], &Places::default());
        let sizes: Vec<usize> = parcels.iter().map(|parcel| parcel.chunks.len()).collect();
        assert_eq!(sizes, [0, 2, 1, 1, 1, 1, 1]);
        let brought_by: Vec<u32> =
            parcel_places(&parcels, &Places::default()).iter().map(|place| place.parcel).collect();
        assert_eq!(brought_by, [1, 1, 2, 3, 4, 5, 6]);
        assert_eq!(parcels.iter().map(|parcel| parcel.dirs.len()).sum::<usize>(), 5);
        assert!(parcels.iter().all(|parcel| parcel.bytes <= limits::PARCEL_BYTES));
    }

    #[test]
    fn a_block_of_the_pack_is_one_parcel() {
        let places = Places::of(vec![vec![chunk(0, 10, 0)], vec![chunk(1, 20, 0), chunk(2, 30, 0)]]);
        let parcels = cut_files(&[10, 20, 30], &places);
        assert_eq!(parcels.iter().map(|parcel| parcel.block).collect::<Vec<_>>(), [None, Some(0), Some(1)]);
        let file = |number| path(&format!("d{number}/f"));
        let expected =
            [(0, 1), (1, 2), (2, 2)].map(|(number, parcel)| ParcelPlace::new(&file(number), ChunkIndex(0), parcel));
        assert_eq!(parcel_places(&parcels, &places), expected);
        assert!(parcels.iter().all(|parcel| parcel.chunks.is_empty()));
    }
}
