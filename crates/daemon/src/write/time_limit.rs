//! Landing before the job's time is over (`--time-limit`).
//!
//! When what is left takes as long as there is time, everything is committed and lands, files that are open with their last
//! commit: as `drain` does it, from then on again and again.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often is looked.
const EVERY: Duration = Duration::from_secs(1);

/// What is believed of a backing file system that nothing was sent to yet.
const RATE_UNKNOWN: u64 = 100_000_000;

/// What the last seconds are for: names, the end of the daemons, a clock that is behind.
const SPARE: Duration = Duration::from_secs(30);

/// How much longer than it did lately it may take.
const CARE: u32 = 2;

/// See the module.
#[derive(Default)]
pub struct Alarm {
    is_over: Mutex<bool>,
    over: Condvar,
}

impl Alarm {
    /// Nobody waits any more.
    pub fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.notify_all();
    }

    /// Looks until `end`, and drains when it is time. `left` tells how many bytes have not landed, how many a second land, and
    /// how much time there is.
    pub fn watch(&self, left: impl Fn() -> (u64, u64, Duration), drain: impl Fn()) {
        let mut has_begun = false;
        loop {
            let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
            if *self.over.wait_timeout(is_over, EVERY).unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
            let (bytes, rate, time) = left();
            if !is_time(bytes, rate, time) {
                continue;
            }
            if !std::mem::replace(&mut has_begun, true) {
                tracing::warn!(bytes, bytes_per_s = rate, ?time, "the time limit is near: everything is landed now");
            }
            drain();
        }
    }
}

/// How long what is left takes.
pub fn takes(bytes: u64, bytes_per_s: u64) -> Duration {
    let rate = if bytes_per_s == 0 { RATE_UNKNOWN } else { bytes_per_s };
    Duration::from_secs_f64(bytes as f64 / rate as f64)
}

/// Whether so many bytes are to be sent now to be there in time.
fn is_time(bytes: u64, bytes_per_s: u64, left: Duration) -> bool {
    takes(bytes, bytes_per_s).saturating_mul(CARE) + SPARE >= left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_when_what_is_left_takes_as_long_as_there_is() {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        assert!(!is_time(0, 0, minutes(1)) && is_time(0, 0, Duration::from_secs(30)));
        // 60 GB at 1 GB/s: one minute, and one to be careful.
        assert!(!is_time(60_000_000_000, 1_000_000_000, minutes(3)));
        assert!(is_time(60_000_000_000, 1_000_000_000, minutes(2)));
        assert!(is_time(1, 0, Duration::ZERO));
    }
}
