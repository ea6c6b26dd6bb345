//! Locks of this node's programs: asked of the owner, and waited for here.
//!
//! The owner tells nobody of a lock that is given back: a program that waits asks repeatedly. Of those that wait for the same lock only the
//! first asks. A question that was sent is waited for, also when its program is interrupted meanwhile: if the lock is given, the program has
//! it, and nobody else could give it back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_fuse::{Interruption, Lock};
use forebay_types::{Errno, FileId};
use forebay_wire::write::{Caller, LockKind, LockRequest, Operation};
use tokio::sync::Notify;

use crate::write::commits::Commits;
use crate::write::contents::Reader;

/// How long a lock that is waited for is not asked for, at first and in the end.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// How long closes under way are waited for: one that the owner of the tree does not hear of takes longer.
const CLOSES_WAIT: Duration = Duration::from_secs(1);

/// `F_RDLCK`, `F_WRLCK`, `F_UNLCK`.
const READ: u32 = 0;
const WRITE: u32 = 1;
pub const UNLOCKED: u32 = 2;

/// See the module.
pub struct Locking {
    reader: Arc<Reader>,
    commits: Arc<Commits>,
    /// Whether a daemon before this one may have got locks that are not among `held`.
    may_be_more: bool,
    /// No program is waited for any more.
    is_ending: AtomicBool,
    state: Mutex<State>,
    /// A lock of this node was given back.
    moved: Notify,
    /// A close has ended.
    closed: Notify,
}

#[derive(Default)]
struct State {
    /// Possible holders: file, owner, whether by `flock`; and through which open the last lock was set.
    held: BTreeMap<(FileId, u64, bool), u64>,
    /// Locks that were given back, and the owner of the tree does not know it.
    to_release: BTreeSet<(FileId, u64, bool)>,
    /// How many closes of a file are under way, which end locks.
    closing: BTreeMap<FileId, u32>,
    /// How many have ended.
    closed: u64,
    /// Those who wait for the same lock, in the order in which they came.
    queues: BTreeMap<Same, VecDeque<Arc<Notify>>>,
}

/// A lock: who is refused it, is refused it whoever asks.
type Same = (FileId, u64, u64, u32, bool);

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
        self.locking.closed.notify_waiters();
    }
}

/// A program that waits for a lock.
pub struct Waiter<'a> {
    pub interruption: &'a Interruption,
    /// Whether it has waited for it since a daemon before this one.
    pub is_again: bool,
    /// Its thread.
    pub tid: u32,
}

/// The place of a program among those who wait for the same lock, if it waits behind others.
struct Place<'a> {
    locking: &'a Locking,
    same: Same,
    turn: Option<Arc<Notify>>,
}

impl Place<'_> {
    /// Whether it is the one that asks.
    fn is_first(&self) -> bool {
        let state = self.locking.state();
        let first = state.queues.get(&self.same).and_then(VecDeque::front);
        self.turn.as_ref().is_none_or(|turn| first.is_some_and(|first| Arc::ptr_eq(first, turn)))
    }

    /// Until it may be that.
    async fn turn(&self) {
        match &self.turn {
            Some(turn) => turn.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(turn) = &self.turn else { return };
        let mut state = self.locking.state();
        let Some(queue) = state.queues.get_mut(&self.same) else { return };
        queue.retain(|other| !Arc::ptr_eq(other, turn));
        match queue.front() {
            Some(first) => first.notify_one(),
            None => drop(state.queues.remove(&self.same)),
        }
    }
}

impl Locking {
    pub fn new(reader: &Arc<Reader>, commits: &Arc<Commits>, may_be_more: bool) -> Arc<Self> {
        Arc::new(Self {
            reader: Arc::clone(reader),
            commits: Arc::clone(commits),
            may_be_more,
            is_ending: AtomicBool::new(false),
            state: Mutex::default(),
            moved: Notify::new(),
            closed: Notify::new(),
        })
    }

