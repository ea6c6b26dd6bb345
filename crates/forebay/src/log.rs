//! The log of a daemon or a keeper: lines at the end of a file, or on standard error.
//!
//! The process never depends on it. A line that cannot be written (a full disk) is lost and counted, and the process
//! goes on. The next line that can be written says how many were lost. The subscriber itself would report the failure
//! on standard error, which may be the same full disk, and end the process by a panic.

use std::fs::{File, OpenOptions};
use std::io::{self, Stderr, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::log_repeats::Repeats;

/// Begins the log, once a process.
///
/// # Errors
/// When the filter is none, or the file cannot be opened.
pub fn start(log_file: Option<&Path>, filter: &str) -> anyhow::Result<()> {
    let filter: EnvFilter = filter.parse().with_context(|| format!("'{filter}' is not a log filter"))?;
    let to = match log_file {
        None => To::Stderr(io::stderr()),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            To::File(file.with_context(|| format!("cannot write the log {}", path.display()))?)
        }
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).log_internal_errors(false);
    log.with_writer(Log { to, lost: AtomicU64::new(0), repeats: Mutex::default() }).init();
    Ok(())
}

enum To {
    File(File),
    Stderr(Stderr),
}

struct Log {
    to: To,
    /// Lines that could not be written since the last one that could.
    lost: AtomicU64,
    repeats: Mutex<Repeats>,
}

/// Writes one line, of a warning or an error if it is one.
struct LineWriter<'a> {
    log: &'a Log,
    is_warning: bool,
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter { log: self, is_warning: false }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        LineWriter { log: self, is_warning: *metadata.level() <= Level::WARN }
    }
}

impl Log {
    fn write(&self, line: &[u8]) -> io::Result<()> {
        match &self.to {
            To::File(file) => (&*file).write_all(line),
            To::Stderr(stderr) => stderr.lock().write_all(line),
        }
    }

    /// One call a line, so that lines of several threads do not mix. A line cut by a full disk stays cut.
    fn line(&self, line: &[u8]) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let note =
            if lost > 0 { format!("{lost} lines of the log were lost before this one\n") } else { String::new() };
        if self.write(&[note.as_bytes(), line].concat()).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The lock is given back before anything is written: a disk may hang.
        let lines = self.log.repeats.lock().map(|mut known| known.lines(line, self.is_warning, Instant::now()));
        let lines = lines.unwrap_or_else(|_| line.to_owned());
        if !lines.is_empty() {
            self.log.line(&lines);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_costs_lines_and_says_so_later() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut log = Log { to: To::File(full), lost: AtomicU64::new(0), repeats: Mutex::default() };
        for _ in 0..3 {
            log.make_writer().write_all(b"a line\n").unwrap();
        }
        let temporary = tempfile::NamedTempFile::new().unwrap();
        log.to = To::File(temporary.reopen().unwrap());
        log.make_writer().write_all(b"first\n").unwrap();
        log.make_writer().write_all(b"second\n").unwrap();
        let text = std::fs::read_to_string(temporary.path()).unwrap();
        assert_eq!(text, "3 lines of the log were lost before this one\nfirst\nsecond\n");
    }
}
