//! Last words of a starter that failed: how it ended, and the end of what it wrote to its standard error.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::ExitStatus;

/// The part of a starter's standard error that is shown, lines and bytes.
const TAIL_LINES: usize = 8;
const TAIL_BYTES: u64 = 4096;

/// How a starter ended, with what it said last.
pub(crate) fn ended_message(name: &str, status: Option<ExitStatus>, tail: &str) -> String {
    let how = match status {
        None => "closed its output without saying why".to_owned(),
        Some(status) => match status.code() {
            Some(0) => "ended without saying that the node is ready".to_owned(),
            Some(127) => "failed with exit status 127: the program was not found there".to_owned(),
            Some(code) => format!("failed with exit status {code}"),
            None => format!("ended by {status}"),
        },
    };
    let mut message = format!("{name} {how}");
    append_tail(&mut message, tail);
    message
}

/// Adds a starter's last words to a message.
pub(crate) fn append_tail(message: &mut String, tail: &str) {
    if !tail.is_empty() {
        message.push_str("; its last words:");
        for line in tail.lines() {
            message.push_str("\n    ");
            message.push_str(line);
        }
    }
}

/// The last lines of a file; nothing when there are none.
pub(crate) fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_bounded() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("log");
        let text: String = (0..10_000).map(|n| format!("line {n}\n\n")).collect();
        std::fs::write(&path, text).unwrap();
        let tail = tail(&path);
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.ends_with("line 9999"));
    }
}
