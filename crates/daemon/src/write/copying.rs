//! A node's records on their way to its partner, as the node sees it (`forebay_write::Uncopied`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Errno, LogPosition, Time};
use forebay_wire::write_message::ToCopy;
use forebay_write::Uncopied;

use crate::options::Copied;

/// How long the partner's question waits for something to be written.
const ASKING_WAIT: Duration = Duration::from_secs(1);

/// How long what was written waits for more, while nobody waits for it.
const LINGERS: Duration = Duration::from_millis(20);

/// How often is looked whether the partner still asks, or all is over.
const LOOK: Duration = Duration::from_millis(250);

/// See the module.
pub struct Copying {
    began: Instant,
    /// The rule for what the partner copies.
    pub rule: Copied,
    /// How long nothing may be copied before who waits for it is told that there is no room.
    patience: Duration,
    uncopied: Mutex<Uncopied>,
    written: Condvar,
    wanted: Condvar,
    copied: Condvar,
    is_ending: AtomicBool,
}

impl Copying {
    pub fn new(uncopied: Uncopied, rule: Copied, patience: Duration) -> Self {
        Self {
            began: Instant::now(),
            rule,
            patience,
            uncopied: Mutex::new(uncopied),
            written: Condvar::new(),
            wanted: Condvar::new(),
            copied: Condvar::new(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Whether what is written to a file is copied; the owner is asked if it is below the right directory. Where it cannot say, it is.
    pub fn copies(&self, ask: impl FnOnce() -> Result<bool, Errno>) -> bool {
        match self.rule {
            Copied::Below(_) => ask().unwrap_or(true),
            Copied::All => true,
            Copied::Nothing => false,
        }
    }

    /// A record was appended.
    pub fn note(&self, position: LogPosition, len: u32) {
        self.uncopied().note(position, len);
        self.written.notify_all();
    }

    /// The partner asks for more, and has copied the batch `done`. May block.
    pub fn hand(&self, done: Option<u64>) -> ToCopy {
        let mut uncopied = self.uncopied();
        uncopied.heard(self.now(), done);
        self.copied.notify_all();
        if uncopied.last().is_none() {
            uncopied = waited(&self.written, uncopied, ASKING_WAIT);
            if uncopied.last().is_some() {
                uncopied = waited(&self.wanted, uncopied, LINGERS);
            }
        }
        uncopied.hand()
    }

    /// Until the partner has all that was written until now, or does not ask any more. May block.
    ///
    /// # Errors
    /// ENOSPC when it has no room for it for a long time.
    pub fn wait(&self) -> Result<(), Errno> {
        let mut uncopied = self.uncopied();
        let Some(last) = uncopied.last() else { return Ok(()) };
        let (mut left, mut since) = (uncopied.bytes(), Instant::now());
        while !uncopied.is_copied(last) && !self.is_ending.load(Ordering::Relaxed) {
            if !uncopied.is_followed(self.now()) {
                tracing::warn!(
                    bytes = uncopied.bytes(),
                    "the partner does not answer: what programs write is on this node alone"
                );
                return Ok(());
            }
            self.wanted.notify_all();
            uncopied = waited(&self.copied, uncopied, LOOK);
            if uncopied.bytes() < left {
                since = Instant::now();
            }
            left = uncopied.bytes();
            if since.elapsed() >= self.patience {
                return Err(Errno::ENOSPC);
            }
        }
        Ok(())
    }

    /// Records that the partner does not have.
    pub fn records(&self) -> Vec<(LogPosition, u32)> {
        self.uncopied().records().collect()
    }

    /// How much that is, bytes; `None` while the partner does not ask.
    pub fn behind_bytes(&self) -> Option<u64> {
        let uncopied = self.uncopied();
        uncopied.is_followed(self.now()).then(|| uncopied.bytes())
    }

    /// Ends all waits.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.copied.notify_all();
        self.written.notify_all();
    }

    fn now(&self) -> Time {
        Time::default().after(self.began.elapsed())
    }

    fn uncopied(&self) -> MutexGuard<'_, Uncopied> {
        self.uncopied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn waited<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
}
