//! Virtual time of the scale model: what is going to happen, and the servers that work is queued at.
//!
//! Times are nanoseconds since the start. A server is a number: when it is free next. Work is given to it in the order
//! of time in which it arrives, so a queue needs no list: whoever comes waits until the server is free.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A point in virtual time, or a span of it: nanoseconds.
pub(super) type Nanos = u64;

/// One second.
pub(super) const SECOND: Nanos = 1_000_000_000;

/// A span in seconds as nanoseconds.
pub(super) fn nanos(seconds: f64) -> Nanos {
    (seconds * SECOND as f64).round() as Nanos
}

/// A time in seconds.
pub(super) fn seconds(time: Nanos) -> f64 {
    time as f64 / SECOND as f64
}

/// Chance: the same number for the same seed and the same thing (splitmix64; Steele, Lea and Flood, OOPSLA 2014).
pub(super) fn scattered(seed: u64, thing: u64) -> u64 {
    let mix = |number: u64| {
        let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    };
    mix(mix(seed) ^ thing)
}

/// Things that are going to happen, in the order of time; of those at one time, in the order in which they were put in.
/// The heap holds numbers only: what happens lies still in its slot.
pub(super) struct Queue<E> {
    now: Nanos,
    heap: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    slots: Vec<Option<E>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<E> Queue<E> {
    pub fn new() -> Self {
        Self { now: 0, heap: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), sequence: 0 }
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// How many things have happened or will.
    pub fn count(&self) -> u64 {
        self.sequence
    }

    /// Lets something happen at a time; never before now.
    pub fn at(&mut self, time: Nanos, event: E) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize] = Some(event);
        self.heap.push(Reverse((time.max(self.now), self.sequence, slot)));
        self.sequence += 1;
    }

    /// The next thing; time has come to it.
    pub fn next(&mut self) -> Option<E> {
        let Reverse((time, _, slot)) = self.heap.pop()?;
        self.now = time;
        self.free.push(slot);
        self.slots[slot as usize].take()
    }
}

/// A server that does one thing after the other.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Fifo {
    free_at: Nanos,
}

impl Fifo {
    /// Does work that arrives now; when it is done.
    pub fn serve(&mut self, now: Nanos, work: Nanos) -> Nanos {
        self.free_at = self.free_at.max(now) + work;
        self.free_at
    }
}

/// A server that does so many things at once, the first come first.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    free_at: BinaryHeap<Reverse<Nanos>>,
}

impl Pool {
    /// A server of so many units, at least one.
    pub fn new(units: usize) -> Self {
        Self { free_at: (0..units.max(1)).map(|_| Reverse(0)).collect() }
    }

    /// Does work that arrives now; when it is done.
    pub fn serve(&mut self, now: Nanos, work: Nanos) -> Nanos {
        let Reverse(free_at) = self.free_at.pop().unwrap_or_default();
        let done = free_at.max(now) + work;
        self.free_at.push(Reverse(done));
        done
    }
}

/// A link: bytes pass one after the other at its rate.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Link {
    queue: Fifo,
    /// Bytes that have passed.
    pub bytes: u64,
}

impl Link {
    /// Bytes that arrive now; when the last has passed.
    pub fn pass(&mut self, now: Nanos, bytes: u64, bytes_per_second: f64) -> Nanos {
        self.bytes += bytes;
        self.queue.serve(now, span(bytes, bytes_per_second))
    }
}

/// How long bytes take at a rate.
pub(super) fn span(bytes: u64, bytes_per_second: f64) -> Nanos {
    nanos(bytes as f64 / bytes_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_the_order_of_time_and_then_of_asking() {
        let mut queue = Queue::new();
        for (time, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b')] {
            queue.at(time, event);
        }
        let order: String = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!((order.as_str(), queue.now()), ("abcd", 5));
        queue.at(2, 'z');
        assert_eq!((queue.next(), queue.now()), (Some('z'), 5), "nothing happens before now");
    }

    #[test]
    fn chance_is_the_seed_s_and_spreads_evenly() {
        assert_eq!(scattered(1, 2), scattered(1, 2));
        for seed in 0..4 {
            let mut counts = [0; 16];
            (0..16_000).for_each(|thing| counts[scattered(seed, thing) as usize % 16] += 1);
            assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
            assert_ne!(scattered(seed, 0), scattered(seed + 1, 0));
        }
    }

    #[test]
    fn work_waits_for_a_free_unit() {
        let mut one = Fifo::default();
        assert_eq!([one.serve(0, 10), one.serve(2, 10), one.serve(50, 10)], [10, 20, 60]);
        let mut two = Pool::new(2);
        assert_eq!([two.serve(0, 10), two.serve(0, 10), two.serve(0, 10), two.serve(40, 1)], [10, 10, 20, 41]);
        let mut link = Link::default();
        assert_eq!(link.pass(0, 1000, 1e6), nanos(0.001));
        assert_eq!(link.pass(0, 1000, 1e6), nanos(0.002));
    }
}
