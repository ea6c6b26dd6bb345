//! Locks of this node's programs: asked of the owner, and waited for here.
//!
//! One thread asks repeatedly for those who wait; the readers of the kernel's requests go on meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use forebay_fuse::{Lock, Reply};
use forebay_types::{Errno, FileId};
use forebay_wire::write::{Caller, LockKind, LockRequest, Operation};

use crate::write::commits::Commits;
use crate::write::contents::Reader;

/// How long a lock that is waited for is not asked for, at first and in the end.
const AGAIN_AFTER: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// How long closes under way are waited for: one that the owner of the tree does not hear of takes longer.
const CLOSES_WAIT: Duration = Duration::from_secs(1);

/// `F_RDLCK`, `F_WRLCK`, `F_UNLCK`.
const READ: u32 = 0;
const WRITE: u32 = 1;
pub const UNLOCKED: u32 = 2;

/// See the module.
pub struct Locking {
    commits: Arc<Commits>,
    /// Whether a daemon before this one may have got locks that are not among `held`.
    may_be_more: bool,
    state: Mutex<State>,
    came: Condvar,
    closed: Condvar,
}

#[derive(Default)]
struct State {
    /// Possible holders: file, owner, whether by `flock`; and through which open the last lock was set.
    held: BTreeMap<(FileId, u64, bool), u64>,
    /// Locks that were given back, and the owner of the tree does not know it.
    owed: BTreeSet<(FileId, u64, bool)>,
    /// How many closes of a file are under way, which end locks.
    closing: BTreeMap<FileId, u32>,
    /// How many have ended.
    closed: u64,
    waiting: Vec<Waiting>,
    /// Which of them the owner is asked for at this moment, unless it was interrupted since.
    asking: Option<u64>,
    /// Whether a lock of this node was given back since all were asked for.
    has_moved: bool,
    is_running: bool,
}

struct Waiting {
    unique: u64,
    file: FileId,
    request: LockRequest,
    reply: Reply,
}

/// A close of a file that is under way.
pub struct Closing {
    locking: Arc<Locking>,
    file: FileId,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let mut state = self.locking.state();
        state.closed += 1;
        if let Some(count) = state.closing.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                state.closing.remove(&self.file);
            }
        }
        drop(state);
        self.locking.closed.notify_all();
    }
}

impl Locking {
    pub fn new(commits: &Arc<Commits>, may_be_more: bool) -> Arc<Self> {
        let (came, closed) = (Condvar::new(), Condvar::new());
        Arc::new(Self { commits: Arc::clone(commits), may_be_more, state: Mutex::default(), came, closed })
    }

    /// Notes that a lock was given.
    pub fn note(&self, file: FileId, request: &LockRequest) {
        if request.kind.is_some() {
            let lock = (file, request.owner, request.is_flock);
            let mut state = self.state();
            // A lock that was to be given back late would take this one.
            state.owed.remove(&lock);
            state.held.insert(lock, request.handle);
        }
    }

    /// As long as the outcome is kept, locks of a file may be about to end.
    pub fn closing(self: &Arc<Self>, file: FileId) -> Closing {
        *self.state().closing.entry(file).or_default() += 1;
        Closing { locking: Arc::clone(self), file }
    }

    /// Asks for a lock of a file, and once more where a close of it was under way: the kernel does not wait for the last close of an open,
    /// but sends it before a program can ask for what was locked through it.
    pub fn ask_behind_closes<T>(&self, file: FileId, is_held: impl Fn(&T) -> bool, ask: impl Fn(bool) -> T) -> T {
        let before = {
            let state = self.state();
            (!state.closing.contains_key(&file)).then_some(state.closed)
        };
        let asked = ask(false);
        if !is_held(&asked) {
            return asked;
        }
        let state = self.state();
        if before == Some(state.closed) && !state.closing.contains_key(&file) {
            return asked;
        }
        let is_closing = |state: &mut State| state.closing.contains_key(&file);
        drop(self.closed.wait_timeout_while(state, CLOSES_WAIT, is_closing).unwrap_or_else(PoisonError::into_inner));
        ask(true)
    }

