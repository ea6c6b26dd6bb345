//! Programs are served when their node has come to terms with the tree's owner (`joining`); until then they wait, and not for ever. Writes that need
//! nothing of the owner do not, where a daemon before this one has come to terms on the same mount, with the same store.

use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use forebay_types::Errno;

use crate::write::remote::PATIENCE;

/// Whether programs are served, or why not.
#[derive(Default)]
pub struct Joined {
    /// Whether the store came with names of files that have not landed.
    pub has_mirrored: bool,
    /// Whether writes are served before, by this node alone.
    pub serves_own_writes: bool,
    outcome: OnceLock<Result<(), String>>,
    waiting: Mutex<()>,
    known: Condvar,
}

impl Joined {
    /// Of a store that came with names of files that have not landed, or did not, and that the mount's programs have been served from, or not.
    pub fn new(has_mirrored: bool, serves_own_writes: bool) -> Self {
        Self { has_mirrored, serves_own_writes, ..Self::default() }
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
