//! The plan: how a profile's contents are cut into parcels, and where each part of them comes from.
//!
//! Every node that reads the backing file system makes the same plan from the same files, so a parcel's number means the
//! same to all. A parcel is one block of the pack where there is one, so that it can be handed on compressed; what the
//! pack lacks comes from its own files. The first parcel is empty but for where each chunk is to be found.

use std::collections::{HashMap, HashSet};

use forebay_profile::{PackIndex, Profile, Use, Wanted};
use forebay_types::{ChunkIndex, Generation, ViewPath, chunk_bytes, limits};
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
    pub file: ViewPath,
    /// The version that was recorded.
    pub generation: Generation,
    pub index: ChunkIndex,
}

/// Where each chunk lies in a pack.
pub type Places = HashMap<PlannedChunk, (usize, usize)>;

/// The blocks and places in them of all chunks in a pack.
pub fn places(pack: &PackIndex) -> Places {
    let mut places = Places::new();
    for (block, entry) in pack.blocks().iter().enumerate() {
        for (place, piece) in entry.pieces.iter().enumerate() {
            let chunk = PlannedChunk { file: piece.path.clone(), generation: piece.generation, index: piece.index };
            places.insert(chunk, (block, place));
        }
    }
    places
}

/// Cuts a profile into parcels: names in the order of first use, contents in the order in which packs hold them.
pub fn cut(profile: &Profile, places: &Places) -> Vec<PlannedParcel> {
    let parcels = vec![PlannedParcel::default()];
    let mut cutter = Cutter { places, parcels, parcel: PlannedParcel::default(), blocks: HashSet::new() };
    let mut wanted = profile.wanted().into_iter();
    let mut done = HashSet::new();
    for used in &profile.uses {
        match used {
            Use::Directory { path, .. } => cutter.add_directory(path),
            Use::Absent { path } => cutter.parcel.absent.push(path.clone()),
            Use::File { path, .. } => {
                while !done.contains(path)
                    && let Some(next) = wanted.next()
                {
                    done.insert(next.path.clone());
                    cutter.add_chunk(next.into());
                }
            }
        }
    }
    // The chunks of the last file after its first.
    wanted.for_each(|next| cutter.add_chunk(next.into()));
    cutter.end()
}

/// Which parcels bring which chunks, in the order of the parcels.
pub fn parcel_places(parcels: &[PlannedParcel], pack: Option<&PackIndex>) -> Vec<ParcelPlace> {
    let places = (0..).zip(parcels).flat_map(|(number, parcel)| {
        let block = parcel.block.zip(pack).map(|(block, pack)| &pack.blocks()[block]);
        let packed = block.into_iter().flat_map(|block| &block.pieces).map(|piece| (&piece.path, piece.index));
        let chunks = parcel.chunks.iter().map(|chunk| (&chunk.file, chunk.index));
        packed.chain(chunks).map(move |(file, index)| ParcelPlace::new(file, index, number))
    });
    places.take(limits::PARCEL_PLACES_MAX).collect()
}

struct Cutter<'a> {
    places: &'a Places,
    parcels: Vec<PlannedParcel>,
    parcel: PlannedParcel,
    /// Blocks that a parcel holds already.
    blocks: HashSet<usize>,
}

impl Cutter<'_> {
    fn add_directory(&mut self, path: &ViewPath) {
        if self.parcel.dirs.len() >= DIRECTORIES_MAX {
            self.next();
        }
        self.parcel.dirs.push(path.clone());
    }

    fn add_chunk(&mut self, chunk: PlannedChunk) {
        let block = self.places.get(&chunk).map(|(block, _)| *block);
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

impl From<Wanted> for PlannedChunk {
    fn from(Wanted { path: file, generation, index }: Wanted) -> Self {
        Self { file, generation, index }
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
    use forebay_profile::{BlockBuilder, BlockEntry, Piece};

    fn path(text: &str) -> ViewPath {
        ViewPath::new(text.as_bytes()).unwrap()
    }

    fn generation(size_bytes: u64) -> Generation {
        Generation { size_bytes, ..Generation::default() }
    }

    fn profile(sizes: &[u64]) -> Profile {
        let mut profile = Profile::new("a".to_owned(), Vec::new(), 0);
        for (number, size_bytes) in sizes.iter().enumerate() {
            let dir = path(&format!("d{number}"));
            profile.uses.push(Use::Directory { path: dir.clone(), generation: generation(0) });
            let chunks = (0..size_bytes.div_ceil(1 << 20)).map(ChunkIndex).collect();
            let file = dir.join(b"f").unwrap();
            profile.uses.push(Use::File { path: file, generation: generation(*size_bytes), chunks });
        }
        profile
    }

    #[test]
    fn parcels_hold_about_as_much_as_a_chunk_and_everything_once() {
        let profile = profile(&[700 << 10, 200 << 10, 200 << 10, 3 << 20, 1]);
        let parcels = cut(&profile, &Places::new());
        let sizes: Vec<usize> = parcels.iter().map(|parcel| parcel.chunks.len()).collect();
        assert_eq!(sizes, [0, 2, 1, 1, 1, 1, 1]);
        let brought_by: Vec<u32> = parcel_places(&parcels, None).iter().map(|place| place.parcel).collect();
        assert_eq!(brought_by, [1, 1, 2, 3, 4, 5, 6]);
        assert_eq!(parcels.iter().map(|parcel| parcel.dirs.len()).sum::<usize>(), 5);
        assert!(parcels.iter().all(|parcel| parcel.bytes <= limits::PARCEL_BYTES));
    }

    #[test]
    fn a_block_of_the_pack_is_one_parcel() {
        let profile = profile(&[10, 20, 30]);
        let mut pack = PackIndex::new();
        for files in [&[(0, 10)][..], &[(1, 20), (2, 30)]] {
            let mut block = BlockBuilder::new();
            for (number, bytes) in files {
                let contents = vec![7; *bytes];
                let file = path(&format!("d{number}/f"));
                let piece = Piece::of(file, generation(*bytes as u64), ChunkIndex(0), &contents).unwrap();
                block.add(piece, &contents).unwrap();
            }
            pack.push(BlockEntry::of(&block.finish(1).unwrap())).unwrap();
        }
        let parcels = cut(&profile, &places(&pack));
        assert_eq!(parcels.iter().map(|parcel| parcel.block).collect::<Vec<_>>(), [None, Some(0), Some(1)]);
        let file = |number| path(&format!("d{number}/f"));
        let expected =
            [(0, 1), (1, 2), (2, 2)].map(|(number, parcel)| ParcelPlace::new(&file(number), ChunkIndex(0), parcel));
        assert_eq!(parcel_places(&parcels, Some(&pack)), expected);
        assert!(parcels.iter().all(|parcel| parcel.chunks.is_empty()));
    }
}
