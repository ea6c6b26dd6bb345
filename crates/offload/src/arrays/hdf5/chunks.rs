//! The chunks of a data set: where they are in the file, and their bytes.
//!
//! The library looks a chunk up by a walk through all of a version-1 tree, and keeps what it found for 32 questions. So this asks it once for
//! all chunks of a data set, when the first is wanted, and keeps where they are: 32 bytes a chunk, which has more in the file.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{self, ChunkEntry};
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::filters::{FilterRegistry, apply_pipeline_with_limit};
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::filter_pipeline::FilterDescription;
use hdf5_reader::messages::layout::{ChunkIndexing, DataLayout};
use hdf5_reader::{Dataset, Hdf5File};

use crate::arrays::chunk_cache::{Bytes, ChunkCache};
use crate::arrays::hdf5::header;
use crate::arrays::hdf5::types::Stored;

/// Bytes of one chunk. A file may say that it has larger ones, and have none.
pub const CHUNK_BYTES_MAX: usize = 1 << 30;

/// That which the data sets of a file share.
pub struct OpenFile {
    /// The file.
    pub file: Hdf5File,
    /// Those of its chunks that are unpacked.
    pub cache: ChunkCache,
    /// The filters that they may have passed.
    pub filters: FilterRegistry,
}

/// The chunks of a data set.
pub struct Chunks {
    open: Arc<OpenFile>,
    /// The path of the data set.
    name: String,
    stored: Stored,
    shape: Vec<u64>,
    /// Elements that the data set may have along each axis.
    shape_max: Option<Vec<u64>>,
    chunk: Vec<u32>,
    /// Bytes of a chunk.
    bytes: usize,
    address: u64,
    indexing: Option<ChunkIndexing>,
    filters: Vec<FilterDescription>,
    /// Whether chunks that the border cuts passed no filters.
    are_edges_plain: bool,
    /// None until the first chunk is wanted.
    index: Mutex<Option<Arc<Vec<Chunk>>>>,
}

/// A chunk in the file.
#[derive(Debug)]
struct Chunk {
    /// Its number in the grid, the last axis fastest.
    number: u64,
    address: u64,
    /// Packed ones; 0 if it is not packed.
    bytes: u64,
    /// Filters that it did not pass.
    mask: u32,
}

impl Chunks {
    /// Those of a data set; None if it has none.
    ///
    /// # Errors
    /// Its header cannot be read.
    pub fn of(open: &Arc<OpenFile>, set: &Dataset, name: &str, stored: Stored) -> anyhow::Result<Option<Self>> {
        let Some(mut chunk) = set.chunks() else { return Ok(None) };
        let messages = open.file.get_or_parse_header(set.address())?;
        let layout = messages.messages.iter().find_map(|message| match message {
            HdfMessage::DataLayout(message) => Some(&message.layout),
            _ => None,
        });
        let Some(DataLayout::Chunked { address, chunk_indexing, .. }) = layout else { return Ok(None) };
        let filters = messages.messages.iter().find_map(|message| match message {
            HdfMessage::FilterPipeline(pipeline) => Some(pipeline.filters.clone()),
            _ => None,
        });
        let filters = filters.unwrap_or_default();
        let shape = set.shape().to_vec();
        // Some versions count the bytes of an element as an axis.
        chunk.truncate(shape.len());
        ensure!(chunk.len() == shape.len() && !chunk.contains(&0), "the shape of its chunks is damaged");
        let bytes = chunk.iter().fold(stored.kind.bytes, |bytes, len| bytes.saturating_mul(*len as usize));
        let (offset_bytes, length_bytes) = sizes(&open.file);
        let are_edges_plain = !filters.is_empty()
            && chunk_indexing.is_some()
            && header::are_edges_plain(open.file.storage(), set.address(), offset_bytes, length_bytes)?;
        Ok(Some(Self {
            open: Arc::clone(open),
            name: name.to_owned(),
            stored,
            shape,
            shape_max: set.max_dims().map(<[u64]>::to_vec),
            chunk,
            bytes,
            address: *address,
            indexing: chunk_indexing.clone(),
            filters,
            are_edges_plain,
            index: Mutex::default(),
        }))
    }

    /// The bytes of a chunk, by its place in the grid; None if it was never written.
    ///
    /// # Errors
    /// It cannot be read, or not unpacked.
    pub fn at(&self, place: &[u64]) -> anyhow::Result<Bytes> {
        let index = self.index()?;
        let Some(number) = self.number(place) else { return Ok(None) };
        let Ok(at) = index.binary_search_by_key(&number, |chunk| chunk.number) else { return Ok(None) };
        let len = self.bytes;
        ensure!(len <= CHUNK_BYTES_MAX, "its chunks have {len} bytes, and {CHUNK_BYTES_MAX} are the most");
        self.open.cache.get(&(self.name.clone(), number), || {
            let mut bytes = self.unpacked(&index[at], place)?;
            let found = bytes.len();
            ensure!(found == len, "a chunk has {found} bytes in place of {len}");
            self.stored.widen(&mut bytes);
            Ok(Some(Arc::new(bytes)))
        })
    }

