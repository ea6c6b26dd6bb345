//! One array: the elements of a slab, out of the chunks that it crosses.

use std::sync::Arc;

use anyhow::{Context, ensure};

use crate::arrays::chunk_cache::{Bytes, ChunkCache, WHOLE};
use crate::arrays::codecs::Codec;
use crate::arrays::data_set::{DataSet, StoredAs};
use crate::arrays::tiles::Slab;
use crate::arrays::zarr::layout::{Layout, Shards};
use crate::arrays::zarr::store::{Extent, Store};

/// The offset and the length of a chunk that a shard does not have.
const NOWHERE: u64 = u64::MAX;

/// An array.
pub struct Array {
    store: Arc<Store>,
    cache: Arc<ChunkCache>,
    /// Its directory: empty, or with a slash at its end.
    key: String,
    layout: Layout,
    packing: StoredAs,
    /// Elements from one to the next along each axis of a chunk, as it is stored.
    steps: Vec<usize>,
}

impl Array {
    /// An array in a directory of a store.
    pub fn new(store: Arc<Store>, cache: Arc<ChunkCache>, key: String, layout: Layout, packing: StoredAs) -> Self {
        let mut steps = vec![0; layout.chunk.len()];
        let mut step = 1;
        for axis in layout.order.iter().rev() {
            steps[*axis] = step;
            step *= layout.chunk[*axis] as usize;
        }
        Self { store, cache, key, layout, packing, steps }
    }

    /// The bytes of a chunk, by its place in the grid; None if it was never written.
    fn chunk_at(&self, place: &[u64]) -> anyhow::Result<Bytes> {
        let Some(shards) = &self.layout.shards else {
            let key = format!("{}{}", self.key, self.layout.keys.key(place));
            let most = self.layout.packed_bytes_max() as u64;
            return self.cache.get(&(key.clone(), WHOLE), || {
                let packed = self.store.read(&key, Extent::All(most))?;
                packed.map(|packed| self.unpacked(packed, &key)).transpose()
            });
        };
        let file: Vec<u64> = place.iter().zip(&shards.chunks).map(|(place, chunks)| place / chunks).collect();
        let key = format!("{}{}", self.key, self.layout.keys.key(&file));
        let within = |axis: &usize| (place[*axis] % shards.chunks[*axis], shards.chunks[*axis]);
        let number = shards.order.iter().map(within).fold(0, |number, (place, chunks)| number * chunks + place);
        let Some(index) = self.cache.get(&(key.clone(), WHOLE), || self.index(shards, &key))? else { return Ok(None) };
        let (offset, len) = entry(&index, number as usize, shards);
        if (offset, len) == (NOWHERE, NOWHERE) {
            return Ok(None);
        }
        self.cache.get(&(key.clone(), number), || {
            let most = self.layout.packed_bytes_max() as u64;
            ensure!(len <= most, "{key} has a chunk of {len} bytes, and {most} are the most");
            let packed = self.store.read(&key, Extent::From(offset, len as usize))?;
            packed.map(|packed| self.unpacked(packed, &key)).transpose()
        })
    }

    fn unpacked(&self, packed: Vec<u8>, key: &str) -> anyhow::Result<Arc<Vec<u8>>> {
        let damaged = || format!("the chunk {} cannot be read", self.store.path().join(key).display());
        let (most, len) = (self.layout.packed_bytes_max(), self.layout.chunk_bytes());
        let unpacked = unpacked(packed, &self.layout.codecs, most).with_context(damaged)?;
        let found = unpacked.len();
        ensure!(
            found == len,
            "the chunk {} has {found} bytes in place of {len}",
            self.store.path().join(key).display()
        );
        Ok(Arc::new(unpacked))
    }

