//! How much of landing goes in a second at most, and the end of all waits for that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_types::Errno;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Whether all is over.
#[derive(Default)]
pub struct End {
    has_come: AtomicBool,
    comes: Notify,
}

impl End {
    pub fn come(&self) {
        self.has_come.store(true, Ordering::SeqCst);
        self.comes.notify_waiters();
    }

    pub fn has_come(&self) -> bool {
        self.has_come.load(Ordering::SeqCst)
    }

    async fn until(&self) {
        let comes = self.comes.notified();
        if !self.has_come() {
            comes.await;
        }
    }
}

/// So much a second at most.
pub struct Pace {
    per_s: Option<u64>,
    turns: Mutex<Turns>,
}

/// When the next ones may go.
#[derive(Default)]
struct Turns {
    began: Option<Instant>,
    next: Duration,
}

impl Pace {
    pub fn new(per_s: Option<u64>) -> Self {
        Self { per_s, turns: Mutex::default() }
    }

    pub fn per_s(&self) -> Option<u64> {
        self.per_s
    }

    pub async fn wait_for(&self, count: u64, end: &End) -> Result<(), Errno> {
        let until = self.per_s.filter(|_| count > 0).map(|rate| {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            let began = *turns.began.get_or_insert_with(Instant::now);
            began + turns.next(began.elapsed(), count, rate)
        });
        if end.has_come() {
            return Err(Errno::EINTR);
        }
        let Some(until) = until.filter(|until| *until > Instant::now()) else { return Ok(()) };
        tokio::select! {
            // First: when all is over there are no timers any more.
            biased;
            () = end.until() => Err(Errno::EINTR),
            () = tokio::time::sleep_until(until) => Ok(()),
        }
    }
}

impl Turns {
    /// When so many may go which somebody asks for `now`: when those before them have had their time.
    fn next(&mut self, now: Duration, count: u64, rate: u64) -> Duration {
        let turn = self.next.max(now);
        self.next = turn + Duration::from_secs_f64(count as f64 / rate.max(1) as f64);
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
}