    fn unpacked(&self, chunk: &Chunk, place: &[u64]) -> anyhow::Result<Vec<u8>> {
        let is_cut = place.iter().zip(&self.chunk).zip(&self.shape);
        let is_cut =
            is_cut.into_iter().any(|((place, chunk), len)| (place + 1).saturating_mul(u64::from(*chunk)) > *len);
        let is_plain = self.filters.is_empty() || (is_cut && self.are_edges_plain);
        let len = if chunk.bytes == 0 || is_plain { self.bytes } else { chunk.bytes as usize };
        let packed = self.open.file.storage().read_range(chunk.address, len)?;
        if is_plain {
            return Ok(packed.to_vec());
        }
        let (filters, size) = (Some(&self.open.filters), self.stored.kind.bytes);
        Ok(apply_pipeline_with_limit(&packed, &self.filters, chunk.mask, size, filters, Some(self.bytes + 1))?)
    }

    /// The number of a chunk; None if it is behind those that were stored.
    fn number(&self, place: &[u64]) -> Option<u64> {
        let axes = place.iter().zip(&self.chunk).zip(&self.shape);
        axes.into_iter().try_fold(0_u64, |number, ((place, chunk), len)| {
            let count = len.div_ceil(u64::from(*chunk));
            (*place < count).then(|| number.checked_mul(count)?.checked_add(*place)).flatten()
        })
    }

    /// Where the chunks are, by number.
    fn index(&self) -> anyhow::Result<Arc<Vec<Chunk>>> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*index {
            return Ok(Arc::clone(index));
        }
        let mut chunks = vec![];
        for entry in self.entries()? {
            let ChunkEntry { address, size, filter_mask, offsets } = entry;
            let is_aligned = |(at, chunk): (&u64, &u32)| at % u64::from(*chunk) == 0;
            let is_good = offsets.len() == self.chunk.len() && offsets.iter().zip(&self.chunk).all(is_aligned);
            ensure!(is_good, "the index of its chunks is damaged");
            let place: Vec<u64> = offsets.iter().zip(&self.chunk).map(|(at, chunk)| at / u64::from(*chunk)).collect();
            // A data set that became shorter may have kept chunks.
            let number = self.number(&place);
            chunks.extend(number.map(|number| Chunk { number, address, bytes: size, mask: filter_mask }));
        }
        chunks.sort_unstable_by_key(|chunk| chunk.number);
        let is_double = chunks.windows(2).any(|pair| pair[0].number == pair[1].number);
        ensure!(!is_double, "the index of its chunks has one twice");
        Ok(Arc::clone(index.insert(Arc::new(chunks))))
    }

    fn entries(&self) -> anyhow::Result<Vec<ChunkEntry>> {
        let Self { address, shape, chunk, .. } = self;
        let (address, storage, (offset_bytes, length_bytes)) =
            (*address, self.open.file.storage(), sizes(&self.open.file));
        if Cursor::is_undefined_offset(address, offset_bytes) {
            // No chunk was ever written.
            return Ok(vec![]);
        }
        let axes = shape.len();
        // The numbers of chunks in an index of fixed length are those of the largest shape.
        let largest = self.shape_max.as_ref().unwrap_or(shape);
        Ok(match &self.indexing {
            None => {
                let (axes, chunk) = (Some(axes as u32), chunk);
                collect_btree_v1_leaves_storage(storage, address, offset_bytes, length_bytes, axes, chunk, None)?
                    .into_iter()
                    .map(of_leaf)
                    .collect::<anyhow::Result<_>>()?
            }
            Some(ChunkIndexing::SingleChunk { filtered_size, filters }) => {
                vec![chunk_index::single_chunk_entry(address, *filtered_size, *filters, axes)]
            }
            Some(ChunkIndexing::BTreeV2) => chunk_index::collect_v2_chunk_entries_storage(
                storage,
                address,
                offset_bytes,
                length_bytes,
                axes as u32,
                chunk,
                None,
            )?,
            Some(ChunkIndexing::Implicit) => {
                let bytes = self.stored.kind.bytes;
                chunk_index::collect_implicit_chunk_entries(address, largest, chunk, bytes, None, storage.len())?
            }
            Some(ChunkIndexing::FixedArray { .. }) => collect_fixed_array_chunk_entries_storage(
                storage,
                address,
                offset_bytes,
                length_bytes,
                largest,
                chunk,
                None,
            )?,
            Some(ChunkIndexing::ExtensibleArray { .. }) => collect_extensible_array_chunk_entries_storage(
                storage,
                address,
                offset_bytes,
                length_bytes,
                shape,
                self.shape_max.as_deref(),
                chunk,
                None,
            )?,
        })
    }
}

/// Bytes of an address and of a length in a file.
fn sizes(file: &Hdf5File) -> (u8, u8) {
    (file.superblock().offset_size, file.superblock().length_size)
}

/// The entry of a leaf of a version-1 tree.
fn of_leaf((key, address): (BTreeV1Key, u64)) -> anyhow::Result<ChunkEntry> {
    let BTreeV1Key::RawData { chunk_size, filter_mask, mut offsets } = key else {
        anyhow::bail!("the index of its chunks is damaged")
    };
    // The last one is within an element.
    offsets.pop();
    Ok(ChunkEntry { address, size: u64::from(chunk_size), filter_mask, offsets })
}
