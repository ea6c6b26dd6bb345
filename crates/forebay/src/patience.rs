//! Notices to a person who waits for a command: after a second, the reason. A command that is quick prints none.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::output::tell;

/// How long nobody asks what a command is doing.
const QUIET: Duration = Duration::from_secs(1);

/// Something that may take long; over when it is dropped.
#[must_use]
pub struct Waiting(Option<(Sender<()>, JoinHandle<()>)>);

/// Says on standard error what is waited for, once, if that is not over after a second.
pub fn after_a_second(what: impl FnOnce() -> String + Send + 'static) -> Waiting {
    unless_over_in_a_second(|| tell!("forebay: {}", what()))
}

/// Tells of what is waited for, once, if that is not over after a second.
pub fn unless_over_in_a_second(tell: impl FnOnce() + Send + 'static) -> Waiting {
    let (over, is_over) = channel::<()>();
    let watch = move || {
        if is_over.recv_timeout(QUIET) == Err(RecvTimeoutError::Timeout) {
            tell();
        }
    };
    Waiting(thread::Builder::new().spawn(watch).ok().map(|thread| (over, thread)))
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((over, thread)) = self.0.take() {
            drop(over);
            // Its notice comes before the messages about the end.
            thread.join().ok();
        }
    }
}
