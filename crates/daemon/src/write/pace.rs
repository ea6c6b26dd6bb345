//! At what rate is written to the backing file system at most (`--drain-rate`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::Errno;

/// How long is slept before it is looked whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// See the module.
pub struct Pace {
    /// `None`: as fast as it goes.
    bytes_per_s: Option<u64>,
    turns: Mutex<Turns>,
    is_over: AtomicBool,
}

/// When the next bytes may go.
#[derive(Default)]
struct Turns {
    began: Option<Instant>,
    next: Duration,
}

impl Pace {
    pub fn new(bytes_per_s: Option<u64>) -> Self {
        Self { bytes_per_s, turns: Mutex::default(), is_over: AtomicBool::new(false) }
    }

    /// Nobody waits any more, and nothing more is sent.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits until so many bytes may go.
    ///
    /// # Errors
    /// EINTR after `end`.
    pub fn wait_for(&self, bytes: u64) -> Result<(), Errno> {
        let until = self.bytes_per_s.map(|rate| {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            let began = *turns.began.get_or_insert_with(Instant::now);
            began + turns.next(began.elapsed(), bytes, rate)
        });
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return Err(Errno::EINTR);
            }
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

impl Turns {
    /// When so many bytes may go which somebody asks for `now`: when those before them have had their time.
    fn next(&mut self, now: Duration, bytes: u64, rate: u64) -> Duration {
        let turn = self.next.max(now);
        self.next = turn + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn each_waits_for_those_before_and_an_idle_time_is_not_saved_up() {
        let mut turns = Turns::default();
        assert_eq!(turns.next(Duration::ZERO, 200, 100), Duration::ZERO);
        assert_eq!(turns.next(Duration::ZERO, 100, 100), S * 2);
        assert_eq!(turns.next(S, 100, 100), S * 3);
        assert_eq!(turns.next(S * 60, 100, 100), S * 60);
        assert_eq!(turns.next(S * 60, 100, 100), S * 61);
    }

    #[test]
    fn who_waits_is_let_go_at_the_end() {
        let pace = Pace::new(Some(1));
        assert_eq!(pace.wait_for(1 << 40), Ok(()));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pace.wait_for(1));
            pace.end();
            assert_eq!(waiting.join().unwrap(), Err(Errno::EINTR));
        });
    }
}
