//! Closes of files that the tree's owner could not be told of.
//!
//! A program's close is over before the daemon hears of it, so nobody asks again. If the owner never has it, the file stays open there: it
//! is not published. So the owner, or the next one, is told it again, under the same number, until it has it. The kernel is not answered
//! until then, as long as these are few: what is not answered it sends again to the node's next daemon.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use forebay_fuse::{Operation as Op, Reply, Request};
use forebay_types::{Errno, FileId};
use forebay_wire::write::{Change, Operation};

use super::locks::Locking;
use super::requests::{Number, answer, caller};
use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::files::Files;
use crate::write::kernel_words::{file_of, may_write};
use crate::write::local::Local;
use crate::write::remote::Nodes;

/// How long the owner is not told again: each time it is asked for long already.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Closes that may be owed: as many as a node's programs may have files open.
const OWED_MAX: usize = 1 << 16;

/// Of them, how many the kernel waits for. It has few requests in the background (`max_background`), and sends stores through maps in the
/// same way.
const UNANSWERED_MAX: usize = 2;

/// See the module.
pub struct Owed {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    commits: Arc<Commits>,
    files: Arc<Files>,
    locking: Arc<Locking>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In the order in which programs closed them.
    closes: VecDeque<(Close, Option<Reply>)>,
    unanswered: usize,
    /// Whether a thread tells the owner. One that is being told is not among `closes`.
    is_running: bool,
}

/// A close, with what comes before it.
struct Close {
    file: FileId,
    handle: u64,
    flock_owner: Option<u64>,
    change: Change,
    /// As long as it may be told again, the owner remembers it.
    _number: Number,
}

impl Owed {
    pub fn new(reader: &Reader, commits: &Arc<Commits>, locking: &Arc<Locking>) -> Arc<Self> {
        Arc::new(Self {
            local: Arc::clone(&reader.local),
            nodes: Arc::clone(&reader.nodes),
            commits: Arc::clone(commits),
            files: Arc::clone(&commits.files),
            locking: Arc::clone(locking),
            state: Mutex::default(),
        })
    }

    /// A program has closed a file, as the request with this number says.
    pub fn close(self: &Arc<Self>, (request, number): (&Request<'_>, Number), flock_owner: Option<u64>, reply: Reply) {
        let (file, local) = (file_of(request.node), &self.local);
        let handle = match request.operation {
            Op::Release { handle, .. } => handle,
            _ => 0,
        };
        let operation = Operation::Close { file, handle };
        let change = number.change(local.rank, local.now(), caller(request), operation);
        self.files.close(file, may_write(handle as u32));
        let close = Close { file, handle, flock_owner, change, _number: number };
        // Where others are owed, the owner is known to be away.
        let is_away = self.state().is_running;
        let tell = || if is_away { Err(Errno::EIO) } else { self.tell(&close) };
        let closing = self.locking.closing(file);
        let outcome = tell();
        drop(closing);
        match outcome {
            Err(Errno::EIO) => self.owe(close, reply),
            outcome => answer(outcome, reply),
        }
    }

    /// Tells the owner. EIO where it has to be told again.
    fn tell(&self, close: &Close) -> Result<(), Errno> {
        let open = self.files.find(close.file);
        let committed = open.map_or(Ok(()), |open| self.commits.commit(&open));
        owed(committed)?;
        let released = self.locking.release_owed(close.file);
        let of_file = |owner| self.locking.release(close.file, owner, true);
        let released = released.and(close.flock_owner.map_or(Ok(()), of_file));
        owed(released)?;
        let closed = self.commits.carry_out(&close.change);
        owed(closed)?;
        self.locking.forget_open(close.file, close.handle);
        self.files.forget_if_over(close.file);
        match closed {
            // It has been told, or there is no such file any more.
            Err(Errno::EALREADY | Errno::ESTALE) => committed.and(released),
            closed => committed.and(released).and(closed),
        }
    }

    fn owe(self: &Arc<Self>, close: Close, reply: Reply) {
        let mut state = self.state();
        if state.closes.len() >= OWED_MAX {
            tracing::error!(file = %close.file, "too many closes are owed to the owner of the burst tree: this file stays open");
            return reply.error(Errno::EIO);
        }
        tracing::warn!(file = %close.file, "the owner of the burst tree is told later that this file is closed");
        let reply = if state.unanswered < UNANSWERED_MAX {
            state.unanswered += 1;
            Some(reply)
        } else {
            reply.ok();
            None
        };
        state.closes.push_back((close, reply));
        if !state.is_running {
            let owed = Arc::downgrade(self);
            let spawned = std::thread::Builder::new().name("closes".to_owned()).spawn(move || tell_again(&owed));
            state.is_running = spawned.inspect_err(|error| tracing::error!(%error, "nobody tells of closes")).is_ok();
        }
    }

    /// Tells the owner of the first that is owed. Whether any is left.
    fn tell_first(&self) -> bool {
        let first = {
            let mut state = self.state();
            let first = state.closes.pop_front();
            state.is_running = first.is_some();
            first
        };
        let Some((close, reply)) = first else { return false };
        let outcome = self.tell(&close);
        let mut state = self.state();
        if outcome == Err(Errno::EIO) {
            state.closes.push_front((close, reply));
            drop(state);
            std::thread::sleep(AGAIN_AFTER);
            return !self.nodes.is_ending();
        }
        tracing::info!(file = %close.file, ?outcome, "the owner of the burst tree knows that this file is closed");
        if let Some(reply) = reply {
            state.unanswered -= 1;
            drop(state);
            answer(outcome, reply);
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes on as long as any is owed.
fn tell_again(owed: &Weak<Owed>) {
    while owed.upgrade().is_some_and(|owed| owed.tell_first()) {}
}

/// An error only if the owner did not answer.
fn owed(told: Result<(), Errno>) -> Result<(), Errno> {
    if told == Err(Errno::EIO) { told } else { Ok(()) }
}
