//! Programs are served when their node has come to terms with the leader (`joining`); until then they wait, and not for ever. Writes that need
//! nothing of the leader do not, where a daemon before this one has come to terms on the same mount, with the same store.

use std::sync::OnceLock;

use forebay_types::Errno;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::write::remote::{Nodes, TIMEOUT};

/// Whether programs are served, or why not.
#[derive(Default)]
pub struct Joined {
    /// Whether the store came with names of files that have not landed.
    pub has_mirrored: bool,
    /// Whether a loss of power may have taken the log's end.
    pub may_lack_end: bool,
    /// Whether writes are served before, by this node alone.
    pub serves_own_writes: bool,
    outcome: OnceLock<Result<(), String>>,
    known: Notify,
}

impl Joined {
    /// Of a store that came with names of files that have not landed, or did not, and that the mount's programs have been served from, or not.
    pub fn new((has_mirrored, may_lack_end): (bool, bool), serves_own_writes: bool) -> Self {
        Self { has_mirrored, may_lack_end, serves_own_writes, ..Self::default() }
    }

    /// The outcome, once it is known.
    pub fn outcome(&self) -> Option<&Result<(), String>> {
        self.outcome.get()
    }

    /// Whether programs are served.
    pub fn is_served(&self) -> bool {
        matches!(self.outcome.get(), Some(Ok(())))
    }

    /// Whether a write that needs nothing of the leader is made at once.
    pub fn serves_writes_at_once(&self) -> bool {
        self.outcome.get().map_or(self.serves_own_writes, Result::is_ok)
    }

    /// It comes to this.
    pub fn set(&self, outcome: Result<(), String>) {
        let _ = self.outcome.set(outcome);
        self.known.notify_waiters();
    }

    /// The outcome, once it is known.
    pub async fn until_known(&self) -> &Result<(), String> {
        loop {
            let known = self.known.notified();
            if let Some(outcome) = self.outcome.get() {
                return outcome;
            }
            known.await;
        }
    }

    /// Until programs are served.
    ///
    /// # Errors
    /// EIO when they never are, or when that is not known for a long time.
    pub async fn until_served(&self, nodes: &Nodes) -> Result<(), Errno> {
        let began = Instant::now();
        loop {
            let known = self.known.notified();
            match self.outcome.get() {
                Some(Ok(())) => return Ok(()),
                Some(Err(_)) => return Err(Errno::EIO),
                None => {}
            }
            let left = TIMEOUT.saturating_sub(began.elapsed());
            if left.is_zero() || nodes.is_ending() {
                return Err(Errno::EIO);
            }
            tokio::select! {
                biased;
                () = known => {}
                () = nodes.pause(left) => {}
            }
        }
    }
}