    /// A lock of others that is in the way of `lock`; `UNLOCKED` where there is none.
    ///
    /// # Errors
    /// The error that the program gets.
    pub fn in_the_way(&self, reader: &Reader, file: FileId, lock: &Lock) -> Result<Lock, Errno> {
        let asked = request_of(lock)?;
        let is_held = |held: &Result<Option<_>, Errno>| matches!(held, Ok(Some(_)));
        let ask = |_| reader.tree.lock_in_the_way(file, asked);
        let held = self.ask_behind_closes(file, is_held, ask)?;
        Ok(held.map_or(Lock { kind: UNLOCKED, ..*lock }, |held| {
            // A process of another node has no number here.
            let pid = if held.node == reader.local.rank { held.pid } else { 0 };
            Lock { start: held.start, end: held.end, kind: number_of(held.kind), pid, ..*lock }
        }))
    }

    /// Answers when the lock is given, or when `interrupt` is called for `unique`.
    pub fn wait(self: &Arc<Self>, unique: u64, file: FileId, request: LockRequest, reply: Reply) {
        let mut state = self.state();
        state.waiting.push(Waiting { unique, file, request, reply });
        if !std::mem::replace(&mut state.is_running, true) {
            let locking = Arc::downgrade(self);
            if let Err(error) = std::thread::Builder::new().name("locks".to_owned()).spawn(move || ask_again(&locking))
            {
                state.is_running = false;
                tracing::error!(%error, "nobody asks for locks");
                state.waiting.drain(..).for_each(|waiting| waiting.reply.error(Errno::ENOLCK));
            }
        }
        drop(state);
        self.came.notify_one();
    }

    /// A program does not want to wait any more. Whether it did.
    pub fn interrupt(&self, unique: u64) -> bool {
        let mut state = self.state();
        if state.asking == Some(unique) {
            // The lock may be given at this moment: that decides.
            state.asking = None;
            return true;
        }
        let found = state.waiting.iter().position(|waiting| waiting.unique == unique);
        let waiting = found.map(|at| state.waiting.swap_remove(at));
        drop(state);
        waiting.is_some_and(|waiting| {
            waiting.reply.error(Errno::EINTR);
            true
        })
    }

    /// All that an owner has of a file is given back: a descriptor was closed.
    ///
    /// # Errors
    /// The tree owner's error.
    pub fn release(&self, file: FileId, owner: u64, is_flock: bool) -> Result<(), Errno> {
        let held = self.state().held.remove(&(file, owner, is_flock));
        if held.is_none() && !self.may_be_more {
            return Ok(());
        }
        let request = LockRequest { owner, start: 0, end: u64::MAX, kind: None, pid: 0, is_flock, handle: 0 };
        match self.commits.carry_out_own(&Caller::default(), Operation::Lock { file, request }) {
            Err(Errno::ESTALE) => Ok(()),
            Err(Errno::EIO) => {
                let mut state = self.state();
                state.held.insert((file, owner, is_flock), held.unwrap_or_default());
                state.owed.insert((file, owner, is_flock));
                Err(Errno::EIO)
            }
            outcome => {
                self.wake();
                outcome
            }
        }
    }

    /// The same with what of a file was given back while the tree's owner did not answer.
    ///
    /// # Errors
    /// As `release`.
    pub fn release_owed(&self, file: FileId) -> Result<(), Errno> {
        let owed = {
            let mut state = self.state();
            let (of_file, others) = std::mem::take(&mut state.owed).into_iter().partition(|(of, ..)| *of == file);
            state.owed = others;
            of_file
        };
        let owed: BTreeSet<(FileId, u64, bool)> = owed;
        owed.into_iter().map(|(file, owner, is_flock)| self.release(file, owner, is_flock)).fold(Ok(()), Result::and)
    }

    /// The owner of the tree knows that an open is closed, and has ended what was locked through it.
    pub fn forget_open(&self, file: FileId, handle: u64) {
        let mut state = self.state();
        let of_file = state.held.range((file, 0, false)..=(file, u64::MAX, true));
        let ended: Vec<_> = of_file.filter(|(_, of)| **of == handle).map(|(lock, _)| *lock).collect();
        for lock in ended {
            state.held.remove(&lock);
            state.owed.remove(&lock);
        }
        drop(state);
        self.wake();
    }

