//! The slowest requests of late, each path or file once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many are kept.
pub const SLOWEST_MAX: usize = 10;

/// Faster ones are not slow, so a node at ease takes no lock here.
pub const SLOW_MIN: Duration = Duration::from_millis(1);

/// The slowest of the last one to two of these are told: those of a start-up are of no interest an hour later.
pub const WINDOW: Duration = Duration::from_secs(600);

/// The file or directory that a request is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// By the kernel's number.
    Node(u64),
    /// By its path.
    Path(String),
}

/// A slow request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowRequest {
    /// The kind of it.
    pub kind: &'static str,
    /// Its file or directory.
    pub subject: Subject,
    /// How long it took.
    pub took: Duration,
    /// When it was over.
    pub ended: Instant,
}

/// See the module.
pub struct Slowest {
    began: Instant,
    /// How long a request must have taken to be among the slowest of this window, ns.
    floor_ns: AtomicU64,
    /// When the window ends, ns since `began`.
    ends_ns: AtomicU64,
    windows: Mutex<Windows>,
}

#[derive(Default)]
struct Windows {
    now: Vec<SlowRequest>,
    before: Vec<SlowRequest>,
}

impl Slowest {
    pub fn new() -> Self {
        Self {
            began: Instant::now(),
            floor_ns: AtomicU64::new(in_ns(SLOW_MIN)),
            ends_ns: AtomicU64::new(in_ns(WINDOW)),
            windows: Mutex::default(),
        }
    }

    /// A request has ended. `subject` is asked only for one that is among the slowest.
    pub fn note(&self, kind: &'static str, (took, ended): (Duration, Instant), subject: impl FnOnce() -> Subject) {
        let is_over = in_ns(ended - self.began) >= self.ends_ns.load(Ordering::Relaxed);
        if is_over && took >= SLOW_MIN || in_ns(took) > self.floor_ns.load(Ordering::Relaxed) {
            let slow = SlowRequest { kind, subject: subject(), took, ended };
            let mut windows = self.at(ended);
            insert(&mut windows.now, slow);
            if windows.now.len() == SLOWEST_MAX {
                self.floor_ns.store(in_ns(windows.now[SLOWEST_MAX - 1].took), Ordering::Relaxed);
            }
        }
    }

    /// The slowest first.
    pub fn read(&self) -> Vec<SlowRequest> {
        let windows = self.at(Instant::now());
        let mut slowest = windows.before.clone();
        windows.now.iter().for_each(|slow| insert(&mut slowest, slow.clone()));
        slowest
    }

    /// The windows, as they are then.
    fn at(&self, now: Instant) -> MutexGuard<'_, Windows> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let (now_ns, ends_ns) = (in_ns(now - self.began), self.ends_ns.load(Ordering::Relaxed));
        if now_ns >= ends_ns {
            // None of this window is of late where no request was slow for a whole one.
            let ended = std::mem::take(&mut windows.now);
            windows.before = if now_ns < ends_ns + in_ns(WINDOW) { ended } else { Vec::new() };
            self.ends_ns.store(now_ns + in_ns(WINDOW), Ordering::Relaxed);
            self.floor_ns.store(in_ns(SLOW_MIN), Ordering::Relaxed);
        }
        windows
    }
}

/// Sorts a request in, unless its subject has a slower one.
fn insert(slowest: &mut Vec<SlowRequest>, slow: SlowRequest) {
    if let Some(known) = slowest.iter().position(|known| known.subject == slow.subject) {
        if slowest[known].took >= slow.took {
            return;
        }
        slowest.remove(known);
    }
    let place = slowest.partition_point(|known| known.took >= slow.took);
    slowest.insert(place, slow);
    slowest.truncate(SLOWEST_MAX);
}

fn in_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(slowest: &Slowest, node: u64, ms: u64, at: Duration) {
        slowest.note("read", (Duration::from_millis(ms), slowest.began + at), || Subject::Node(node));
    }

    fn nodes(slowest: &[SlowRequest]) -> Vec<u64> {
        let node = |slow: &SlowRequest| if let Subject::Node(node) = slow.subject { node } else { 0 };
        slowest.iter().map(node).collect()
    }

    #[test]
    fn each_file_is_once_among_the_slowest_ten() {
        let slowest = Slowest::new();
        for round in 0..3 {
            (1..100).for_each(|node| note(&slowest, node, node + round, Duration::ZERO));
        }
        assert_eq!(nodes(&slowest.read()), (90..100).rev().collect::<Vec<_>>());
        assert_eq!(slowest.read()[0].took, Duration::from_millis(101));
    }

    #[test]
    fn those_of_an_earlier_window_make_room() {
        let slowest = Slowest::new();
        (1..50).for_each(|node| note(&slowest, node, 1000 + node, Duration::ZERO));
        note(&slowest, 100, 2, WINDOW);
        let windows = |slowest: &Slowest| {
            let windows = slowest.windows.lock().unwrap();
            (nodes(&windows.now), windows.before.len())
        };
        assert_eq!(windows(&slowest), (vec![100], SLOWEST_MAX));
        note(&slowest, 101, 2, 2 * WINDOW);
        assert_eq!(windows(&slowest), (vec![101], 1));
        note(&slowest, 102, 2, 5 * WINDOW);
        assert_eq!(windows(&slowest), (vec![102], 0));
    }

    #[test]
    fn fast_requests_are_not_asked_for_their_subject() {
        let slowest = Slowest::new();
        slowest.note("read", (SLOW_MIN / 2, slowest.began), || unreachable!());
    }
}
