//! Packs as files: written in one pass, read block by block or many at a time.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::index::{HEAD, TAIL_BYTES};
use crate::unfinished::Unfinished;
use crate::{
    Block, BlockBuilder, BlockEntry, BlockOpener, FormatError, PackIndex, Piece, ProfileError, ProfileFiles,
    index_range, trusted,
};

/// A pack that is being written. It is there, whole, when it is finished; dropped before, nothing is.
pub struct PackWriter {
    file: Unfinished,
    files: ProfileFiles,
    level: i32,
    block: BlockBuilder,
    index: PackIndex,
}

/// Counts of a pack that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackWritten {
    /// Blocks.
    pub blocks_count: usize,
    /// Pieces of all blocks.
    pub pieces_count: usize,
    /// Bytes of all pieces.
    pub contents_bytes: u64,
    /// The file's size.
    pub file_bytes: u64,
}

impl ProfileFiles {
    /// The pack; `None` when there is none.
    ///
    /// # Errors
    /// `Untrusted`, `Broken` and `Io`: it is not to be used.
    pub fn open_pack(&self) -> Result<Option<PackReader>, ProfileError> {
        let path = self.pack_path();
        let Some((file, stat)) = trusted::open_file(&self.directory, &self.pack_name, &path)? else {
            return Ok(None);
        };
        PackReader::open(file, stat.st_size as u64, path).map(Some)
    }

    /// Begins a pack, compressed at `level`, which takes the place of the one before when it is finished.
    ///
    /// # Errors
    /// `Untrusted` when somebody else's is there, and `Io`.
    pub fn begin_pack(&self, level: i32) -> Result<PackWriter, ProfileError> {
        let file = Unfinished::begin(&self.directory, &self.pack_name, &self.shown)?;
        PackWriter::begin(file, level, self.clone())
    }
}

impl PackWriter {
    pub(crate) fn begin(mut file: Unfinished, level: i32, files: ProfileFiles) -> Result<Self, ProfileError> {
        file.write(&HEAD)?;
        Ok(Self { file, files, level, block: BlockBuilder::new(), index: PackIndex::new() })
    }

    /// Adds a piece after the last one; blocks that are full are compressed and written, on this thread.
    ///
    /// # Errors
    /// `Refused` when `bytes` are not those of `piece` or there are too many pieces, `OverBudget`, and `Io`. The pack
    /// is spoiled then and not to be finished.
    pub fn add(&mut self, piece: Piece, bytes: &[u8]) -> Result<(), ProfileError> {
        if !self.block.has_room(bytes.len()) && !self.block.is_empty() {
            self.write_collected()?;
        }
        self.block.add(piece, bytes).map_err(|problem| self.refused(problem))
    }

    /// Adds a block that is compressed already: one of an older pack, or one that another thread has made.
    ///
    /// # Errors
    /// As `add`.
    pub fn add_block(&mut self, block: &Block) -> Result<(), ProfileError> {
        if !self.block.is_empty() {
            self.write_collected()?;
        }
        self.write_block(block)
    }

    fn write_collected(&mut self) -> Result<(), ProfileError> {
        let block = self.block.finish(self.level).map_err(|problem| self.refused(problem))?;
        self.write_block(&block)
    }

    fn write_block(&mut self, block: &Block) -> Result<(), ProfileError> {
        if self.index.blocks_end() + block.compressed.len() as u64 > self.files.budget_bytes {
            let (path, budget_bytes) = (self.file.path().to_owned(), self.files.budget_bytes);
            return Err(ProfileError::OverBudget { path, budget_bytes });
        }
        self.index.push(BlockEntry::of(block)).map_err(|problem| self.refused(problem))?;
        self.file.write(&block.compressed)
    }

    fn refused(&self, problem: FormatError) -> ProfileError {
        ProfileError::Refused { path: self.file.path().to_owned(), problem }
    }