    /// The index of a shard; None if that was never written.
    fn index(&self, shards: &Shards, key: &str) -> anyhow::Result<Bytes> {
        let (bytes, packed_bytes) = shards.index_bytes();
        let extent = if shards.is_at_end { Extent::Last(packed_bytes) } else { Extent::From(0, packed_bytes) };
        let Some(packed) = self.store.read(key, extent)? else { return Ok(None) };
        let damaged = || format!("the index of {} cannot be read", self.store.path().join(key).display());
        let index = unpacked(packed, &shards.codecs, packed_bytes).with_context(damaged)?;
        ensure!(index.len() == bytes, damaged());
        Ok(Some(Arc::new(index)))
    }

    /// Copies the elements of a chunk that a slab has to their places there.
    fn copy(&self, chunk: &[u8], place: &[u64], slab: &Slab, values: &mut [f64]) {
        let axes = slab.len.len();
        // Of the elements in both: where they begin in the chunk and in the slab, and how many there are.
        let (mut count, mut from, mut to) = (vec![0; axes], 0, 0);
        let mut slab_steps = vec![1; axes];
        for axis in (1..axes).rev() {
            slab_steps[axis - 1] = slab_steps[axis] * slab.len[axis] as usize;
        }
        for axis in 0..axes {
            let begins = place[axis] * self.layout.chunk[axis];
            let first = begins.max(slab.start[axis]);
            let end = begins.saturating_add(self.layout.chunk[axis]).min(slab.start[axis] + slab.len[axis]);
            count[axis] = (end - first) as usize;
            from += (first - begins) as usize * self.steps[axis];
            to += (first - slab.start[axis]) as usize * slab_steps[axis];
        }
        let (run, step) = (count.last().copied().unwrap_or(1), self.steps.last().copied().unwrap_or(1));
        let mut at = vec![0; axes.saturating_sub(1)];
        loop {
            let mut places = values[to..][..run].iter_mut();
            let take = |value| places.next().into_iter().for_each(|place| *place = value);
            self.layout.kind.each(chunk, (from, step), run, take);
            // The next run: the last axes first.
            let Some(axis) = (0..at.len()).rev().find(|axis| at[*axis] + 1 < count[*axis]) else { return };
            for back in axis + 1..at.len() {
                from -= at[back] * self.steps[back];
                to -= at[back] * slab_steps[back];
                at[back] = 0;
            }
            at[axis] += 1;
            from += self.steps[axis];
            to += slab_steps[axis];
        }
    }
}

fn unpacked(mut packed: Vec<u8>, codecs: &[Codec], most: usize) -> anyhow::Result<Vec<u8>> {
    for codec in codecs {
        packed = codec.unpacked(packed, most)?;
    }
    Ok(packed)
}

/// The offset and the length of a chunk, as an index has them.
fn entry(index: &[u8], number: usize, shards: &Shards) -> (u64, u64) {
    let value = |at: usize| shards.kind.bits(&index[at..]);
    (value(16 * number), value(16 * number + 8))
}

impl DataSet for Array {
    fn shape(&self) -> &[u64] {
        &self.layout.shape
    }

    fn chunk(&self) -> Option<Vec<u64>> {
        Some(self.layout.chunk.clone())
    }

    fn may_be_table(&self) -> bool {
        !self.layout.has_axes
    }

    fn read(&self, slab: &Slab) -> anyhow::Result<Vec<f64>> {
        let mut values = vec![self.layout.fill; slab.elements() as usize];
        let ranges = slab.start.iter().zip(&slab.len).zip(&self.layout.chunk);
        let ranges: Vec<(u64, u64)> =
            ranges.map(|((start, len), chunk)| (start / chunk, (start + len).div_ceil(*chunk))).collect();
        let mut place: Vec<u64> = ranges.iter().map(|(first, _)| *first).collect();
        loop {
            if let Some(chunk) = self.chunk_at(&place)? {
                self.copy(&chunk, &place, slab, &mut values);
            }
            let next = (0..place.len()).rev().find(|axis| place[*axis] + 1 < ranges[*axis].1);
            let Some(axis) = next else { break };
            place[axis] += 1;
            place[axis + 1..].iter_mut().zip(&ranges[axis + 1..]).for_each(|(place, range)| *place = range.0);
        }
        self.packing.unpack(&mut values);
        Ok(values)
    }
}
