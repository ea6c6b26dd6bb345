//! The log of a history, line by line, if it is wanted; and violations.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::turns;

static IS_TOLD: AtomicBool = AtomicBool::new(false);
static WRONG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Turns the log on.
pub fn tell() {
    IS_TOLD.store(true, Ordering::Relaxed);
}

/// Something happens.
pub fn note(what: impl FnOnce() -> String) {
    if IS_TOLD.load(Ordering::Relaxed) {
        println!("{:>12.6} {}", turns::now_ns() as f64 / 1e9, what());
    }
}

/// Something is not as it must be, as a check has found.
pub fn wrong(check: &str, what: &str) {
    note(|| format!("WRONG {check}: {what}"));
    WRONG.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{check}: {what}"));
}

/// All of that.
pub fn all_wrong() -> Vec<String> {
    WRONG.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