    /// Writes the rest and gives the pack its name, in the place of the one before.
    ///
    /// # Errors
    /// As `add`; the pack before stays.
    pub fn finish(mut self) -> Result<PackWritten, ProfileError> {
        if !self.block.is_empty() {
            self.write_collected()?;
        }
        let end = self.index.encode().map_err(|problem| self.refused(problem))?;
        self.file.write(&end)?;
        self.file.finish()?;
        self.files.make_room();
        Ok(PackWritten {
            blocks_count: self.index.blocks().len(),
            pieces_count: self.index.pieces_count(),
            contents_bytes: self.index.contents_bytes(),
            file_bytes: self.index.blocks_end() + end.len() as u64,
        })
    }
}

/// An open pack, whose index is known and checked. Any number of threads may read from it; what is removed or replaced
/// meanwhile can still be read.
#[derive(Debug)]
pub struct PackReader {
    file: File,
    path: PathBuf,
    index: PackIndex,
}

impl PackReader {
    pub(crate) fn open(file: File, file_bytes: u64, path: PathBuf) -> Result<Self, ProfileError> {
        let failed = |error| ProfileError::io("read", &path, error);
        let broken = |problem| ProfileError::broken(&path, problem);
        if file_bytes < (HEAD.len() + TAIL_BYTES) as u64 {
            return Err(broken(FormatError::Length));
        }
        // Several nodes read a pack, each its blocks: what a kernel read ahead would be others'. Where that cannot be told,
        // more is read.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        let (mut head, mut tail) = ([0; HEAD.len()], [0; TAIL_BYTES]);
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        file.read_exact_at(&mut tail, file_bytes - TAIL_BYTES as u64).map_err(failed)?;
        let range = index_range(&head, &tail, file_bytes).map_err(broken)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start).map_err(failed)?;
        let index = PackIndex::decode(&bytes).map_err(broken)?;
        if index.blocks_end() != range.start {
            return Err(broken(FormatError::Length));
        }
        Ok(Self { file, path, index })
    }

    /// The index, which tells where each piece lies.
    #[must_use]
    pub fn index(&self) -> &PackIndex {
        &self.index
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The compressed bytes of block `number`, whose checksum was right.
    ///
    /// # Errors
    /// `Broken` and `Io`.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn read_block(&self, number: usize) -> Result<Bytes, ProfileError> {
        let mut blocks = self.read_blocks(number..number + 1)?;
        Ok(blocks.swap_remove(0))
    }

    /// The compressed bytes of blocks `range`, read at once, whose checksums were right. They share one buffer.
    ///
    /// # Errors
    /// `Broken` and `Io`.
    ///
    /// # Panics
    /// When there are no such blocks.
    pub fn read_blocks(&self, range: Range<usize>) -> Result<Vec<Bytes>, ProfileError> {
        let extent = self.index.block_range(range.clone());
        let mut bytes = vec![0; (extent.end - extent.start) as usize];
        self.file
            .read_exact_at(&mut bytes, extent.start)
            .map_err(|error| ProfileError::io("read", &self.path, error))?;
        let mut rest = Bytes::from(bytes);
        let cut = self.index.blocks()[range].iter().map(|entry| {
            let block = rest.split_to(entry.compressed_bytes as usize);
            match crc32c::crc32c(&block) == entry.checksum {
                true => Ok(block),
                false => Err(ProfileError::broken(&self.path, FormatError::Checksum)),
            }
        });
        cut.collect()
    }

    /// The bytes of the pieces of block `number`, in order, each checked.
    ///
    /// # Errors
    /// `Broken` and `Io`.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn read_pieces(&self, number: usize, opener: &mut BlockOpener) -> Result<Vec<Bytes>, ProfileError> {
        let pieces = &self.index.blocks()[number].pieces;
        opener.open(&self.read_block(number)?, pieces).map_err(|problem| ProfileError::broken(&self.path, problem))
    }
}
