//! The history of a node or of a job: the work of each slot of time, for the pictures of the report.
//!
//! A history has `SLOTS_MAX` slots at most. When they are used up, slots become twice as long and pairs of them one, so a job of any length
//! costs the same memory, and no sum is lost. Slots begin at multiples of their length since 1970, so those of several nodes are added as they
//! stand. The module has no clock and no file; `sampling` has.

use serde::{Deserialize, Serialize};

/// Slots of a history: more than a picture has columns of pixels to tell apart with ease.
pub const SLOTS_MAX: usize = 240;

/// The shortest slot, milliseconds: the start of a job takes a few.
pub const SLOT_MIN_MS: u64 = 250;

/// The last time and the longest slot, milliseconds: about 30,000 years. Sums of them stay far below the end of the numbers.
const TIME_MAX_MS: u64 = SLOT_MIN_MS << 42;

/// Counters of work since a daemon began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Requests of programs on the view, and bytes that they read.
    pub requests: u64,
    pub read_bytes: u64,
    /// Requests to the backing file system, and bytes read from it.
    pub backing_requests: u64,
    pub backing_bytes: u64,
    /// Bytes that programs wrote to the burst tier, and bytes that landed.
    pub written_bytes: u64,
    pub landed_bytes: u64,
}

/// A slot. In JSON it is the array of these numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "[u64; 8]", into = "[u64; 8]")]
pub struct Slot {
    pub work: Work,
    /// Bytes that had not landed at the slot's end.
    pub left_bytes: u64,
    /// Nodes that sampled it: fewer while a daemon was dead.
    pub nodes: u64,
}

/// The history of a node, or the sum over several.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct History {
    /// The length of a slot, and the begin of the first, milliseconds (since 1970).
    slot_ms: u64,
    from_unix_ms: u64,
    slots: Vec<Slot>,
}

/// A history from outside.
#[derive(Deserialize)]
struct Unchecked {
    slot_ms: u64,
    from_unix_ms: u64,
    slots: Vec<Slot>,
}

/// The recorder of a daemon's history: it knows the counters of the last sample.
#[derive(Debug)]
pub struct Recorder {
    history: History,
    last: Work,
    /// When that was, milliseconds since 1970.
    last_at_ms: u64,
}

impl Work {
    fn combined(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            requests: of(self.requests, other.requests),
            read_bytes: of(self.read_bytes, other.read_bytes),
            backing_requests: of(self.backing_requests, other.backing_requests),
            backing_bytes: of(self.backing_bytes, other.backing_bytes),
            written_bytes: of(self.written_bytes, other.written_bytes),
            landed_bytes: of(self.landed_bytes, other.landed_bytes),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.combined(other, u64::saturating_add)
    }

    /// The growth since `earlier`. A counter that has fallen began again at 0, as that of landing does with another leader.
    fn since(self, earlier: Self) -> Self {
        self.combined(earlier, |now, before| now.checked_sub(before).unwrap_or(now))
    }
}

impl From<[u64; 8]> for Slot {
    fn from(numbers: [u64; 8]) -> Self {
        let [requests, backing_requests, read_bytes, backing_bytes, written_bytes, landed_bytes, left_bytes, nodes] =
            numbers;
        let work = Work { requests, read_bytes, backing_requests, backing_bytes, written_bytes, landed_bytes };
        Self { work, left_bytes, nodes }
    }
}

impl From<Slot> for [u64; 8] {
    fn from(Slot { work, left_bytes, nodes }: Slot) -> Self {
        let Work { requests, read_bytes, backing_requests, backing_bytes, written_bytes, landed_bytes } = work;
        [requests, backing_requests, read_bytes, backing_bytes, written_bytes, landed_bytes, left_bytes, nodes]
    }
}

impl TryFrom<Unchecked> for History {
    type Error = &'static str;

    fn try_from(Unchecked { slot_ms, from_unix_ms, slots }: Unchecked) -> Result<Self, Self::Error> {
        let is_length =
            slot_ms.is_multiple_of(SLOT_MIN_MS) && (slot_ms / SLOT_MIN_MS).is_power_of_two() && slot_ms <= TIME_MAX_MS;
        let is_place = is_length && from_unix_ms.is_multiple_of(slot_ms) && from_unix_ms <= TIME_MAX_MS;
        match slots.len() <= SLOTS_MAX && is_place {
            true => Ok(Self { slot_ms, from_unix_ms, slots }),
            false => Err("not a history: its slots have another length or place, or are too many"),
        }
    }
}

