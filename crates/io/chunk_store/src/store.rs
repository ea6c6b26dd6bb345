//! A store in use: chunks are looked up, put, given back.
//!
//! Readers and the writer share only the bytes on the disk, as jobs do: a slot that one replaces while another reads it fails the
//! reader's checks. No error of the disk reaches a caller: the store reports it once, and then is read only or not used at all.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_body::{Body, Piece, Pool};
use forebay_types::{CHUNK_BYTES, PIECE_BYTES};

use crate::disk::{Area, Disk};
use crate::error::ChunkStoreError;
use crate::format::{CLOCK_AT, CLOCK_BYTES, ClockBlock, Geometry, HEAD_BYTES, Head, SlotHeader, VERSION};
use crate::key::{ChunkKey, tag};
use crate::limits::{CAPACITY_BYTES_MAX, CAPACITY_BYTES_MIN, RESERVE_BYTES_MAX, RESERVE_DIVISOR};
use crate::policy::Reuse;
use crate::set::{self, BLOCK_BYTES, Entry, Set, Slot, Terms};
use crate::slots::Slots;

/// Bytes of the index that a look goes through to count its entries, on average: less than a millisecond.
const COUNTED_BYTES: u64 = 1 << 20;

/// A store.
pub struct ChunkStore {
    slots: Slots,
    capacity_bytes: u64,
    pool: Pool,
    clock: Mutex<Clock>,
    /// The room that may still be taken, bytes, as of the last `tend`; 0 and less: nothing is admitted.
    left_bytes: AtomicI64,
    /// The next set that gives room back.
    cursor: AtomicU64,
    /// No chunk is written any more.
    is_read_only: AtomicBool,
    /// The store is not used any more.
    is_off: AtomicBool,
    /// A full disk has been told.
    has_told_full: AtomicBool,
    /// Looks so far (`tend`).
    looks: AtomicU64,
    counts: Counts,
}

/// The store's time as this process knows it.
#[derive(Default)]
struct Clock {
    reuse: Reuse,
    /// Bytes asked that the index does not have yet.
    pending_bytes: u64,
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    hit_bytes: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
    refused: AtomicU64,
    /// As of the last look.
    used_bytes: AtomicU64,
    chunks: AtomicU64,
}

/// The figures of a store.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// The room that its slots may take, bytes.
    pub capacity_bytes: u64,
    /// The room that they take, bytes.
    pub used_bytes: u64,
    /// Chunks in it, of all jobs.
    pub chunks: u64,
    /// Chunks asked for that were there.
    pub hits: u64,
    /// Chunks asked for that were not.
    pub misses: u64,
    /// Slots that did not hold what their entries said, and were emptied.
    pub damaged: u64,
    /// Chunks that were not admitted.
    pub refused: u64,
    /// Bytes of the hits.
    pub hit_bytes: u64,
}

impl ChunkStore {
    /// Opens the store on a disk, or makes it: also where what is there is damaged, or has too few slots. Buffers come from `pool`.
    /// `name` is that of the disk in errors.
    ///
    /// # Errors
    /// The fault in the capacity, in the disk, or in the version of what is there.
    pub fn open(
        mut disk: Box<dyn Disk>,
        capacity_bytes: u64,
        pool: Pool,
        name: &std::path::Path,
    ) -> Result<Self, ChunkStoreError> {
        let failed = |doing| move |error| ChunkStoreError::io(doing, name, error);
        let path = || name.to_owned();
        if capacity_bytes < CAPACITY_BYTES_MIN {
            return Err(ChunkStoreError::TooSmall { path: path(), capacity_bytes });
        }
        let all_bytes = disk.room().map_err(failed("look at"))?.all_bytes;
        let limit_bytes = all_bytes.min(CAPACITY_BYTES_MAX);
        if capacity_bytes > limit_bytes {
            return Err(ChunkStoreError::TooLarge { path: path(), capacity_bytes, limit_bytes });
        }
        let mut head = [0; HEAD_BYTES];
        let len = disk.read_at(Area::Index, &mut head, 0).map_err(failed("read"))?;
        let index_bytes = disk.index_bytes().map_err(failed("look at"))?;
        let geometry = match Head::decode(&head[..len], index_bytes) {
            Head::Other(found) => return Err(ChunkStoreError::Version { path: path(), found, known: VERSION }),
            Head::Known(geometry) if geometry.can_hold(capacity_bytes) => geometry,
            found => {
                if let Head::Known(_) = found {
                    tracing::warn!(
                        "the cache store in {} has too few slots for its new capacity: it begins empty",
                        name.display()
                    );
                }
                let geometry = Geometry::of(capacity_bytes);
                disk.make_anew(geometry.index_bytes(), geometry.chunks_bytes()).map_err(failed("make"))?;
                disk.write_at(Area::Index, &geometry.encode(), 0).map_err(failed("make"))?;
                geometry
            }
        };
        disk.opened();
        let store = Self {
            slots: Slots { disk, geometry },
            capacity_bytes,
            pool,
            clock: Mutex::default(),
            left_bytes: AtomicI64::new(0),
            cursor: AtomicU64::new(0),
            is_read_only: AtomicBool::new(false),
            is_off: AtomicBool::new(false),
            has_told_full: AtomicBool::new(false),
            looks: AtomicU64::new(0),
            counts: Counts::default(),
        };
        store.note_time(0).map_err(failed("write to"))?;
        // Another start is another place to take room back from.
        store.cursor.store(store.clock().reuse.clock_bytes / BLOCK_BYTES % geometry.set_count, Ordering::Relaxed);
        store.tend();
        Ok(store)
    }

