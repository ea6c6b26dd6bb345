//! How far a query is, on a terminal, once it takes long: part, rate, time left.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A user who waits this long wants to know how much longer.
const SHOW_AFTER: Duration = Duration::from_secs(2);

const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Shows progress until it is dropped.
pub struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    done_bytes: AtomicU64,
    has_ended: AtomicBool,
}

impl Progress {
    /// Of so many bytes in all.
    pub fn begin(all_bytes: u64) -> Self {
        let shared = Arc::new(Shared::default());
        let shows = std::io::stderr().is_terminal();
        let thread = shows.then(|| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || show(&shared, all_bytes))
        });
        Self { shared, thread }
    }

    /// Where to count what is done.
    pub fn done_bytes(&self) -> &AtomicU64 {
        &self.shared.done_bytes
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does nothing that could fail.
            let _ = thread.join();
        }
    }
}

fn show(shared: &Shared, all_bytes: u64) {
    let began = Instant::now();
    let mut has_shown = false;
    while !shared.has_ended.load(Ordering::Relaxed) {
        thread::park_timeout(SHOW_EVERY);
        if began.elapsed() >= SHOW_AFTER {
            eprint!("\r{}\x1b[K", line(shared.done_bytes.load(Ordering::Relaxed), all_bytes, began.elapsed()));
            has_shown = true;
        }
    }
    if has_shown {
        eprint!("\r\x1b[K");
    }
}

fn line(done: u64, all: u64, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64();
    let part = 100.0 * done as f64 / all.max(1) as f64;
    let left = all.saturating_sub(done) as f64 / rate.max(1.0);
    format!("{part:.0} % of {:.1} GB, {:.0} MB/s, {left:.0} s left", all as f64 / 1e9, rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_part_rate_and_time_left() {
        let second = Duration::from_secs(1);
        assert_eq!(line(500_000_000, 2_000_000_000, second), "25 % of 2.0 GB, 500 MB/s, 3 s left");
        assert_eq!(line(0, 0, second), "0 % of 0.0 GB, 0 MB/s, 0 s left");
    }
}
