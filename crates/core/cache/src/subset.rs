//! The part of a data set that a home keeps: it stays, however large the set is.
//!
//! Epochs of training read each chunk once, in another order every time. By how recently it was used, nothing of a set a little larger than
//! the room is there when it is wanted again. So a chunk is taken in while there is room, and then only in place of one that is not used any
//! more. Time is counted in bytes that were asked for: within two epochs' worth of it each chunk of the set is used again. So one is not used
//! any more that was not used for longer than others are between two uses, or any of them while none is used again.

use std::collections::BTreeMap;

use forebay_types::Map;

use crate::Key;

/// How many times the longest time between two uses a chunk stays unused before another may take its place, in quarters.
const PATIENCE_QUARTERS: u64 = 5;

/// A part of the room: a chunk that is used again within it says nothing of those that have been there for long.
const SHORT_PART: u64 = 8;

/// After so many times the longest time between two uses without another as long, it counts half.
const REMEMBERED_FOR: u64 = 8;

/// The chunks that stay, with what is kept of each.
pub(crate) struct Subset<T> {
    entries: Map<Key, Entry<T>>,
    /// Keys by their last use.
    by_use: BTreeMap<u64, Key>,
    bytes: u64,
    /// Bytes that were asked for since the start: the time.
    clock: u64,
    /// Tells uses at one time apart.
    uses: u64,
    /// The longest time between two uses, and when it was seen.
    longest: (u64, u64),
    /// When a chunk was last used again that had been there for long.
    proven: u64,
    room_bytes: u64,
}

struct Entry<T> {
    kept: T,
    bytes: u64,
    used: u64,
    at: u64,
}

impl<T> Subset<T> {
    pub fn new() -> Self {
        Self {
            entries: Map::default(),
            by_use: BTreeMap::new(),
            bytes: 0,
            clock: 0,
            uses: 0,
            longest: (0, 0),
            proven: 0,
            room_bytes: 0,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn peek(&self, key: &Key) -> Option<&T> {
        self.entries.get(key).map(|entry| &entry.kept)
    }

    pub fn peek_mut(&mut self, key: &Key) -> Option<&mut T> {
        self.entries.get_mut(key).map(|entry| &mut entry.kept)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.kept))
    }

    /// The chunk, which is used once more.
    pub fn get(&mut self, key: &Key) -> Option<&T> {
        let entry = self.entries.get_mut(key)?;
        self.clock += entry.bytes;
        let unused = self.clock - entry.at;
        self.by_use.remove(&entry.used);
        self.uses += 1;
        (entry.used, entry.at) = (self.uses, self.clock);
        self.by_use.insert(self.uses, key.clone());
        if unused > self.room_bytes / SHORT_PART {
            self.proven = self.clock;
        }
        let (longest, seen) = self.longest;
        if unused >= longest {
            self.longest = (unused, self.clock);
        } else if self.clock - seen > longest.saturating_mul(REMEMBERED_FOR) {
            self.longest = (longest / 2, self.clock);
        }
        self.entries.get(key).map(|entry| &entry.kept)
    }

    /// Takes a chunk of `bytes` in that was asked for, or gives it back. Of `room_bytes` for all, what is unused makes way, and is returned.
    pub fn insert(&mut self, key: Key, kept: T, bytes: u64, room_bytes: u64) -> (Vec<(Key, T)>, Option<T>) {
        self.clock += bytes;
        self.room_bytes = room_bytes;
        let mut left = Vec::new();
        while self.bytes + bytes > room_bytes {
            match self.oldest().filter(|oldest| self.is_unused(oldest)) {
                Some(oldest) => left.extend(self.remove(&oldest).map(|kept| (oldest, kept))),
                None => return (left, Some(kept)),
            }
        }
        self.remove(&key);
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        self.bytes += bytes;
        self.entries.insert(key, Entry { kept, bytes, used: self.uses, at: self.clock });
        (left, None)
    }

