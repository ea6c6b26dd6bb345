//! The index: sets of slots, and which slot a chunk gets.
//!
//! A chunk may lie in either of two sets, chosen by hashes, and goes into the emptier one: sets fill evenly, so that a store is
//! nearly full before any set is.

/// Slots of a set.
pub(crate) const SET_SLOTS: usize = 32;

/// Bytes of a slot's entry: two of the tag, one of the length, three of the time of the last use.
pub(crate) const ENTRY_BYTES: usize = 6;

/// Bytes of a set.
pub(crate) const SET_BYTES: usize = SET_SLOTS * ENTRY_BYTES;

/// The unit of room on the disk, and the size of a slot's header, bytes.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Times of use, in units of a store's clock, come again after so many.
pub(crate) const STAMPS: u32 = (1 << 24) - 1;

/// The entry of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Bits of the chunk's place.
    pub tag: u16,
    /// Blocks of its contents, less one.
    pub class: u8,
    /// When it was used last, from 1; 0 of a slot that is empty.
    pub stamp: u32,
}

impl Entry {
    pub const EMPTY: Self = Self { tag: 0, class: 0, stamp: 0 };

    pub fn is_empty(self) -> bool {
        self.stamp == 0
    }

    /// The room that its slot takes, bytes.
    pub fn disk_bytes(self) -> u64 {
        if self.is_empty() { 0 } else { (u64::from(self.class) + 2) * BLOCK_BYTES }
    }

    pub fn encode(self) -> [u8; ENTRY_BYTES] {
        let ([tag, tag_high], [stamp, middle, high, _]) = (self.tag.to_le_bytes(), self.stamp.to_le_bytes());
        [tag, tag_high, self.class, stamp, middle, high]
    }

    pub fn decode(bytes: [u8; ENTRY_BYTES]) -> Self {
        let [tag, tag_high, class, stamp, middle, high] = bytes;
        let stamp = u32::from_le_bytes([stamp, middle, high, 0]);
        Self { tag: u16::from_le_bytes([tag, tag_high]), class, stamp }
    }

    /// How long it has not been used, in units of the clock.
    pub fn age(self, now: u32) -> u32 {
        (now + STAMPS - self.stamp.min(STAMPS)) % STAMPS
    }
}

/// The class of contents of this length.
pub(crate) fn class(len_bytes: usize) -> u8 {
    (len_bytes as u64).div_ceil(BLOCK_BYTES).saturating_sub(1).min(u8::MAX.into()) as u8
}

/// The time of use at a time of the clock.
pub(crate) fn stamp(clock_bytes: u64, unit_bytes: u64) -> u32 {
    (clock_bytes / unit_bytes.max(1) % u64::from(STAMPS)) as u32 + 1
}

/// The entries of a set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Set(pub [Entry; SET_SLOTS]);

impl Set {
    /// Of its bytes; what is missing is empty.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut set = Self([Entry::EMPTY; SET_SLOTS]);
        let (entries, _) = bytes.as_chunks::<ENTRY_BYTES>();
        set.0.iter_mut().zip(entries).for_each(|(entry, bytes)| *entry = Entry::decode(*bytes));
        set
    }

    fn empty_count(&self) -> usize {
        self.0.iter().filter(|entry| entry.is_empty()).count()
    }

    /// The first empty slot from `first` on.
    fn empty_from(&self, first: usize) -> Option<usize> {
        (0..SET_SLOTS).map(|step| (first + step) % SET_SLOTS).find(|index| self.0[*index].is_empty())
    }

    /// The slot that was used longest ago.
    pub fn oldest(&self, now: u32) -> Option<usize> {
        let taken = (0..SET_SLOTS).filter(|index| !self.0[*index].is_empty());
        taken.max_by_key(|index| self.0[*index].age(now))
    }
}

/// A slot of one of a chunk's two sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// Which of the two.
    pub set: usize,
    /// Which of its slots.
    pub index: usize,
}

/// Where a chunk goes.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    /// Slots that are emptied for it.
    pub replaced: Vec<Slot>,
    /// The slot that it gets, one of these or an empty one.
    pub slot: Slot,
}

