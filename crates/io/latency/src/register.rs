//! Where requests of one sort are recorded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::histogram::Histogram;
use crate::latency::Latency;
use crate::slowest::{SlowRequest, Slowest, Subject};

/// Kinds of one sort that are told apart; the last place takes the rest. The kernel has 49, peers 43.
const KINDS_MAX: usize = 64;

/// The kind of those beyond.
const OTHER: &str = "other";

/// Parts of the table of requests in flight, each with its own lock: several times as many as threads that record.
const PARTS: usize = 64;

/// See the crate. Its memory: 4 KiB for each kind that has come, and what is in flight.
pub struct Register {
    /// Names beside each other, since they are searched.
    kinds: [OnceLock<(&'static str, Box<Histogram>)>; KINDS_MAX],
    in_flight: [Part; PARTS],
    /// Requests that began without a number of their own.
    next: AtomicU64,
    slowest: Slowest,
    /// A kind that waits for other programs, so that the time it takes tells nothing of this node.
    patient: &'static str,
}

/// On a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Part(Mutex<Vec<(u64, Started)>>);

impl Part {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Started)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    begun: Instant,
    kind: u8,
    node: u64,
}

/// The request that has been in flight for the longest time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Oldest {
    /// The kind of it.
    pub kind: &'static str,
    /// The kernel's number of its file; 0 for a request that is not the kernel's.
    pub node: u64,
    /// For how long.
    pub age: Duration,
}

impl Default for Register {
    fn default() -> Self {
        Self::new("")
    }
}

impl Register {
    /// Where requests of one kind wait for other programs: they are neither old nor slow.
    #[must_use]
    pub fn new(patient: &'static str) -> Self {
        Self {
            kinds: std::array::from_fn(|_| OnceLock::new()),
            in_flight: std::array::from_fn(|_| Part::default()),
            next: AtomicU64::new(0),
            slowest: Slowest::new(),
            patient,
        }
    }

    /// A request of the kernel begins, about a file by its number. `end` takes it with the same number of the request.
    pub fn begin(&self, name: &'static str, number: u64, node: u64) -> Started {
        let started = Started { begun: Instant::now(), kind: self.kind(name), node };
        self.part(number).push((number, started));
        started
    }

    /// It was answered.
    pub fn end(&self, number: u64, started: Started) {
        self.take(number);
        self.record(started, || Subject::Node(started.node));
    }

    /// Another request begins. It is in flight as long as the guard is there, and is recorded when that is told that it is done.
    pub fn guard(&self, name: &'static str) -> Guard<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Guard { register: self, number, started: self.begin(name, number, 0) }
    }

    /// One that took so long, and that nobody looks for while it is in flight.
    pub fn note(&self, name: &'static str, took: Duration) {
        if let Some((_, histogram)) = self.kinds[usize::from(self.kind(name))].get() {
            histogram.record(took);
        }
    }

    /// The times of each kind that has come.
    #[must_use]
    pub fn latencies(&self) -> BTreeMap<String, Latency> {
        let kinds = self.kinds.iter().filter_map(OnceLock::get);
        let read = kinds.map(|(name, histogram)| ((*name).to_owned(), Latency::of(histogram)));
        read.filter(|(_, latency)| latency.count > 0).collect()
    }

    /// How many are in flight, and which of them for the longest time.
    #[must_use]
    pub fn in_flight(&self) -> (usize, Option<Oldest>) {
        let (mut count, mut oldest) = (0, None::<Started>);
        for part in &self.in_flight {
            let part = part.lock();
            count += part.len();
            let candidates = part.iter().map(|(_, started)| *started).filter(|started| !self.is_patient(*started));
            oldest = candidates.chain(oldest).min_by_key(|started| started.begun);
        }
        let oldest =
            oldest.map(|started| Oldest { kind: self.name(started), node: started.node, age: started.begun.elapsed() });
        (count, oldest)
    }

    /// The slowest of late, each file once, the slowest first.
    #[must_use]
    pub fn slowest(&self) -> Vec<SlowRequest> {
        self.slowest.read()
    }

    fn record(&self, started: Started, subject: impl FnOnce() -> Subject) {
        let ended = Instant::now();
        let took = ended - started.begun;
        let Some((name, histogram)) = self.kinds[usize::from(started.kind)].get() else { return };
        histogram.record(took);
        if !self.is_patient(started) {
            self.slowest.note(name, (took, ended), subject);
        }
    }