    /// Notes that a lock was given.
    pub fn note(&self, file: FileId, request: &LockRequest) {
        if request.kind.is_some() {
            let lock = (file, request.owner, request.is_flock);
            let mut state = self.state();
            // A lock that was to be given back late would take this one.
            state.to_release.remove(&lock);
            state.held.insert(lock, request.handle);
        }
    }

    /// As long as the outcome is kept, locks of a file may be about to end.
    pub fn closing(self: &Arc<Self>, file: FileId) -> Closing {
        *self.state().closing.entry(file).or_default() += 1;
        Closing { locking: Arc::clone(self), file }
    }

    /// Closes that have ended, if none of this file is under way. To be asked for before a lock is.
    pub fn closed(&self, file: FileId) -> Option<u64> {
        let state = self.state();
        (!state.closing.contains_key(&file)).then_some(state.closed)
    }

    /// Whether a lock that was refused is to be asked for once more, since a close of the file was under way: the kernel does not wait for the
    /// last close of an open, but sends it before a program can ask for what was locked through it. Waits for such closes.
    pub async fn may_be_free(&self, file: FileId, closed_before: Option<u64>) -> bool {
        if self.closed(file).is_some_and(|closed| Some(closed) == closed_before) {
            return false;
        }
        let nodes = &self.reader.nodes;
        let closes = async {
            loop {
                let closed = self.closed.notified();
                if self.closed(file).is_some() {
                    return;
                }
                closed.await;
            }
        };
        tokio::select! {
            biased;
            () = closes => {}
            () = nodes.pause(CLOSES_WAIT) => {}
        }
        true
    }

    /// A lock of others that is in the way of `lock`; `UNLOCKED` where there is none.
    ///
    /// # Errors
    /// The error that the program gets.
    pub async fn in_the_way(&self, file: FileId, lock: &Lock) -> Result<Lock, Errno> {
        let (asked, tree) = (request_of(lock)?, &self.reader.tree);
        let before = self.closed(file);
        let mut held = tree.lock_in_the_way(file, asked).await?;
        if held.is_some() && self.may_be_free(file, before).await {
            held = tree.lock_in_the_way(file, asked).await?;
        }
        Ok(held.map_or(Lock { kind: UNLOCKED, ..*lock }, |held| {
            // A process of another node has no number here.
            let pid = if held.node == self.reader.local.rank { held.pid } else { 0 };
            Lock { start: held.start, end: held.end, kind: number_of(Some(held.kind)), pid, ..*lock }
        }))
    }

    /// Waits until a lock is given.
    ///
    /// # Errors
    /// EINTR where the program is interrupted first; else the tree owner's error.
    pub async fn wait(&self, file: FileId, request: LockRequest, waiter: &Waiter<'_>) -> Result<(), Errno> {
        let (place, nodes) = (self.place(file, &request), &self.reader.nodes);
        // A daemon before this one may have been given it.
        let mut is_refused = !waiter.is_again;
        let mut pause = RETRY_DELAY.0;
        while !nodes.is_ending() && !self.is_ending.load(Ordering::SeqCst) {
            let moved = self.moved.notified();
            let is_first = place.is_first();
            if is_first || !is_refused {
                match self.ask(file, request).await {
                    Err(Errno::EAGAIN) => is_refused = true,
                    outcome => return outcome,
                }
            }
            if waiter.is_interrupted(&self.reader) {
                return Err(Errno::EINTR);
            }
            let asks = async { if is_first { moved.await } else { place.turn().await } };
            let look = if is_first {
                pause
            } else if waiter.is_again {
                RETRY_DELAY.1
            } else {
                Duration::MAX
            };
            tokio::select! {
                biased;
                () = waiter.interruption.come() => {}
                () = asks => pause = RETRY_DELAY.0,
                () = nodes.pause(look) => pause = (pause * 2).min(RETRY_DELAY.1),
            }
        }
        Err(Errno::EIO)
    }