    /// The chunk of this key and length, whole and verified. May block.
    pub fn get(&self, key: &ChunkKey, len_bytes: usize) -> Option<Arc<Body>> {
        if self.is_off() {
            return None;
        }
        let found = self.try_get(key, len_bytes).unwrap_or_else(|error| {
            self.give_up("read", &error, true);
            None
        });
        let (count, bytes) = if found.is_some() { (&self.counts.hits, len_bytes) } else { (&self.counts.misses, 0) };
        count.fetch_add(1, Ordering::Relaxed);
        self.counts.hit_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        found
    }

    fn try_get(&self, key: &ChunkKey, len_bytes: usize) -> io::Result<Option<Arc<Body>>> {
        let now = self.tick(len_bytes as u64);
        let class = set::class(len_bytes);
        for number in self.sets_of(key) {
            let set = self.slots.read_set(number)?;
            for (index, entry) in set.0.into_iter().enumerate() {
                if entry.is_empty() || entry.tag != key.tag() || entry.class != class {
                    continue;
                }
                let Some(header) = self.read_header(number, index, entry)? else { continue };
                if header.key.identity != key.identity || header.len_bytes as usize != len_bytes {
                    continue;
                }
                let Some(body) = self.read_contents(number, index, &header)? else { continue };
                self.note_use(number, index, entry, now);
                return Ok(Some(body));
            }
        }
        Ok(None)
    }

    /// The header of a slot; `None`, and an empty slot, where it is not what the entry says.
    fn read_header(&self, set: u64, index: usize, entry: Entry) -> io::Result<Option<SlotHeader>> {
        let at = self.slots.geometry.slot_at(set, index);
        let mut block = [0; BLOCK_BYTES as usize];
        let len = self.slots.disk.read_at(Area::Chunks, &mut block, at)?;
        let header = SlotHeader::decode(&block[..len]).filter(|header| tag(&header.key.place) == entry.tag);
        if header.is_none() {
            self.drop_damaged(set, index);
        }
        Ok(header)
    }

    /// The contents of a slot; `None`, and an empty slot, where they are not those that were written.
    fn read_contents(&self, set: u64, index: usize, header: &SlotHeader) -> io::Result<Option<Arc<Body>>> {
        let (mut at, mut left) = (self.slots.geometry.slot_at(set, index) + BLOCK_BYTES, header.len_bytes as usize);
        self.slots.disk.will_read(at, left as u64);
        let body = Body::filling(left);
        for checksum in header.checksums {
            let want = left.min(PIECE_BYTES);
            if want == 0 {
                break;
            }
            let mut buffer = self.pool.take(want);
            let count = self.slots.disk.read_at(Area::Chunks, &mut buffer, at)?;
            let piece = Piece::with_checksum(buffer.freeze(want), checksum);
            if count < want || !piece.is_sound() {
                self.drop_damaged(set, index);
                return Ok(None);
            }
            body.push_checked(&piece);
            (at, left) = (at + want as u64, left - want);
        }
        Ok(Some(body))
    }

    fn drop_damaged(&self, set: u64, index: usize) {
        self.counts.damaged.fetch_add(1, Ordering::Relaxed);
        let emptied = self.slots.empty(set, index);
        emptied.unwrap_or_else(|error| self.give_up("write to", &error, false));
    }

    /// Puts a whole body into the store, where the policy admits it. May block; one caller at a time.
    pub fn put(&self, key: &ChunkKey, body: &Body) {
        let len_bytes = body.expected_bytes();
        let is_possible = body.is_whole() && (1..=CHUNK_BYTES as usize).contains(&len_bytes);
        if !is_possible || self.is_off() || self.is_read_only.load(Ordering::Relaxed) {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        match self.try_put(key, body) {
            Ok(true) => {}
            Ok(false) => drop(self.counts.refused.fetch_add(1, Ordering::Relaxed)),
            Err(error) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                self.give_up("write to", &error, false);
            }
        }
    }

