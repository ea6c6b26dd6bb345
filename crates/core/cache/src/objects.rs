//! Answers within one budget of bytes.
//!
//! One budget for all kinds: what is worth keeping is decided by use, not by a split made beforehand. The policy is
//! quick_cache's (S3-FIFO with a small admission queue and ghosts): objects seen once, as in a scan of a data set,
//! leave before those that a start-up uses again. Its unsynchronised form does no I/O and, with our hasher, is the same
//! in every run.

use std::time::Duration;

use forebay_types::{Hasher, Map, Time, ViewPath};
use quick_cache::unsync::Cache;
use quick_cache::{Lifecycle, Weighter};

use crate::{Key, Object, ObjectKind};

/// Bytes that an object costs beside its own: key, path, tables (measured with 13,000 small objects: 180 to 240).
const OVERHEAD_BYTES: u64 = 256;

/// Objects expected in a budget, for the size of the policy's tables: one per 64 KiB, at most a million.
const BYTES_PER_OBJECT: u64 = 64 << 10;

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
        Self { slots, counters: Map::default(), pinned_bytes: 0 }
    }

    /// The object, counted as a hit or as a miss of `kind`.
    pub fn get(&mut self, key: &Key, kind: ObjectKind) -> Option<Object<B>> {
        let found = self.slots.get(key).map(|slot| slot.object.clone());
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
        self.slots.contains_key(key)
    }

    /// The object without counting a use.
    #[must_use]
    pub fn peek(&self, key: &Key) -> Option<&Object<B>> {
        self.slots.peek(key).map(|slot| &slot.object)
    }

    /// How long the object has been kept.
    #[must_use]
    pub fn age(&self, key: &Key, now: Time) -> Option<Duration> {
        self.slots.peek(key).map(|slot| now.since(slot.since))
    }

    /// Keeps `object`, whose chunk (if it is one) holds `chunk_bytes`; others leave as the budget demands.
    pub fn insert(&mut self, now: Time, key: Key, object: Object<B>, chunk_bytes: u64) {
        let bytes = object.own_bytes() + chunk_bytes + key.path().as_bytes().len() as u64 + OVERHEAD_BYTES;
        self.remove(&key);
        let counters = self.counters.entry(object.kind()).or_default();
        counters.entries += 1;
        counters.bytes += bytes;
        let mut evicted = Vec::new();
        self.slots.insert_with_lifecycle(key, Slot { object, bytes, pinned: false, since: now }, &mut evicted);
        for (kind, bytes) in evicted {
            self.count_out(kind, bytes);
            self.counters.entry(kind).or_default().evicted += 1;
        }
    }

    /// Puts `object` in the place of one that has as many bytes; neither counted nor a use.
    pub fn replace(&mut self, key: &Key, object: Object<B>) {
        if let Some(mut slot) = self.slots.peek_mut(key) {
            slot.object = object;
        }
    }

    /// Drops the object.
    pub fn remove(&mut self, key: &Key) {
        if let Some((_, slot)) = self.slots.remove(key) {
            self.count_out(slot.object.kind(), slot.bytes);
            self.pinned_bytes -= if slot.pinned { slot.bytes } else { 0 };
        }
    }

    /// Exempts the object from eviction until it is dropped. `false` when it is not there or when half of the budget
    /// is pinned already: the other half must stay to work with.
    pub fn pin(&mut self, key: &Key) -> bool {
        let room = (self.slots.capacity() / 2).saturating_sub(self.pinned_bytes);
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
        true
    }

    /// Pins what is kept at or below `path`, as far as there is room.
    pub fn pin_within(&mut self, path: &ViewPath) {
        let mut keys: Vec<Key> = self.slots.iter().map(|(key, _)| key.clone()).collect();
        keys.retain(|key| key.path().is_within(path));
        for key in keys {
            self.pin(&key);
        }
    }

    /// How many have such a key; not counted as uses.
    #[must_use]
    pub fn count_where(&self, counts: impl Fn(&Key) -> bool) -> usize {
        self.slots.iter().filter(|(key, _)| counts(key)).count()
    }

    /// Drops what has such a key, pinned or not.
    pub fn remove_where(&mut self, drops: impl Fn(&Key) -> bool) {
        let keys: Vec<Key> = self.slots.iter().map(|(key, _)| key).filter(|key| drops(key)).cloned().collect();
        keys.iter().for_each(|key| self.remove(key));
    }

    /// Drops everything, pinned or not.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.pinned_bytes = 0;
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
        self.slots.weight()
    }

    /// Changes the budget; objects leave until the others fit. Pinned ones stay, whatever it is.
    pub fn set_budget(&mut self, budget_bytes: u64) {
        self.slots.set_capacity(budget_bytes);
        let kept = |kind: ObjectKind, slots: &Cache<Key, Slot<B>, SlotBytes, Hasher, Evictions>| {
            let of_kind = slots.iter().filter(|(_, slot)| slot.object.kind() == kind);
            of_kind.fold((0, 0), |(entries, bytes), (_, slot)| (entries + 1, bytes + slot.bytes))
        };
        for (kind, counters) in &mut self.counters {
            let (entries, bytes) = kept(*kind, &self.slots);
            counters.evicted += counters.entries - entries;
            (counters.entries, counters.bytes) = (entries, bytes);
        }
    }

    /// The budget, bytes.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.slots.capacity()
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