impl History {
    /// A history that begins now.
    fn new(now_ms: u64) -> Self {
        let now_ms = now_ms.min(TIME_MAX_MS);
        Self { slot_ms: SLOT_MIN_MS, from_unix_ms: now_ms - now_ms % SLOT_MIN_MS, slots: vec![] }
    }

    /// Adds the work between two samples of one daemon: to the slot of the first, because samples are taken as slots end. The slots between
    /// them had no work. Slots before, that no daemon sampled, have what was left then.
    fn add(&mut self, (since_ms, now_ms): (u64, u64), work: Work, left_bytes: u64) {
        self.extend_to(now_ms.max(since_ms));
        let index = |at_ms: u64| (at_ms.saturating_sub(self.from_unix_ms) / self.slot_ms) as usize;
        let last = self.slots.len().saturating_sub(1);
        let (first, next) = (index(since_ms).min(last), index(now_ms).min(self.slots.len()));
        // The slot of the second sample is that of the next work.
        let sampled = first..next.max(first + 1);
        for slot in &mut self.slots[sampled.clone()] {
            (slot.nodes, slot.left_bytes) = (1, left_bytes);
        }
        self.slots[first].work = self.slots[first].work.plus(work);
        for slot in &mut self.slots[sampled.end..] {
            slot.left_bytes = left_bytes;
        }
    }

    /// Has a slot for `at_ms`, unless that is before the first.
    fn extend_to(&mut self, at_ms: u64) {
        let at_ms = at_ms.min(TIME_MAX_MS);
        while at_ms.saturating_sub(self.from_unix_ms) / self.slot_ms >= SLOTS_MAX as u64 {
            self.coarsen();
        }
        let count = (at_ms.saturating_sub(self.from_unix_ms) / self.slot_ms) as usize + 1;
        let left_bytes = self.slots.last().map_or(0, |slot| slot.left_bytes);
        if count > self.slots.len() {
            self.slots.resize(count, Slot { left_bytes, ..Slot::default() });
        }
    }

    /// Makes slots twice as long.
    fn coarsen(&mut self) {
        let slot_ms = self.slot_ms * 2;
        let from_unix_ms = self.from_unix_ms - self.from_unix_ms % slot_ms;
        let shift = ((self.from_unix_ms - from_unix_ms) / self.slot_ms) as usize;
        let mut slots = vec![Slot::default(); (self.slots.len() + shift).div_ceil(2)];
        for (index, slot) in self.slots.iter().enumerate() {
            let into = &mut slots[(index + shift) / 2];
            let nodes = into.nodes.max(slot.nodes);
            *into = Slot { work: into.work.plus(slot.work), left_bytes: slot.left_bytes, nodes };
        }
        *self = Self { slot_ms, from_unix_ms, slots };
    }

    /// Adds the history of other nodes, by time. Bytes that were left at the end of one stay left.
    pub fn merge(&mut self, mut other: Self) {
        while self.slot_ms < other.slot_ms {
            self.coarsen();
        }
        let end_ms = |history: &Self| history.from_unix_ms + history.slots.len() as u64 * history.slot_ms;
        loop {
            while other.slot_ms < self.slot_ms {
                other.coarsen();
            }
            let from_unix_ms = self.from_unix_ms.min(other.from_unix_ms);
            let count = (end_ms(self).max(end_ms(&other)) - from_unix_ms) / self.slot_ms;
            if count <= SLOTS_MAX as u64 {
                let slots = (0..count).map(|index| {
                    let at_ms = from_unix_ms + index * self.slot_ms;
                    self.slot_at(at_ms).plus(other.slot_at(at_ms))
                });
                *self = Self { from_unix_ms, slots: slots.collect(), ..*self };
                return;
            }
            self.coarsen();
        }
    }

