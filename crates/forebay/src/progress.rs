//! How far something is that takes long, on standard error: part, rate, time left. On a terminal one line that changes, elsewhere, as in
//! a batch job's output, a line from time to time. A command that is quick prints none.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::health::amounts::{part, rate, size, span};
use crate::output::in_one_line;

/// A user who waits this long wants to know how much longer.
const SHOW_AFTER: Duration = Duration::from_secs(2);

/// How often a terminal's line changes: often enough to be seen to move.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// How often there is a line elsewhere: an hour is 360 lines of a log.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// A line that tells how far something is, until it is dropped.
pub struct ProgressLine {
    is_terminal: bool,
    /// When the next line is due.
    due: Instant,
    has_shown: bool,
}

impl ProgressLine {
    /// Of something that begins now.
    pub fn begin() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), due: Instant::now() + SHOW_AFTER, has_shown: false }
    }

    /// Shows `line` if it is time to.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + if self.is_terminal { SHOW_EVERY } else { LINE_EVERY };
        self.has_shown = true;
        // An obstacle to landing has a path in it.
        let line = in_one_line(&line());
        match self.is_terminal {
            true => eprint!("\r\x1b[Kforebay: {line}"),
            false => eprintln!("forebay: {line}"),
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_terminal && self.has_shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// Bytes that threads count. Shows progress until it is dropped.
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
    /// Of so many bytes in all; None if that is not known.
    pub fn begin(all_bytes: Option<u64>) -> Self {
        let shared = Arc::new(Shared::default());
        let to_show = Arc::clone(&shared);
        // Without a thread there is no display.
        let thread = thread::Builder::new().spawn(move || show(&to_show, all_bytes)).ok();
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

fn show(shared: &Shared, all_bytes: Option<u64>) {
    let (began, mut shown) = (Instant::now(), ProgressLine::begin());
    while !shared.has_ended.load(Ordering::Relaxed) {
        thread::park_timeout(SHOW_EVERY);
        shown.show(|| line(shared.done_bytes.load(Ordering::Relaxed), all_bytes, began.elapsed()));
    }
}

fn line(done: u64, all: Option<u64>, elapsed: Duration) -> String {
    let bytes_per_s = done as f64 / elapsed.as_secs_f64().max(1e-9);
    let Some(all) = all else { return format!("{}, {}", size(done), rate(bytes_per_s as u64)) };
    let left = all.saturating_sub(done) as f64 / bytes_per_s;
    let left = Duration::try_from_secs_f64(left).ok().filter(|_| done > 0);
    let left = left.map_or_else(String::new, |left| format!(", {} left", span(left)));
    format!("{}, {}{left}", part(done, all), rate(bytes_per_s as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_part_rate_and_time_left() {
        let second = Duration::from_secs(1);
        assert_eq!(line(500 << 20, Some(2000 << 20), second), "0.5 of 2.0 GiB, 524 MB/s, 3 s left");
        assert_eq!(line(0, Some(5 << 20), second), "0 of 5.0 MiB, 0 B/s");
        assert_eq!(line(500 << 20, None, second), "500 MiB, 524 MB/s", "of a pipe");
    }

    #[test]
    fn nothing_is_shown_of_what_is_quick_and_little_where_no_one_watches() {
        let mut shown = ProgressLine { is_terminal: false, due: Instant::now() + SHOW_AFTER, has_shown: false };
        shown.show(|| unreachable!("it has just begun"));
        shown.due = Instant::now();
        let mut lines = 0;
        let mut show = || {
            lines += 1;
            "(a line of a test)".to_owned()
        };
        shown.show(&mut show);
        shown.show(&mut show);
        assert_eq!(lines, 1, "the next one is due after {LINE_EVERY:?}");
    }
}
