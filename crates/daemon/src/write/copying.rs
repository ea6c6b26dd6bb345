//! A node's records on their way to its partner, as the node sees it (`forebay_write::Uncopied`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Errno, LogPosition, Time};
use forebay_wire::write_message::ToCopy;
use forebay_write::Uncopied;
use tokio::sync::Notify;

use super::remote::Nodes;
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
    copied: Notify,
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
            copied: Notify::new(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Whether what is written is copied, whatever it is written to; `None` where the owner knows which files are below the right directory.
    pub fn copies_all(&self) -> Option<bool> {
        match self.rule {
            Copied::Below(_) => None,
            Copied::All => Some(true),
            Copied::Nothing => Some(false),
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
        self.copied.notify_waiters();
        if uncopied.last().is_none() {
            uncopied = waited(&self.written, uncopied, ASKING_WAIT);
            if uncopied.last().is_some() {
                uncopied = waited(&self.wanted, uncopied, LINGERS);
            }
        }
        uncopied.hand()
    }

    /// Until the partner has all that was written until now, or does not ask any more.
    ///
    /// # Errors
    /// ENOSPC when it has no room for it for a long time.
    pub async fn until_copied(&self, nodes: &Nodes) -> Result<(), Errno> {
        let Some(last) = self.uncopied().last() else { return Ok(()) };
        let (mut left, mut since) = (self.uncopied().bytes(), Instant::now());
        loop {
            let copied = self.copied.notified();
            let (is_copied, is_followed, bytes) = {
                let uncopied = self.uncopied();
                (uncopied.is_copied(last), uncopied.is_followed(self.now()), uncopied.bytes())
            };
            if is_copied || self.is_ending.load(Ordering::Relaxed) || nodes.is_ending() {
                return Ok(());
            }
            if !is_followed {
                tracing::warn!(bytes, "the partner does not answer: what programs write is on this node alone");
                return Ok(());
            }
            if bytes < left {
                since = Instant::now();
            }
            left = bytes;
            if since.elapsed() >= self.patience {
                return Err(Errno::ENOSPC);
            }
            self.wanted.notify_all();
            tokio::select! {
                biased;
                () = copied => {}
                () = nodes.pause(LOOK) => {}
            }
        }
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
        self.copied.notify_waiters();
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
