//! Signals that ask for an end, and signals that a starter had ignored.
//!
//! A script's `make test &` and `nohup` start a program with `SIGINT` and `SIGHUP` ignored, and every child inherits that.
//! The run keeps to it; its tests, which are about signals, do not.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The argument by which env(1) gives its program the default actions back.
pub const DEFAULT: &str = "--default-signal=HUP,INT,QUIT,PIPE,TERM,USR1,USR2";

/// True once a signal has asked for an end. One that is ignored does not.
pub fn flag() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for signal in [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(&status, *signal)) {
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Whether `status`, of `/proc/PID`, has a signal among the ignored ones.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status = "Name:\tx\nSigIgn:\t0000000000000002\nSigCgt:\t0000000000004000\n";
        assert!(is_ignored(status, SIGINT));
        assert!(!is_ignored(status, SIGHUP) && !is_ignored(status, SIGTERM) && !is_ignored("", SIGINT));
    }
}