    /// One who has a lock of the file already may be given what others are refused.
    fn place(&self, file: FileId, request: &LockRequest) -> Place<'_> {
        let same = (file, request.start, request.end, number_of(request.kind), request.is_flock);
        // After a daemon before this one, any program may have one.
        let turn = (!self.may_be_more && !self.is_held(file, request)).then(Arc::<Notify>::default);
        if let Some(turn) = &turn {
            self.state().queues.entry(same).or_default().push_back(Arc::clone(turn));
        }
        Place { locking: self, same, turn }
    }

    async fn ask(&self, file: FileId, request: LockRequest) -> Result<(), Errno> {
        let outcome = self.commits.carry_out_own(&Caller::default(), Operation::Lock { file, request }).await;
        if outcome == Err(Errno::EAGAIN) { self.convert(file, request).await } else { outcome }?;
        self.note(file, &request);
        self.wake();
        Ok(())
    }

    /// All that an owner has of a file is given back: a descriptor was closed.
    ///
    /// # Errors
    /// The tree owner's error.
    pub async fn release(&self, file: FileId, owner: u64, is_flock: bool) -> Result<(), Errno> {
        let held = self.state().held.remove(&(file, owner, is_flock));
        if held.is_none() && !self.may_be_more {
            return Ok(());
        }
        let request = LockRequest { owner, start: 0, end: u64::MAX, kind: None, pid: 0, is_flock, handle: 0 };
        match self.commits.carry_out_own(&Caller::default(), Operation::Lock { file, request }).await {
            Err(Errno::ESTALE) => Ok(()),
            Err(Errno::EIO) => {
                let mut state = self.state();
                state.held.insert((file, owner, is_flock), held.unwrap_or_default());
                state.to_release.insert((file, owner, is_flock));
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
    pub async fn release_owed(&self, file: FileId) -> Result<(), Errno> {
        let to_release: BTreeSet<(FileId, u64, bool)> = {
            let mut state = self.state();
            let (of_file, others) = std::mem::take(&mut state.to_release).into_iter().partition(|(of, ..)| *of == file);
            state.to_release = others;
            of_file
        };
        let mut outcome = Ok(());
        for (file, owner, is_flock) in to_release {
            outcome = outcome.and(self.release(file, owner, is_flock).await);
        }
        outcome
    }

    /// The owner of the tree knows that an open is closed, and has ended what was locked through it.
    pub fn forget_open(&self, file: FileId, handle: u64) {
        let mut state = self.state();
        let of_file = state.held.range((file, 0, false)..=(file, u64::MAX, true));
        let ended: Vec<_> = of_file.filter(|(_, of)| **of == handle).map(|(lock, _)| *lock).collect();
        for lock in ended {
            state.held.remove(&lock);
            state.to_release.remove(&lock);
        }
        drop(state);
        self.wake();
    }

    /// A lock that others are in the way of, for a process that has another one by `flock`: it loses that, so that of two which wait for each
    /// other both go on (`flock(2)`).
    ///
    /// # Errors
    /// EAGAIN where they still are, or it has none; else what the tree's owner says.
    pub async fn convert(&self, file: FileId, request: LockRequest) -> Result<(), Errno> {
        if !self.is_held(file, &request) || !request.is_flock {
            return Err(Errno::EAGAIN);
        }
        self.release(file, request.owner, true).await?;
        self.commits.carry_out_own(&Caller::default(), Operation::Lock { file, request }).await
    }

    /// Whether who asks may have a lock of the file already.
    fn is_held(&self, file: FileId, request: &LockRequest) -> bool {
        self.state().held.contains_key(&(file, request.owner, request.is_flock))
    }

    /// A lock of this node was given back: those who wait for locks ask immediately.
    pub fn wake(&self) {
        self.moved.notify_waiters();
    }

    /// Ends all waits for locks: the mount is taken away.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        self.moved.notify_waiters();
        self.state().queues.values().flatten().for_each(|turn| turn.notify_one());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Whether the program is interrupted. The kernel tells of that once, and may have told a daemon before this one.
    fn is_interrupted(&self, reader: &Reader) -> bool {
        self.interruption.is_set() || self.is_again && reader.local.has_signal(self.tid)
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
fn number_of(kind: Option<LockKind>) -> u32 {
    match kind {
        Some(LockKind::Shared) => READ,
        Some(LockKind::Exclusive) => WRITE,
        None => UNLOCKED,
    }
}
