//! Answers within one budget of bytes.
//!
//! One budget for all kinds: what is worth keeping is decided by use, not by a split made beforehand. The policy is
//! quick_cache's (S3-FIFO with a small admission queue and ghosts): objects seen once, as in a scan of a data set,
//! leave before those that a start-up uses again. Its unsynchronised form does no I/O and, with our hasher, is the same
//! in every run.
//!
//! Chunks that this node keeps as their home are kept apart (`Subset`), since epochs use each once. They have what the others have never
//! needed, three quarters of the budget at least; one that is not taken in there is an object like the others.

use std::time::Duration;

use forebay_types::{Hasher, Map, Time, ViewPath};
use quick_cache::unsync::Cache;
use quick_cache::{Lifecycle, Weighter};

use crate::subset::Subset;
use crate::{Key, Object, ObjectKind};

/// Bytes that an object costs beside its own: key, path, tables (measured with 13,000 small objects: 180 to 240).
const OVERHEAD_BYTES: u64 = 256;

/// Objects expected in a budget, for the size of the policy's tables: one per 64 KiB, at most a million.
const BYTES_PER_OBJECT: u64 = 64 << 10;

/// The part of a budget that objects other than homes' chunks may take at most from these, and the one that is left to them at least.
const OTHERS_PART_MAX: u64 = 4;
const OTHERS_PART_MIN: u64 = 16;

/// Counts of one kind of object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct KindCounters {
    pub entries: u64,
    pub bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub evicted: u64,
}

/// The objects that a node keeps.
pub struct Objects<B> {
    slots: Cache<Key, Slot<B>, SlotBytes, Hasher, Evictions>,
    /// Chunks that this node keeps as their home.
    of_home: Subset<Slot<B>>,
    budget_bytes: u64,
    /// The most that the others have needed, as far as homes' chunks make way for it: what these lost once they do not fill again, or
    /// each read ahead would drive some of them out.
    others_bytes: u64,
    counters: Map<ObjectKind, KindCounters>,
    pinned_bytes: u64,
}

struct Slot<B> {
    object: Object<B>,
    bytes: u64,
    pinned: bool,
    since: Time,
}

#[derive(Clone)]
struct SlotBytes;

impl<B> Weighter<Key, Slot<B>> for SlotBytes {
    fn weight(&self, _key: &Key, slot: &Slot<B>) -> u64 {
        slot.bytes
    }
}

/// Tells pinned slots from others and collects what was evicted, for the counters.
#[derive(Clone)]
struct Evictions;

impl<B> Lifecycle<Key, Slot<B>> for Evictions {
    type RequestState = Vec<(ObjectKind, u64)>;

    fn is_pinned(&self, _key: &Key, slot: &Slot<B>) -> bool {
        slot.pinned
    }

    fn on_evict(&self, evicted: &mut Self::RequestState, _key: Key, slot: Slot<B>) {
        evicted.push((slot.object.kind(), slot.bytes));
    }
}