    fn take(&self, number: u64) {
        let mut part = self.part(number);
        if let Some(index) = part.iter().position(|(known, _)| *known == number) {
            part.swap_remove(index);
        }
    }

    fn part(&self, number: u64) -> MutexGuard<'_, Vec<(u64, Started)>> {
        // The kernel's numbers are even.
        self.in_flight[(number ^ number >> 1) as usize % PARTS].lock()
    }

    /// The place of a kind. Names are of the program, so that mostly the first comparison by address holds.
    fn kind(&self, name: &'static str) -> u8 {
        let new = |name| (name, Box::default());
        let is_its = |place: &OnceLock<(&'static str, Box<Histogram>)>| {
            let (known, _) = place.get_or_init(|| new(name));
            std::ptr::eq(*known, name) || *known == name
        };
        let found = self.kinds[..KINDS_MAX - 1].iter().position(is_its);
        let place = found.unwrap_or_else(|| {
            self.kinds[KINDS_MAX - 1].get_or_init(|| new(OTHER));
            KINDS_MAX - 1
        });
        place as u8
    }

    fn name(&self, started: Started) -> &'static str {
        self.kinds[usize::from(started.kind)].get().map_or(OTHER, |(name, _)| name)
    }

    fn is_patient(&self, started: Started) -> bool {
        !self.patient.is_empty() && self.name(started) == self.patient
    }
}

/// A request in flight.
pub struct Guard<'a> {
    register: &'a Register,
    number: u64,
    started: Started,
}

impl Guard<'_> {
    /// It has its answer.
    pub fn done(self) {
        self.register.record(self.started, || Subject::Node(0));
    }

    /// The same, for a request about a path, which is asked for only where it was slow.
    pub fn done_at(self, path: impl FnOnce() -> String) {
        self.register.record(self.started, || Subject::Path(path()));
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.register.take(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_requests_in_flight_are_told_apart() {
        let register = Register::new("setlkw");
        let locks = register.begin("setlkw", 2, 7);
        let read = register.begin("read", 4, 8);
        let _write = register.begin("write", 6, 9);
        let (count, oldest) = register.in_flight();
        assert_eq!(count, 3);
        let oldest = oldest.unwrap();
        assert_eq!((oldest.kind, oldest.node), ("read", 8), "a lock may wait as long as it likes");
        register.end(4, read);
        register.end(2, locks);
        let (count, oldest) = register.in_flight();
        assert_eq!((count, oldest.unwrap().kind), (1, "write"));
        let latencies = register.latencies();
        assert_eq!(latencies.keys().collect::<Vec<_>>(), ["read", "setlkw"]);
    }

    #[test]
    fn a_guard_that_is_dropped_counts_as_nothing() {
        let register = Register::default();
        drop(register.guard("chunk"));
        assert!(register.latencies().is_empty());
        register.guard("chunk").done();
        assert_eq!(register.latencies()["chunk"].count, 1);
        assert_eq!(register.in_flight().0, 0);
    }

    #[test]
    fn more_kinds_than_places_are_counted_as_other() {
        let register = Register::default();
        for index in 0..100 {
            let name: &'static str = Box::leak(format!("kind-{index}").into_boxed_str());
            register.note(name, Duration::from_micros(5));
        }
        let latencies = register.latencies();
        assert_eq!(latencies.len(), KINDS_MAX);
        assert_eq!(latencies[OTHER].count, 100 - (KINDS_MAX as u64 - 1));
    }

    #[test]
    fn slow_requests_have_their_paths() {
        let register = Register::default();
        let guard = register.guard("listing");
        std::thread::sleep(2 * crate::SLOW_MIN);
        guard.done_at(|| "/a".to_owned());
        let slowest = register.slowest();
        assert_eq!((slowest[0].kind, &slowest[0].subject), ("listing", &Subject::Path("/a".to_owned())));
    }

    #[test]
    fn threads_lose_nothing() {
        let register = Register::default();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let register = &register;
                scope.spawn(move || {
                    for index in 0..1000 {
                        let number = index * 4 + thread;
                        let started = register.begin("read", number, 1);
                        register.end(number, started);
                    }
                });
            }
        });
        assert_eq!(register.latencies()["read"].count, 4000);
        assert_eq!(register.in_flight(), (0, None));
    }
}
