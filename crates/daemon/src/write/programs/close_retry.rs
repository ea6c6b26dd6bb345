//! Closes of files that the leader could not be told of.
//!
//! A program's close is over before the daemon hears of it, so nobody asks again. If the leader never has it, the file stays open there: it
//! is not published. So the leader, or the next one, is told it again, under the same number, until it has it. The kernel is not answered
//! until then, as long as these are few: what is not answered it sends again to the node's next daemon.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_fuse::{Operation as Op, Reply, Request};
use forebay_types::{Errno, FileId};
use forebay_wire::write::{Change, Operation};

use super::locks::{Closing, Locking};
use super::requests::{Number, answer, caller};
use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::files::Files;
use crate::write::kernel_ids::{file_of, may_write};
use crate::write::local::Local;
use crate::write::remote::Nodes;

/// How long the leader is not told again: each time it is asked for long already.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Closes that may be owed: as many as a node's programs may have files open.
const CLOSE_RETRIES_MAX: usize = 1 << 16;

/// Of them, how many the kernel waits for. It has few requests in the background (`max_background`), and sends stores through maps in the
/// same way.
const UNANSWERED_MAX: usize = 2;

/// See the module.
pub struct CloseRetries {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    commits: Arc<Commits>,
    files: Arc<Files>,
    locking: Arc<Locking>,
    /// How many are owed.
    count: AtomicUsize,
    unanswered: Mutex<usize>,
    /// The leader is told of one at a time, in the order in which programs closed them.
    turn: tokio::sync::Mutex<()>,
}

/// A close, with what comes before it.
pub struct Close {
    file: FileId,
    handle: u64,
    flock_owner: Option<u64>,
    change: Change,
    /// As long as it may be told again, the leader remembers it.
    _number: Number,
}

impl CloseRetries {
    pub fn new(reader: &Reader, commits: &Arc<Commits>, locking: &Arc<Locking>) -> Self {
        Self {
            local: Arc::clone(&reader.local),
            nodes: Arc::clone(&reader.nodes),
            commits: Arc::clone(commits),
            files: Arc::clone(&commits.files),
            locking: Arc::clone(locking),
            count: AtomicUsize::new(0),
            unanswered: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// A program has closed a file, as the request with this number says. Waits for nothing.
    pub fn begin(&self, request: &Request<'_>, number: Number, flock_owner: Option<u64>) -> Close {
        let file = file_of(request.node);
        let handle = match request.operation {
            Op::Release { handle, .. } => handle,
            _ => 0,
        };
        let operation = Operation::Close { file, handle };
        let change = number.change(self.local.rank, self.local.now(), caller(request), operation);
        self.files.close(file, may_write(handle as u32));
        Close { file, handle, flock_owner, change, _number: number }
    }

    /// Tells the leader of it, now or when it answers again. Locks that it ends are asked for behind it until the leader was told once.
    pub async fn end(&self, close: Close, closing: Option<Closing>, reply: Reply) {
        // Where others are owed, the leader is known to be away.
        let is_away = self.count.load(Ordering::SeqCst) > 0;
        let outcome = if is_away { Err(Errno::EIO) } else { self.tell(&close).await };
        drop(closing);
        match outcome {
            Err(Errno::EIO) => self.owe(close, reply).await,
            outcome => answer(outcome, reply),
        }
    }

    /// Tells the leader. EIO where it has to be told again.
    async fn tell(&self, close: &Close) -> Result<(), Errno> {
        let committed = match self.files.find(close.file) {
            Some(open) => self.commits.commit(&open).await,
            None => Ok(()),
        };
        close_retries(committed)?;
        let mut released = self.locking.release_owed(close.file).await;
        if let Some(leader) = close.flock_owner {
            released = released.and(self.locking.release(close.file, leader, true).await);
        }
        close_retries(released)?;
        let closed = self.commits.carry_out(&close.change).await;
        close_retries(closed)?;
        self.locking.forget_open(close.file, close.handle);
        self.files.forget_if_over(close.file);
        match closed {
            // It has been told, or there is no such file any more.
            Err(Errno::EALREADY | Errno::ESTALE) => committed.and(released),
            closed => committed.and(released).and(closed),
        }
    }

    async fn owe(&self, close: Close, reply: Reply) {
        if self.count.fetch_add(1, Ordering::SeqCst) >= CLOSE_RETRIES_MAX {
            self.count.fetch_sub(1, Ordering::SeqCst);
            tracing::error!(file = %close.file, "too many closes are owed to the leader: this file stays open");
            return reply.error(Errno::EIO);
        }
        tracing::warn!(file = %close.file, "the leader is told later that this file is closed");
        let reply = self.answer_unless_few(reply);
        let outcome = {
            let _turn = self.turn.lock().await;
            self.tell_until_heard(&close).await
        };
        self.count.fetch_sub(1, Ordering::SeqCst);
        // At the daemon's end the next one is sent what is not answered.
        let Some(outcome) = outcome else { return };
        tracing::info!(file = %close.file, ?outcome, "the leader knows that this file is closed");
        if let Some(reply) = reply {
            *self.unanswered() -= 1;
            answer(outcome, reply);
        }
    }

    /// The reply, if the kernel is to wait for it.
    fn answer_unless_few(&self, reply: Reply) -> Option<Reply> {
        let mut unanswered = self.unanswered();
        if *unanswered < UNANSWERED_MAX {
            *unanswered += 1;
            return Some(reply);
        }
        drop(unanswered);
        reply.ok();
        None
    }

    /// `None` when the daemon ends first.
    async fn tell_until_heard(&self, close: &Close) -> Option<Result<(), Errno>> {
        while !self.nodes.is_ending() {
            let outcome = self.tell(close).await;
            if outcome != Err(Errno::EIO) {
                return Some(outcome);
            }
            self.nodes.pause(RETRY_DELAY).await;
        }
        None
    }

    fn unanswered(&self) -> MutexGuard<'_, usize> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error only if the leader did not answer.
fn close_retries(told: Result<(), Errno>) -> Result<(), Errno> {
    if told == Err(Errno::EIO) { told } else { Ok(()) }
}