    /// Empties the slots of this chunk, whichever version they have; whether none has it now. May block.
    pub fn forget(&self, key: &ChunkKey) -> bool {
        if self.is_off() || self.is_read_only.load(Ordering::Relaxed) {
            return false;
        }
        let emptied = self.sets_of(key).into_iter().try_for_each(|number| {
            let set = self.slots.read_set(number)?;
            for (index, entry) in set.0.into_iter().enumerate() {
                if !entry.is_empty()
                    && entry.tag == key.tag()
                    && self.read_header(number, index, entry)?.is_some_and(|header| header.key.place == key.place)
                {
                    self.slots.empty(number, index)?;
                }
            }
            Ok(())
        });
        emptied.inspect_err(|error| self.give_up("write to", error, false)).is_ok()
    }

    /// Whether the chunk is in the store.
    fn try_put(&self, key: &ChunkKey, body: &Body) -> io::Result<bool> {
        let left_bytes = self.left_bytes.load(Ordering::Relaxed);
        let (numbers, now) = (self.sets_of(key), self.now());
        let sets = numbers.iter().map(|number| self.slots.read_set(*number)).collect::<io::Result<Vec<_>>>()?;
        let entry = Entry { tag: key.tag(), class: set::class(body.expected_bytes()), stamp: now };
        let used_bytes = self.slots.disk.used_bytes()?;
        let (slot, had_bytes) = match self.find_place(&numbers, &sets, key)? {
            // Another job was faster.
            Some((_, header)) if header.key.identity == key.identity => return Ok(true),
            Some((slot, _)) => (slot, sets[slot.set].0[slot.index].disk_bytes()),
            None => {
                let terms = Terms {
                    need_bytes: entry.disk_bytes(),
                    room_bytes: self.capacity_bytes as i64 - used_bytes as i64,
                    now,
                    horizon: self.horizon(),
                    first_slot: key.first_slot(),
                };
                let Some(choice) = set::choose(&sets, terms).filter(|_| left_bytes > 0) else { return Ok(false) };
                for replaced in &choice.replaced {
                    self.slots.empty(numbers[replaced.set], replaced.index)?;
                }
                (choice.slot, choice.replaced.iter().map(|slot| sets[slot.set].0[slot.index].disk_bytes()).sum())
            }
        };
        let growth_bytes = entry.disk_bytes().saturating_sub(had_bytes) as i64;
        if growth_bytes > left_bytes.max(0) {
            return Ok(false);
        }
        self.left_bytes.fetch_sub(growth_bytes, Ordering::Relaxed);
        let (number, index) = (numbers[slot.set], slot.index);
        let written = self.slots.write(number, index, entry, key, body);
        if written.is_err() {
            let _ = self.slots.empty(number, index);
        }
        written.map(|()| true)
    }

    /// The slot that has a version of this chunk already.
    fn find_place(&self, numbers: &[u64], sets: &[Set], key: &ChunkKey) -> io::Result<Option<(Slot, SlotHeader)>> {
        for (set, number) in numbers.iter().enumerate() {
            for (index, entry) in sets[set].0.into_iter().enumerate() {
                if entry.is_empty() || entry.tag != key.tag() {
                    continue;
                }
                let header = self.read_header(*number, index, entry)?;
                if let Some(header) = header.filter(|header| header.key.place == key.place) {
                    return Ok(Some((Slot { set, index }, header)));
                }
            }
        }
        Ok(None)
    }

    /// The work of about once a second: looks at the room on the disk and gives back what is too much. May block.
    pub fn tend(&self) {
        if self.is_off() {
            return;
        }
        if self.slots.disk.is_removed() {
            tracing::info!("the cache store was removed; the job goes on without it");
            self.is_off.store(true, Ordering::Relaxed);
            return;
        }
        if let Err(error) = self.try_tend() {
            self.give_up("look after", &error, false);
        }
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        if look.is_multiple_of(self.slots.geometry.index_bytes() / COUNTED_BYTES + 1) {
            self.counters();
        }
    }