impl<B: Clone> Objects<B> {
    /// An empty cache of at most `budget_bytes`.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Self {
        let expected = (budget_bytes / BYTES_PER_OBJECT).clamp(256, 1 << 20) as usize;
        let slots = Cache::with(expected, budget_bytes, SlotBytes, Hasher::default(), Evictions);
        Self { slots, of_home: Subset::new(), budget_bytes, others_bytes: 0, counters: Map::default(), pinned_bytes: 0 }
    }

    /// The object, counted as a hit or as a miss of `kind`.
    pub fn get(&mut self, key: &Key, kind: ObjectKind) -> Option<Object<B>> {
        let found = self.slots.get(key).or_else(|| self.of_home.get(key)).map(|slot| slot.object.clone());
        let counters = self.counters.entry(kind).or_default();
        if found.is_some() {
            counters.hits += 1
        } else {
            counters.misses += 1
        }
        found
    }

    /// Whether the object is there; neither counted nor a use.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.slots.contains_key(key) || self.of_home.peek(key).is_some()
    }

    /// The object without counting a use.
    #[must_use]
    pub fn peek(&self, key: &Key) -> Option<&Object<B>> {
        self.slots.peek(key).or_else(|| self.of_home.peek(key)).map(|slot| &slot.object)
    }

    /// How long the object has been kept.
    #[must_use]
    pub fn age(&self, key: &Key, now: Time) -> Option<Duration> {
        self.slots.peek(key).or_else(|| self.of_home.peek(key)).map(|slot| now.since(slot.since))
    }

    /// Keeps `object`, whose chunk (if it is one) holds `chunk_bytes`; others leave as the budget demands.
    pub fn insert(&mut self, now: Time, key: Key, object: Object<B>, chunk_bytes: u64) {
        let slot = self.slot(now, &key, object, chunk_bytes);
        self.make_room(slot.bytes);
        self.insert_slot(key, slot);
    }

    /// The same for a chunk that this node is home of: it stays for as long as the job uses what is kept so, or leaves soon.
    pub fn insert_of_home(&mut self, now: Time, key: Key, chunk: Object<B>, chunk_bytes: u64) {
        let slot = self.slot(now, &key, chunk, chunk_bytes);
        let (kind, bytes) = (slot.object.kind(), slot.bytes);
        let room = self.room_of_homes();
        let (left, refused) = self.of_home.insert(key.clone(), slot, bytes, room);
        left.into_iter().for_each(|(_, slot)| self.count_evicted(slot.object.kind(), slot.bytes));
        match refused {
            Some(slot) => self.insert_slot(key, slot),
            None => {
                self.count_in(kind, bytes);
                self.fit_slots();
            }
        }
    }

    fn room_of_homes(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.others_bytes.max(self.budget_bytes / OTHERS_PART_MIN))
    }

    /// The slot of an object in the place of any that there was.
    fn slot(&mut self, now: Time, key: &Key, object: Object<B>, chunk_bytes: u64) -> Slot<B> {
        self.remove(key);
        let bytes = object.own_bytes() + chunk_bytes + key.path().as_bytes().len() as u64 + OVERHEAD_BYTES;
        Slot { object, bytes, pinned: false, since: now }
    }

    fn insert_slot(&mut self, key: Key, slot: Slot<B>) {
        self.count_in(slot.object.kind(), slot.bytes);
        let mut evicted = Vec::new();
        self.slots.insert_with_lifecycle(key, slot, &mut evicted);
        evicted.into_iter().for_each(|(kind, bytes)| self.count_evicted(kind, bytes));
    }

    /// Has homes' chunks make way for `bytes` more of the others.
    fn make_room(&mut self, bytes: u64) {
        let most = self.budget_bytes / OTHERS_PART_MAX + self.pinned_bytes;
        self.others_bytes = self.others_bytes.max((self.slots.weight() + bytes).min(most));
        let left = self.of_home.shrink(self.budget_bytes.saturating_sub(self.others_bytes));
        left.iter().for_each(|(_, slot)| self.count_evicted(slot.object.kind(), slot.bytes));
        if !left.is_empty() {
            self.fit_slots();
        }
    }

    /// Leaves the others what homes' chunks do not take.
    fn fit_slots(&mut self) {
        let capacity = self.budget_bytes.saturating_sub(self.of_home.bytes());
        if capacity < self.slots.weight() {
            self.set_slots_capacity(capacity);
        } else {
            self.slots.set_capacity(capacity);
        }
    }

    /// Puts `object` in the place of one that has as many bytes; neither counted nor a use.
    pub fn replace(&mut self, key: &Key, object: Object<B>) {
        if let Some(mut slot) = self.slots.peek_mut(key) {
            slot.object = object;
        } else if let Some(slot) = self.of_home.peek_mut(key) {
            slot.object = object;
        }
    }

    /// Drops the object.
    pub fn remove(&mut self, key: &Key) {
        if let Some((_, slot)) = self.slots.remove(key) {
            self.count_out(slot.object.kind(), slot.bytes);
            self.pinned_bytes -= if slot.pinned { slot.bytes } else { 0 };
        } else if let Some(slot) = self.of_home.remove(key) {
            self.count_out(slot.object.kind(), slot.bytes);
            self.fit_slots();
        }
    }

    /// Exempts the object from eviction until it is dropped. `false` when it is not there or when half of the budget
    /// is pinned already: the other half must stay to work with.
    pub fn pin(&mut self, key: &Key) -> bool {
        let room = (self.budget_bytes / 2).saturating_sub(self.pinned_bytes);
        if self.of_home.peek(key).is_some_and(|slot| slot.bytes <= room)
            && let Some(slot) = self.of_home.remove(key)
        {
            self.count_out(slot.object.kind(), slot.bytes);
            self.fit_slots();
            self.make_room(slot.bytes);
            self.insert_slot(key.clone(), slot);
        }
        let Some(mut slot) = self.slots.peek_mut(key) else {
            return false;
        };
        if slot.pinned || slot.bytes > room {
            return slot.pinned;
        }
        slot.pinned = true;
        let bytes = slot.bytes;
        drop(slot);
        self.pinned_bytes += bytes;
        self.make_room(0);
        true
    }

    /// Pins what is kept at or below `path`, as far as there is room.
    pub fn pin_within(&mut self, path: &ViewPath) {
        let keys: Vec<Key> = self.keys().filter(|key| key.path().is_within(path)).cloned().collect();
        for key in keys {
            self.pin(&key);
        }
    }

    /// How many have such a key; not counted as uses.
    #[must_use]
    pub fn count_where(&self, counts: impl Fn(&Key) -> bool) -> usize {
        self.keys().filter(|key| counts(key)).count()
    }

    fn keys(&self) -> impl Iterator<Item = &Key> {
        self.slots.iter().map(|(key, _)| key).chain(self.of_home.iter().map(|(key, _)| key))
    }

    /// Drops what has such a key, pinned or not.
    pub fn remove_where(&mut self, drops: impl Fn(&Key) -> bool) {
        let keys: Vec<Key> = self.keys().filter(|key| drops(key)).cloned().collect();
        keys.iter().for_each(|key| self.remove(key));
    }

    /// Drops everything, pinned or not.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.of_home.clear();
        self.slots.set_capacity(self.budget_bytes);
        (self.pinned_bytes, self.others_bytes) = (0, 0);
        for counters in self.counters.values_mut() {
            (counters.entries, counters.bytes) = (0, 0);
        }
    }

    /// Counts of `kind`.
    #[must_use]
    pub fn counters(&self, kind: ObjectKind) -> KindCounters {
        self.counters.get(&kind).copied().unwrap_or_default()
    }

    /// Bytes kept, of all kinds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.slots.weight() + self.of_home.bytes()
    }

    /// Changes the budget; objects leave until the others fit. Pinned ones stay, whatever it is.
    pub fn set_budget(&mut self, budget_bytes: u64) {
        self.budget_bytes = budget_bytes;
        self.others_bytes = self.others_bytes.min(budget_bytes / OTHERS_PART_MAX + self.pinned_bytes);
        drop(self.of_home.shrink(self.room_of_homes()));
        self.set_slots_capacity(budget_bytes - self.of_home.bytes());
    }

    /// The policy says nothing of what leaves for that, so what is left is counted.
    fn set_slots_capacity(&mut self, bytes: u64) {
        self.slots.set_capacity(bytes);
        let kept = |kind: ObjectKind| {
            let slots = self.slots.iter().chain(self.of_home.iter());
            let of_kind = slots.filter(|(_, slot)| slot.object.kind() == kind);
            of_kind.fold((0, 0), |(entries, bytes), (_, slot)| (entries + 1, bytes + slot.bytes))
        };
        for (kind, counters) in &mut self.counters {
            let (entries, bytes) = kept(*kind);
            counters.evicted += counters.entries - entries;
            (counters.entries, counters.bytes) = (entries, bytes);
        }
    }

    /// The budget, bytes.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    fn count_in(&mut self, kind: ObjectKind, bytes: u64) {
        let counters = self.counters.entry(kind).or_default();
        counters.entries += 1;
        counters.bytes += bytes;
    }

    fn count_evicted(&mut self, kind: ObjectKind, bytes: u64) {
        self.count_out(kind, bytes);
        self.counters.entry(kind).or_default().evicted += 1;
    }

    fn count_out(&mut self, kind: ObjectKind, bytes: u64) {
        let counters = self.counters.entry(kind).or_default();
        counters.entries -= 1;
        counters.bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{ChunkIndex, Generation};
    use proptest::prelude::*;

    fn chunk(index: u64) -> Key {
        Key::Chunk { file: ViewPath::root(), generation: Generation::default(), index: ChunkIndex(index) }
    }

    #[test]
    fn epochs_over_a_set_that_is_too_large_find_what_has_room() {
        let mut objects = Objects::new(64 << 20);
        // Names, used all along.
        let names = |objects: &mut Objects<()>| {
            for index in 10_000..10_040 {
                if objects.get(&chunk(index), ObjectKind::Chunks).is_none() {
                    objects.insert(Time(0), chunk(index), Object::Chunk(()), 100 << 10);
                }
            }
        };
        let mut hits = 0;
        for epoch in 0..4 {
            hits = 0;
            for step in 0..100 {
                // 37 has no part in common with 101, so each order has each of 100 once.
                let index = (step + 1) * 37_u64.pow(epoch + 1) % 101;
                names(&mut objects);
                match objects.get(&chunk(index), ObjectKind::Chunks) {
                    Some(_) => hits += 1,
                    None => objects.insert_of_home(Time(0), chunk(index), Object::Chunk(()), 1 << 20),
                }
                assert!(objects.bytes() <= 64 << 20);
            }
        }
        assert!(hits >= 54, "{hits} of 100, with room for 60 beside the names");
        assert!((10_000..10_040).all(|index| objects.contains(&chunk(index))), "the names stayed");
        objects.set_budget(16 << 20);
        let counters = objects.counters(ObjectKind::Chunks);
        assert!(objects.bytes() <= 16 << 20 && counters.bytes == objects.bytes());
    }

    proptest! {
        /// Against a map that never forgets: what is found is what was put, the budget and the counts hold.
        #[test]
        fn agrees_with_a_map(steps in proptest::collection::vec((0u64..40, 1u64..300_000, 0u8..10), 1..300)) {
            let budget = 2 << 20;
            let mut objects = Objects::new(budget);
            let mut map = std::collections::BTreeMap::new();
            for (index, bytes, action) in steps {
                match action {
                    0 => { objects.remove(&chunk(index)); map.remove(&index); }
                    1 => { objects.pin(&chunk(index)); }
                    6 => {
                        objects.insert_of_home(Time(0), chunk(index), Object::Chunk(bytes), bytes);
                        map.insert(index, bytes);
                    }
                    2..=5 => if let Some(Object::Chunk(found)) = objects.get(&chunk(index), ObjectKind::Chunks) {
                        prop_assert_eq!(Some(&found), map.get(&index));
                    },
                    _ => { objects.insert(Time(0), chunk(index), Object::Chunk(bytes), bytes); map.insert(index, bytes); }
                }
                let counters = objects.counters(ObjectKind::Chunks);
                prop_assert!(objects.bytes() <= budget);
                prop_assert_eq!(counters.bytes, objects.bytes());
                let there = (0..40).filter(|index| objects.contains(&chunk(*index))).count() as u64;
                prop_assert_eq!(counters.entries, there);
            }
        }
    }

    #[test]
    fn a_scan_does_not_drive_out_what_is_used_again() {
        let mut objects = Objects::new(64 << 20);
        for index in 0..16 {
            objects.insert(Time(0), chunk(index), Object::Chunk(()), 1 << 20);
        }
        for index in 0..16 {
            assert!(objects.get(&chunk(index), ObjectKind::Chunks).is_some());
        }
        for index in 1000..3000 {
            objects.insert(Time(0), chunk(index), Object::Chunk(()), 1 << 20);
        }
        let kept = (0..16).filter(|index| objects.contains(&chunk(*index))).count();
        assert!(kept >= 14, "{kept} of 16 used chunks survived a scan of 2,000");
    }

    #[test]
    fn pinned_objects_stay_and_leave_half_of_the_budget() {
        let mut objects = Objects::new(8 << 20);
        for index in 0..6 {
            objects.insert(Time(0), chunk(index), Object::Chunk(()), 1 << 20);
        }
        let pinned = (0..6).filter(|index| objects.pin(&chunk(*index))).count();
        assert_eq!(pinned, 3, "three chunks and their overhead fit half of 8 MiB");
        for index in 100..200 {
            objects.insert(Time(0), chunk(index), Object::Chunk(()), 1 << 20);
        }
        assert!((0..3).all(|index| objects.contains(&chunk(index))));
    }
}