    fn slot_at(&self, at_ms: u64) -> Slot {
        let Some(since_ms) = at_ms.checked_sub(self.from_unix_ms) else { return Slot::default() };
        let left_bytes = self.slots.last().map_or(0, |slot| slot.left_bytes);
        let after = Slot { left_bytes, ..Slot::default() };
        self.slots.get((since_ms / self.slot_ms) as usize).copied().unwrap_or(after)
    }
}

impl Slot {
    fn plus(self, other: Self) -> Self {
        Self {
            work: self.work.plus(other.work),
            left_bytes: self.left_bytes.saturating_add(other.left_bytes),
            nodes: self.nodes.saturating_add(other.nodes),
        }
    }
}

impl Recorder {
    /// The recorder of a daemon that begins now, with nothing done. `before` is the history of the daemon before it.
    pub fn new(before: Option<History>, now_ms: u64) -> Self {
        Self { history: before.unwrap_or_else(|| History::new(now_ms)), last: Work::default(), last_at_ms: now_ms }
    }

    /// Takes a sample.
    pub fn sample(&mut self, now_ms: u64, work: Work, left_bytes: u64) {
        self.history.add((self.last_at_ms, now_ms), work.since(self.last), left_bytes);
        (self.last, self.last_at_ms) = (work, now_ms);
    }

    /// How long after `now_ms` the next sample is due: at the end of a slot.
    pub fn due_in_ms(&self, now_ms: u64) -> u64 {
        self.history.slot_ms - now_ms % self.history.slot_ms
    }