    fn try_tend(&self) -> io::Result<()> {
        let (room, used_bytes) = (self.slots.disk.room()?, self.slots.disk.used_bytes()?);
        let reserve_bytes = (room.all_bytes / RESERVE_DIVISOR).min(RESERVE_BYTES_MAX);
        let kept_bytes = reserve_bytes.max(room.promised_bytes);
        let left = i64::try_from(room.free_bytes).unwrap_or(i64::MAX) - i64::try_from(kept_bytes).unwrap_or(i64::MAX);
        self.left_bytes.store(left, Ordering::Relaxed);
        let too_much = used_bytes.saturating_sub(self.capacity_bytes);
        let missing = reserve_bytes.saturating_sub(room.free_bytes);
        match too_much.max(missing).min(used_bytes) {
            0 => Ok(()),
            bytes if self.is_read_only.load(Ordering::Relaxed) => {
                tracing::debug!(bytes, "a store that cannot be written gives nothing back");
                Ok(())
            }
            bytes => {
                let first = self.cursor.load(Ordering::Relaxed);
                self.cursor.store(self.slots.give_back(first, bytes, self.now())?, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// The figures now. May block: they are counted in the index.
    pub fn counters(&self) -> Counters {
        if !self.is_off() {
            let keep = |count: &AtomicU64, found: io::Result<u64>| count.store(found.unwrap_or(0), Ordering::Relaxed);
            keep(&self.counts.used_bytes, self.slots.disk.used_bytes());
            keep(&self.counts.chunks, self.slots.count());
        }
        self.recent_counters()
    }

    /// The figures, those of the disk as of the last look. Does not block.
    pub fn recent_counters(&self) -> Counters {
        let Counts { hits, hit_bytes, misses, damaged, refused, used_bytes, chunks } = &self.counts;
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let of_disk = |count: &AtomicU64| if self.is_off() { 0 } else { get(count) };
        Counters {
            capacity_bytes: self.capacity_bytes,
            used_bytes: of_disk(used_bytes),
            chunks: of_disk(chunks),
            hits: get(hits),
            misses: get(misses),
            damaged: get(damaged),
            refused: get(refused),
            hit_bytes: get(hit_bytes),
        }
    }

    /// Whether the store is not used any more.
    pub fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }

    /// Goes on without what does not work, and says so once.
    fn give_up(&self, doing: &str, error: &io::Error, reading: bool) {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        if matches!(error.kind(), StorageFull | QuotaExceeded) {
            self.left_bytes.store(0, Ordering::Relaxed);
            if !self.has_told_full.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "the disk of the cache store is full; nothing is admitted until it has room");
            }
        } else if reading {
            if !self.is_off.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "cannot {doing} the cache store; the job goes on without it");
            }
        } else if !self.is_read_only.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "cannot {doing} the cache store; nothing more is put into it");
        }
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time now, as entries have it.
    fn now(&self) -> u32 {
        let clock = self.clock();
        set::stamp(clock.reuse.clock_bytes + clock.pending_bytes, self.slots.geometry.unit_bytes)
    }

    fn horizon(&self) -> u32 {
        let units = self.clock().reuse.horizon_bytes(self.capacity_bytes) / self.slots.geometry.unit_bytes;
        u32::try_from(units).unwrap_or(u32::MAX).min(set::STAMPS / 2)
    }

    /// So many bytes more are asked for. Returns the time.
    fn tick(&self, bytes: u64) -> u32 {
        let pending_bytes = {
            let mut clock = self.clock();
            clock.pending_bytes += bytes;
            let is_due =
                clock.pending_bytes >= self.slots.geometry.unit_bytes && !self.is_read_only.load(Ordering::Relaxed);
            if is_due { std::mem::take(&mut clock.pending_bytes) } else { 0 }
        };
        if pending_bytes > 0
            && let Err(error) = self.note_time(pending_bytes)
        {
            self.give_up("write to", &error, false);
        }
        self.now()
    }

    /// Adds to the time in the index. Another process may do so at the same time; then the store's time is a little slow.
    fn note_time(&self, bytes: u64) -> io::Result<()> {
        let mut block = [0; CLOCK_BYTES];
        let len = self.slots.disk.read_at(Area::Index, &mut block, CLOCK_AT)?;
        let mut reuse = ClockBlock::decode(&block[..len]).unwrap_or_default().reuse;
        reuse.advance(bytes);
        {
            let mut clock = self.clock();
            reuse.learn(&clock.reuse);
            clock.reuse = reuse;
        }
        self.slots.disk.write_at(
            Area::Index,
            &ClockBlock { reuse, capacity_bytes: self.capacity_bytes }.encode(),
            CLOCK_AT,
        )
    }

    /// A chunk was found.
    fn note_use(&self, set: u64, index: usize, entry: Entry, now: u32) {
        let distance_bytes = u64::from(entry.age(now)) * self.slots.geometry.unit_bytes;
        self.clock().reuse.observe(distance_bytes);
        if entry.stamp != now && !self.is_read_only.load(Ordering::Relaxed) {
            // Of a slot that another one replaces meanwhile, the new entry is used now, too.
            let written = self.slots.write_stamp(set, index, Entry { stamp: now, ..entry });
            written.unwrap_or_else(|error| self.give_up("write to", &error, false));
        }
    }

    fn sets_of(&self, key: &ChunkKey) -> Vec<u64> {
        let [first, second] = key.sets(self.slots.geometry.set_count);
        if first == second { vec![first] } else { vec![first, second] }
    }
}
