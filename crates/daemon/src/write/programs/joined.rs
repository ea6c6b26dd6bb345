//! Programs are served when their node has come to terms with the tree's owner (`joining`); until then they wait, and not for ever.

use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use forebay_types::Errno;
use tokio::sync::Notify;

use crate::write::remote::PATIENCE;

/// Whether programs are served, or why not.
#[derive(Default)]
pub struct Joined {
    /// Whether the store came with names of files that have not landed.
    pub has_mirrored: bool,
    outcome: OnceLock<Result<(), String>>,
    waiting: Mutex<()>,
    known: Condvar,
    /// The same, for tasks.
    told: Notify,
}

impl Joined {
    /// Of a store that came with names of files that have not landed, or did not.
    pub fn new(has_mirrored: bool) -> Self {
        Self { has_mirrored, ..Self::default() }
    }

    /// The outcome, once it is known.
    pub fn outcome(&self) -> Option<&Result<(), String>> {
        self.outcome.get()
    }

    /// Whether programs are served.
    pub fn is_served(&self) -> bool {
        matches!(self.outcome.get(), Some(Ok(())))
    }

    /// It comes to this.
    pub fn set(&self, outcome: Result<(), String>) {
        let _ = self.outcome.set(outcome);
        drop(self.waiting.lock());
        self.known.notify_all();
        self.told.notify_waiters();
    }

    /// The outcome, once it is known. By a task.
    pub async fn until_known(&self) -> &Result<(), String> {
        loop {
            let told = self.told.notified();
            if let Some(outcome) = self.outcome.get() {
                return outcome;
            }
            told.await;
        }
    }

    /// Until programs are served.
    ///
    /// # Errors
    /// EIO when they never are, or when that is not known for a long time.
    pub fn wait(&self) -> Result<(), Errno> {
        if self.outcome.get().is_none() {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.known.wait_timeout_while(waiting, PATIENCE, |()| self.outcome.get().is_none()));
        }
        match self.outcome.get() {
            Some(Ok(())) => Ok(()),
            _ => Err(Errno::EIO),
        }
    }
}