    pub fn remove(&mut self, key: &Key) -> Option<T> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.used);
        self.bytes -= entry.bytes;
        Some(entry.kept)
    }

    /// Drops what is not used any more, and then what was used last, until the others have room: in epochs that is used again after all
    /// others. By how long it was unused, what the epoch has still to read would leave each time that memory is scarce for a moment.
    pub fn shrink(&mut self, room_bytes: u64) -> Vec<(Key, T)> {
        let mut left = Vec::new();
        while self.bytes > room_bytes
            && let Some(next) = self.oldest().filter(|oldest| self.is_unused(oldest)).or_else(|| self.newest())
        {
            left.extend(self.remove(&next).map(|kept| (next, kept)));
        }
        left
    }

    pub fn clear(&mut self) {
        *self = Self { clock: self.clock, uses: self.uses, longest: self.longest, proven: self.clock, ..Self::new() };
    }

    fn oldest(&self) -> Option<Key> {
        self.by_use.first_key_value().map(|(_, key)| key.clone())
    }

    fn newest(&self) -> Option<Key> {
        self.by_use.last_key_value().map(|(_, key)| key.clone())
    }

    /// Whether a chunk is not used any more.
    fn is_unused(&self, key: &Key) -> bool {
        let patience = (self.longest.0 / 4 * PATIENCE_QUARTERS).max(2 * self.room_bytes);
        let is_one = |entry: &Entry<T>| self.clock - entry.at > patience;
        self.clock - self.proven > self.room_bytes || self.entries.get(key).is_none_or(is_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{ChunkIndex, Generation, ViewPath};

    const ROOM: u64 = 200;

    fn chunk(index: u64) -> Key {
        Key::Chunk { file: ViewPath::root(), generation: Generation::default(), index: ChunkIndex(index) }
    }

    /// Numbers that look random, by a congruence.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    /// Reads a set of chunks of one byte once, in a new order; the part that was there.
    fn epoch(subset: &mut Subset<()>, random: &mut Random, set: std::ops::Range<u64>) -> f64 {
        scarce_epoch(subset, random, set, None)
    }

    /// The same where an eighth of the room is missing for a moment, before each chunk of which the number is a multiple of `scarce`.
    fn scarce_epoch(
        subset: &mut Subset<()>,
        random: &mut Random,
        set: std::ops::Range<u64>,
        scarce: Option<u64>,
    ) -> f64 {
        let (mut order, count): (Vec<u64>, _) = (set.clone().collect(), set.end - set.start);
        for at in (1..count).rev() {
            order.swap(at as usize, random.below(at + 1) as usize);
        }
        let mut hits = 0;
        for index in order {
            if scarce.is_some_and(|every| index.is_multiple_of(every)) {
                drop(subset.shrink(ROOM - ROOM / 8));
            }
            if subset.get(&chunk(index)).is_some() {
                hits += 1;
            } else {
                drop(subset.insert(chunk(index), (), 1, ROOM));
            }
        }
        f64::from(hits) / count as f64
    }

    #[test]
    fn of_a_set_that_is_too_large_as_much_is_there_as_has_room() {
        for (size, seed) in [(100, 1), (200, 2), (240, 3), (400, 4), (800, 5), (2_000, 6)] {
            let (mut subset, mut random) = (Subset::new(), Random(seed));
            epoch(&mut subset, &mut random, 0..size);
            for number in 2..8 {
                let hits = epoch(&mut subset, &mut random, 0..size);
                let fits = (ROOM as f64 / size as f64).min(1.0);
                assert!(hits >= 0.9 * fits, "epoch {number} of {size} chunks: {hits:.3} of {fits:.3}");
                assert!(fits < 1.0 || hits == 1.0);
            }
        }
    }

    #[test]
    fn moments_of_scarce_memory_cost_little() {
        for (size, seed) in [(180, 1), (240, 2), (400, 3)] {
            let (mut subset, mut random) = (Subset::new(), Random(seed));
            scarce_epoch(&mut subset, &mut random, 0..size, Some(10));
            let hits: f64 = (0..6).map(|_| scarce_epoch(&mut subset, &mut random, 0..size, Some(10)) / 6.0).sum();
            let fits = (ROOM as f64 / size as f64).min(1.0);
            assert!(hits >= 0.8 * fits, "of {size} chunks {hits:.3} of {fits:.3}");
        }
    }

    #[test]
    fn a_new_set_takes_the_place_of_one_that_is_not_used_any_more() {
        let (mut subset, mut random) = (Subset::new(), Random(7));
        for _ in 0..3 {
            epoch(&mut subset, &mut random, 0..400);
        }
        let hits: Vec<f64> = (0..6).map(|_| epoch(&mut subset, &mut random, 1_000..1_300)).collect();
        assert!(hits[0] == 0.0 && hits[1] > 0.3 && hits[5] >= 0.9 * 200.0 / 300.0, "{hits:?}");
        // Beside it another small one, which is used for long.
        for _ in 0..10 {
            epoch(&mut subset, &mut random, 1_000..1_100);
            epoch(&mut subset, &mut random, 5_000..5_080);
        }
        assert_eq!(epoch(&mut subset, &mut random, 1_000..1_100) + epoch(&mut subset, &mut random, 5_000..5_080), 2.0);
        assert!(subset.bytes() <= ROOM);
    }

    #[test]
    fn less_room_for_a_moment_keeps_what_the_epoch_has_still_to_read() {
        let mut subset = Subset::new();
        for index in 0..10 {
            drop(subset.insert(chunk(index), index, 1, ROOM));
        }
        assert_eq!(subset.get(&chunk(0)), Some(&0));
        let left: Vec<u64> = subset.shrink(3).into_iter().map(|(_, kept)| kept).collect();
        assert_eq!(left, [0, 9, 8, 7, 6, 5, 4]);
        assert_eq!((subset.bytes(), subset.peek(&chunk(1))), (3, Some(&1)));
        subset.clear();
        assert_eq!((subset.bytes(), subset.iter().count()), (0, 0));
    }
}
