//! Warnings that are said many times: the log has the first, and later how many more there were.
//!
//! Two are the same if nothing but their time differs. Events of other levels are never held back.

use std::time::{Duration, Instant};

/// How long the same warning is counted and not written.
const WINDOW: Duration = Duration::from_secs(60);

/// Different warnings that are remembered at most; the oldest is forgotten for a new one. A daemon has about twenty.
const WARNINGS_MAX: usize = 64;

/// The warnings of the last while, the oldest first.
#[derive(Default)]
pub struct Repeats {
    known: Vec<Known>,
}

struct Known {
    /// The line without its time.
    text: Vec<u8>,
    since: Instant,
    count: u64,
}

impl Repeats {
    /// The lines to write for a line of this level: itself or nothing, after the counts of warnings whose time is over.
    pub fn lines(&mut self, line: &[u8], is_warning: bool, now: Instant) -> Vec<u8> {
        let (time, text) = line.split_at(line.iter().position(|byte| *byte == b' ').unwrap_or(0));
        let is_over = |known: &mut Known| now.duration_since(known.since) >= WINDOW;
        let mut lines: Vec<u8> = self.known.extract_if(.., is_over).flat_map(|known| known.told(time, now)).collect();
        if is_warning {
            if let Some(known) = self.known.iter_mut().find(|known| known.text == text) {
                known.count += 1;
                return lines;
            }
            if self.known.len() == WARNINGS_MAX {
                lines.extend(self.known.remove(0).told(time, now));
            }
            self.known.push(Known { text: text.to_owned(), since: now, count: 0 });
        }
        lines.extend_from_slice(line);
        lines
    }
}

impl Known {
    /// The line again, with its count and the time that it is written at; nothing where there was no other.
    fn told(self, time: &[u8], now: Instant) -> Vec<u8> {
        if self.count == 0 {
            return vec![];
        }
        let times = if self.count == 1 { "once".to_owned() } else { format!("{} times", self.count) };
        let note = format!(" (repeated {times} in {} s)\n", now.duration_since(self.since).as_secs());
        [time, self.text.trim_ascii_end(), note.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_said_once_and_counted() {
        let (began, mut repeats) = (Instant::now(), Repeats::default());
        let mut said = |seconds: u64, line: &str, is_warning: bool| {
            let lines = repeats.lines(line.as_bytes(), is_warning, began + Duration::from_secs(seconds));
            String::from_utf8(lines).unwrap()
        };
        assert_eq!(said(0, "t0  WARN m: no route\n", true), "t0  WARN m: no route\n");
        (1..=120).for_each(|_| assert_eq!(said(30, "t1  WARN m: no route\n", true), ""));
        assert_eq!(said(31, "t2  WARN m: another\n", true), "t2  WARN m: another\n");
        assert_eq!(said(32, "t3  INFO m: i\n", false), "t3  INFO m: i\n");
        assert_eq!(said(33, "t3  INFO m: i\n", false), "t3  INFO m: i\n", "no warning");
        let counted = "t4  WARN m: no route (repeated 120 times in 60 s)\nt4  INFO m: i\n";
        assert_eq!(said(60, "t4  INFO m: i\n", false), counted);
        assert_eq!(said(61, "t5  WARN m: no route\n", true), "t5  WARN m: no route\n", "as the first");
    }

    #[test]
    fn different_warnings_are_bounded() {
        let (now, mut repeats) = (Instant::now(), Repeats::default());
        (0..2 * WARNINGS_MAX).for_each(|number| drop(repeats.lines(format!("t w{number}\n").as_bytes(), true, now)));
        assert_eq!(repeats.known.len(), WARNINGS_MAX);
        let last = format!("t w{}\n", 2 * WARNINGS_MAX - 1);
        assert!(repeats.lines(last.as_bytes(), true, now).is_empty());
    }
}