/// The terms on which a chunk is admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The room that it needs, bytes.
    pub need_bytes: u64,
    /// The room below the capacity; below 0 when the store has more than that.
    pub room_bytes: i64,
    /// The time now.
    pub now: u32,
    /// Entries unused for longer than this many units may be replaced.
    pub horizon: u32,
    /// Where to look for an empty slot first.
    pub first_slot: usize,
}

/// Chooses the slot of a chunk that is not in its sets yet; `None`: it is not admitted.
pub(crate) fn choose(sets: &[Set], terms: Terms) -> Option<Choice> {
    let Terms { need_bytes, room_bytes, now, horizon, first_slot } = terms;
    // The first set where both are equally empty.
    let emptiest = (0..sets.len()).rev().max_by_key(|set| sets[*set].empty_count())?;
    let empty = sets[emptiest].empty_from(first_slot).map(|index| Slot { set: emptiest, index });
    let need_bytes = i64::try_from(need_bytes).unwrap_or(i64::MAX);
    if let Some(slot) = empty.filter(|_| room_bytes >= need_bytes) {
        return Some(Choice { replaced: vec![], slot });
    }
    let all = (0..sets.len()).flat_map(|set| (0..SET_SLOTS).map(move |index| Slot { set, index }));
    let entry = |slot: &Slot| sets[slot.set].0[slot.index];
    let mut old: Vec<Slot> = all.filter(|slot| !entry(slot).is_empty() && entry(slot).age(now) > horizon).collect();
    old.sort_by_key(|slot| std::cmp::Reverse(entry(slot).age(now)));
    let (mut replaced, mut room_bytes) = (vec![], room_bytes);
    for slot in old {
        room_bytes = room_bytes.saturating_add(entry(&slot).disk_bytes() as i64);
        replaced.push(slot);
        if room_bytes >= need_bytes {
            let slot = empty.unwrap_or(replaced[0]);
            return Some(Choice { replaced, slot });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Entry = Entry { tag: 7, class: 255, stamp: 10 };

    fn terms(room_bytes: i64, now: u32) -> Terms {
        Terms { need_bytes: 257 * BLOCK_BYTES, room_bytes, now, horizon: 100, first_slot: 31 }
    }

    #[test]
    fn entries_come_back_as_they_went() {
        for entry in [Entry::EMPTY, FULL, Entry { tag: u16::MAX, class: 0, stamp: STAMPS }] {
            assert_eq!(Entry::decode(entry.encode()), entry);
        }
        assert_eq!((Entry::EMPTY.disk_bytes(), FULL.disk_bytes()), (0, (1 << 20) + BLOCK_BYTES));
        assert_eq!([1, 4096, 4097, 1 << 20].map(class), [0, 0, 1, 255]);
    }

    #[test]
    fn ages_go_on_when_the_clock_begins_anew() {
        assert_eq!(stamp(0, 4), 1);
        assert_eq!(stamp(u64::from(STAMPS) * 4, 4), 1);
        assert_eq!(Entry { stamp: STAMPS, ..FULL }.age(3), 3);
        assert_eq!(FULL.age(10), 0);
    }

    #[test]
    fn the_emptier_set_gets_the_chunk_and_only_what_is_old_is_replaced() {
        let mut sets = [Set([FULL; SET_SLOTS]), Set([FULL; SET_SLOTS])];
        sets[1].0[3] = Entry::EMPTY;
        let in_empty = Choice { replaced: vec![], slot: Slot { set: 1, index: 3 } };
        assert_eq!(choose(&sets, terms(1 << 30, 10)), Some(in_empty));
        assert_eq!(choose(&sets, terms(0, 110)), None, "all were used within the horizon");
        sets[0].0[5].stamp = 9;
        let in_place = Choice { replaced: vec![Slot { set: 0, index: 5 }], slot: Slot { set: 1, index: 3 } };
        assert_eq!(choose(&sets, terms(0, 110)), Some(in_place));
        assert_eq!(choose(&sets, terms(-1, 110)), None, "one is not enough");
        assert_eq!(choose(&sets, terms(-1, 111)).unwrap().replaced.len(), 2);
        sets[1].0[3] = FULL;
        assert_eq!(choose(&sets, terms(0, 110)).unwrap().slot, Slot { set: 0, index: 5 });
    }
}