    /// A lock that others are in the way of, for a process that has another one by `flock`: it loses that, so that of two which wait for each
    /// other both go on (`flock(2)`).
    ///
    /// # Errors
    /// EAGAIN where they still are, or it has none; else what the tree's owner says.
    pub fn convert(&self, file: FileId, request: LockRequest) -> Result<(), Errno> {
        if !self.is_held(file, &request) || !request.is_flock {
            return Err(Errno::EAGAIN);
        }
        self.release(file, request.owner, true)?;
        self.commits.carry_out_own(&Caller::default(), Operation::Lock { file, request })
    }

    /// Whether who asks may have a lock of the file already.
    fn is_held(&self, file: FileId, request: &LockRequest) -> bool {
        self.state().held.contains_key(&(file, request.owner, request.is_flock))
    }

    /// A lock of this node was given back: whoever waits for it is asked for at once.
    pub fn wake(&self) {
        self.state().has_moved = true;
        self.came.notify_one();
    }

    /// Asks for all that are waited for. Whether any is left, and whether any was given.
    fn ask(&self) -> (bool, bool) {
        let mut has_moved = std::mem::take(&mut self.state().has_moved);
        let asked: Vec<(u64, FileId, LockRequest)> =
            self.state().waiting.iter().map(|waiting| (waiting.unique, waiting.file, waiting.request)).collect();
        // A lock that one is refused is refused to another that asks for the same.
        let mut refused = vec![];
        for (unique, file, request) in asked {
            let same = (file, request.start, request.end, request.kind, request.is_flock);
            if refused.contains(&same) && !self.is_held(file, &request) {
                continue;
            }
            {
                let mut state = self.state();
                if !state.waiting.iter().any(|waiting| waiting.unique == unique) {
                    continue;
                }
                state.asking = Some(unique);
            }
            let outcome = self.commits.carry_out_own(&Caller::default(), Operation::Lock { file, request });
            let outcome = if outcome == Err(Errno::EAGAIN) { self.convert(file, request) } else { outcome };
            let mut state = self.state();
            let is_interrupted = state.asking.take().is_none();
            if outcome == Err(Errno::EAGAIN) && !is_interrupted {
                refused.push(same);
                continue;
            }
            let Some(at) = state.waiting.iter().position(|waiting| waiting.unique == unique) else { continue };
            // Those that came first are asked for first.
            let waiting = state.waiting.remove(at);
            drop(state);
            match outcome {
                Ok(()) => {
                    self.note(file, &request);
                    waiting.reply.ok();
                    has_moved = true;
                }
                Err(Errno::EAGAIN) => waiting.reply.error(Errno::EINTR),
                Err(errno) => waiting.reply.error(errno),
            }
        }
        (!self.state().waiting.is_empty(), has_moved)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes on as long as anybody waits.
fn ask_again(locking: &Weak<Locking>) {
    let mut pause = AGAIN_AFTER.0;
    while let Some(locking) = locking.upgrade() {
        let (is_any_left, has_moved) = locking.ask();
        if is_any_left {
            pause = if has_moved { AGAIN_AFTER.0 } else { (pause * 2).min(AGAIN_AFTER.1) };
        } else {
            let mut state = locking.state();
            if state.waiting.is_empty() {
                state.is_running = false;
                return;
            }
        }
        // Another program may have come, which may not have to wait.
        let state = locking.state();
        if !state.has_moved {
            drop(locking.came.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// The lock that the kernel asks for.
///
/// # Errors
/// EINVAL for a kind that there is not.
pub fn request_of(lock: &Lock) -> Result<LockRequest, Errno> {
    let kind = match lock.kind {
        READ => Some(LockKind::Shared),
        WRITE => Some(LockKind::Exclusive),
        UNLOCKED => None,
        _ => return Err(Errno::EINVAL),
    };
    let Lock { owner, start, end, pid, is_flock, handle, .. } = *lock;
    Ok(LockRequest { owner, start, end, kind, pid, is_flock, handle })
}

/// The number of a kind, as the kernel has it.
pub fn number_of(kind: LockKind) -> u32 {
    match kind {
        LockKind::Shared => READ,
        LockKind::Exclusive => WRITE,
    }
}
