//! A disk in memory, for simulated jobs and for tests: it outlives the stores on it, and loses power.
//!
//! No write is synced, so at a loss of power each block that was written may have its old bytes, its new ones, or a part of each.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Area, Disk, DiskRoom};
use crate::set::BLOCK_BYTES;

const BLOCK: usize = BLOCK_BYTES as usize;

/// The unit that a disk writes as a whole, bytes.
const SECTOR: usize = 512;

type Block = Box<[u8; BLOCK]>;

/// A disk in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    blocks: BTreeMap<(Area, u64), Block>,
    /// The blocks that were written since the last loss of power, as they were before.
    before: BTreeMap<(Area, u64), Option<Block>>,
    lengths: [u64; 2],
    size_bytes: u64,
    fails: Option<io::ErrorKind>,
}

impl MemoryDisk {
    /// An empty disk of this size, bytes.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self(Arc::new(Mutex::new(State { size_bytes, ..State::default() })))
    }

    /// Loses the power: of each sector that was written, `keeps` says whether its new bytes stay.
    pub fn lose_power(&self, keeps: &mut dyn FnMut() -> bool) {
        let mut state = self.state();
        for (place, before) in std::mem::take(&mut state.before) {
            let before = before.unwrap_or_else(|| Box::new([0; BLOCK]));
            let Some(now) = state.blocks.get_mut(&place) else { continue };
            for (sector, old) in now.as_chunks_mut::<SECTOR>().0.iter_mut().zip(before.as_chunks::<SECTOR>().0) {
                if !keeps() {
                    *sector = *old;
                }
            }
        }
    }

    /// Changes a byte behind the back of everybody.
    pub fn flip(&self, area: Area, offset: u64) {
        let mut byte = [0];
        if self.read_at(area, &mut byte, offset).is_ok() {
            self.state().write(area, &[!byte[0]], offset);
        }
    }

    /// Copies a range of the slots over another one, in the same way.
    pub fn copy(&self, from: u64, to: u64, len: u64) {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        if self.read_at(Area::Chunks, &mut bytes, from).is_ok() {
            self.state().write(Area::Chunks, &bytes, to);
        }
    }

    /// Every write fails like this from now on.
    pub fn fail_writes(&self, kind: Option<io::ErrorKind>) {
        self.state().fails = kind;
    }

    /// Where slots lie that have contents: offsets of blocks.
    #[must_use]
    pub fn blocks(&self, area: Area) -> Vec<u64> {
        self.state().blocks.keys().filter(|place| place.0 == area).map(|place| place.1 * BLOCK_BYTES).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn used_bytes(&self, area: Area) -> u64 {
        self.blocks.keys().filter(|place| place.0 == area).count() as u64 * BLOCK_BYTES
    }

    fn write(&mut self, area: Area, bytes: &[u8], mut offset: u64) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let place = (area, offset / BLOCK_BYTES);
            let within = (offset % BLOCK_BYTES) as usize;
            let (now, later) = rest.split_at(rest.len().min(BLOCK - within));
            let old = self.blocks.get(&place).cloned();
            self.before.entry(place).or_insert(old);
            let block = self.blocks.entry(place).or_insert_with(|| Box::new([0; BLOCK]));
            block[within..within + now.len()].copy_from_slice(now);
            (rest, offset) = (later, offset + now.len() as u64);
        }
    }
}

impl Disk for MemoryDisk {
    fn read_at(&self, area: Area, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state();
        let left = state.lengths[area as usize].saturating_sub(offset);
        let len = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut at = 0;
        while at < len {
            let (place, within) = ((offset + at as u64) / BLOCK_BYTES, ((offset + at as u64) % BLOCK_BYTES) as usize);
            let part = &mut buffer[at..len.min(at + BLOCK - within)];
            match state.blocks.get(&(area, place)) {
                Some(block) => part.copy_from_slice(&block[within..within + part.len()]),
                None => part.fill(0),
            }
            at += part.len();
        }
        Ok(len)
    }

    fn index_bytes(&self) -> io::Result<u64> {
        Ok(self.state().lengths[Area::Index as usize])
    }

    fn write_at(&self, area: Area, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state();
        if let Some(kind) = state.fails {
            return Err(kind.into());
        }
        state.write(area, bytes, offset);
        Ok(())
    }

    fn release(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.state();
        let range = (Area::Chunks, offset / BLOCK_BYTES)..(Area::Chunks, (offset + len) / BLOCK_BYTES);
        let places: Vec<_> = state.blocks.range(range).map(|(place, _)| *place).collect();
        for place in places {
            state.blocks.remove(&place);
            state.before.remove(&place);
        }
        Ok(())
    }

    fn used_bytes(&self) -> io::Result<u64> {
        Ok(self.state().used_bytes(Area::Chunks))
    }

    fn room(&self) -> io::Result<DiskRoom> {
        let state = self.state();
        let free_bytes = state.size_bytes.saturating_sub(state.used_bytes(Area::Chunks));
        Ok(DiskRoom { all_bytes: state.size_bytes, free_bytes, promised_bytes: 0 })
    }

    fn make_anew(&mut self, index_bytes: u64, chunks_bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        state.blocks.clear();
        state.before.clear();
        state.lengths = [index_bytes, chunks_bytes];
        Ok(())
    }
}