    /// The history until the last sample.
    pub fn history(&self) -> &History {
        &self.history
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A time in milliseconds that is a multiple of many lengths.
    const NOON: u64 = SLOT_MIN_MS << 32;

    fn requests(count: u64) -> Work {
        Work { requests: count, ..Work::default() }
    }

    /// Requests, bytes left and nodes of each slot.
    fn shown(history: &History) -> Vec<(u64, u64, u64)> {
        history.slots.iter().map(|slot| (slot.work.requests, slot.left_bytes, slot.nodes)).collect()
    }

    fn sum(history: &History) -> u64 {
        history.slots.iter().map(|slot| slot.work.requests).sum()
    }

    /// A daemon that samples each slot, and makes a request in each.
    fn steady(from_ms: u64, slots: u64) -> History {
        let mut recorder = Recorder::new(None, from_ms);
        let mut now_ms = from_ms;
        for count in 1..=slots {
            now_ms += recorder.due_in_ms(now_ms);
            recorder.sample(now_ms, requests(count), 0);
        }
        recorder.history
    }

    #[test]
    fn an_empty_history_is_one() {
        let recorder = Recorder::new(None, NOON + 7);
        assert_eq!(shown(recorder.history()), []);
        assert_eq!(recorder.due_in_ms(NOON + 7), SLOT_MIN_MS - 7);
        let (mut empty, full) = (recorder.history().clone(), steady(NOON, 3));
        empty.merge(full.clone());
        assert_eq!(sum(&empty), 3);
        let mut both = full;
        both.merge(History::new(NOON));
        assert_eq!(sum(&both), 3);
    }

    #[test]
    fn work_is_of_the_slot_that_ends_with_its_sample() {
        let mut recorder = Recorder::new(None, NOON);
        recorder.sample(NOON + 250, requests(5), 10);
        recorder.sample(NOON + 500, requests(7), 20);
        recorder.sample(NOON + 600, requests(8), 30);
        assert_eq!(shown(recorder.history()), [(5, 10, 1), (2, 20, 1), (1, 30, 1)]);
        // Late: the slots between had a daemon.
        recorder.sample(NOON + 1300, requests(9), 40);
        let expected = [(5, 10, 1), (2, 20, 1), (2, 40, 1), (0, 40, 1), (0, 40, 1), (0, 40, 0)];
        assert_eq!(shown(recorder.history()), expected);
    }

    #[test]
    fn slots_become_twice_as_long_and_no_sum_is_lost() {
        for slots in [1, 239, 240, 241, 500, 10_000] {
            for from_ms in [NOON, NOON + 250, NOON + 777] {
                let history = steady(from_ms, slots);
                assert_eq!(sum(&history), slots);
                assert!(history.slots.len() <= SLOTS_MAX, "{slots}");
                assert!(slots < 500 || history.slots.len() > SLOTS_MAX / 4, "{slots}");
                assert!(history.from_unix_ms <= from_ms && history.from_unix_ms.is_multiple_of(history.slot_ms));
                let travelled: History = serde_json::from_value(json!(history)).unwrap();
                assert_eq!(travelled, history);
            }
        }
    }

    #[test]
    fn a_daemon_that_was_dead_leaves_a_gap() {
        let mut first = Recorder::new(None, NOON);
        first.sample(NOON + 250, requests(100), 70);
        let mut second = Recorder::new(Some(first.history), NOON + 1000);
        second.sample(NOON + 1250, requests(3), 20);
        let expected = [(100, 70, 1), (0, 70, 0), (0, 70, 0), (0, 70, 0), (3, 20, 1), (0, 20, 0)];
        assert_eq!(shown(second.history()), expected);
    }

    #[test]
    fn counters_that_fall_began_again() {
        let mut recorder = Recorder::new(None, NOON);
        let landed = |bytes| Work { landed_bytes: bytes, ..Work::default() };
        recorder.sample(NOON + 250, landed(50), 0);
        recorder.sample(NOON + 500, landed(8), 0);
        assert_eq!(recorder.history.slots[1].work.landed_bytes, 8);
    }

    #[test]
    fn nodes_are_added_by_time() {
        let (mut one, mut other) = (Recorder::new(None, NOON), Recorder::new(None, NOON + 250));
        one.sample(NOON + 250, requests(1), 5);
        one.sample(NOON + 499, requests(3), 5);
        other.sample(NOON + 500, requests(10), 1);
        let mut sum = one.history.clone();
        sum.merge(other.history.clone());
        assert_eq!(shown(&sum), [(1, 5, 1), (12, 6, 2), (0, 6, 0)]);
        let mut reverse = other.history;
        reverse.merge(one.history);
        assert_eq!(reverse, sum);
    }

    #[test]
    fn nodes_of_other_lengths_and_times_are_added_within_the_limit() {
        let (long, short, late) = (steady(NOON, 5000), steady(NOON + 9000, 30), steady(NOON + 900_000_000, 240));
        let mut sum = short.clone();
        sum.merge(long.clone());
        assert_eq!((self::sum(&sum), sum.slot_ms), (5030, long.slot_ms));
        sum.merge(late);
        assert_eq!(self::sum(&sum), 5270);
        assert!(sum.slots.len() <= SLOTS_MAX);
    }

    #[test]
    fn a_clock_that_is_set_loses_no_work() {
        let mut recorder = Recorder::new(None, NOON);
        for (now_ms, count) in [(NOON + 250, 1), (NOON - 90_000, 2), (NOON * 3, 3), (u64::MAX, 4), (0, 5)] {
            recorder.sample(now_ms, requests(count), 0);
            assert_eq!(sum(recorder.history()), count);
            assert!(recorder.history().slots.len() <= SLOTS_MAX);
        }
    }

    #[test]
    fn histories_from_outside_keep_the_limits() {
        let slot = [0u64; 8];
        let read = |slot_ms: u64, from: u64, count: usize| {
            serde_json::from_value::<History>(
                json!({"slot_ms": slot_ms, "from_unix_ms": from, "slots": vec![slot; count]}),
            )
        };
        assert!(read(250, NOON, SLOTS_MAX).is_ok() && read(1000, NOON, 0).is_ok());
        for (slot_ms, from, count) in
            [(0, 0, 1), (300, 0, 1), (750, 0, 1), (250, 7, 1), (250, NOON, SLOTS_MAX + 1), (250, u64::MAX - 115, 1)]
        {
            assert!(read(slot_ms, from, count).is_err(), "{slot_ms} {from} {count}");
        }
        let most = json!({"slot_ms": 250, "from_unix_ms": NOON, "slots": [vec![u64::MAX; 8]]});
        let most: History = serde_json::from_value(most).unwrap();
        let mut twice = most.clone();
        twice.merge(most);
        assert_eq!(twice.slots[0].left_bytes, u64::MAX);
    }
}
