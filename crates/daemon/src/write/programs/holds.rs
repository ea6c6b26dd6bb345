//! Which files of the private mount this node holds: what the tree has of it (`forebay_write::hold`), remembered while that is sure.
//!
//! The owner of the tree ends a hold when the node has closed the file. This daemon knows how often it is open only if it has seen
//! all opens; one that goes on where another died asks the owner each time that it does not know of a hold.
//!
//! A node that was given up as the owner of the tree and is back, finds its holds lapsed. It goes on with one when the kernel sends what
//! programs have written meanwhile (`keep`), unless others have had the file since: then that is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Errno, FileId, Map};
use forebay_wire::write::{Caller, FileState, LockRequest, Operation};
use forebay_write::hold;

use crate::write::commits::Commits;
use crate::write::contents::Reader;

/// How long the last close of a file may take to come to the owner of the tree: kernels tell of it when `close` has returned.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// How often it is tried meanwhile.
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Requests that may wait for that at once: others go on meanwhile.
const WAITING_MAX: usize = 2;

/// See the module.
pub struct Holds {
    reader: Arc<Reader>,
    commits: Arc<Commits>,
    /// Whether a daemon before this one may have opened files.
    has_earlier: bool,
    waiting: AtomicUsize,
    files: Mutex<Map<FileId, Arc<Mutex<Hold>>>>,
}

/// The known state of one file. Held while it is opened or closed, so that these follow each other.
#[derive(Default)]
pub struct Hold {
    /// By which contents the kernel knows it, if this node is sure to hold it.
    contents: Option<u64>,
    /// How often it is open, as far as this daemon has seen it opened.
    opens: u64,
}

impl Hold {
    /// Whether this node is known to hold the file.
    pub fn is_held(&self) -> bool {
        self.contents.is_some()
    }

    /// An open has failed.
    pub fn forget_if_closed(&mut self) {
        if self.opens == 0 {
            self.contents = None;
        }
    }
}

impl Holds {
    pub fn new(reader: &Arc<Reader>, commits: &Arc<Commits>, has_earlier: bool) -> Self {
        Self {
            reader: Arc::clone(reader),
            commits: Arc::clone(commits),
            has_earlier,
            waiting: AtomicUsize::new(0),
            files: Mutex::default(),
        }
    }

    /// Attempts what another node may be in the way of: what that has just closed is free in a moment.
    ///
    /// # Errors
    /// As `attempt`; EBUSY at once where many wait.
    pub fn wait_for<T>(&self, mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
        let (mut outcome, began) = (attempt(), Instant::now());
        if !matches!(outcome, Err(Errno::EBUSY)) {
            return outcome;
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX {
            while matches!(outcome, Err(Errno::EBUSY)) && began.elapsed() < CLOSED_WITHIN {
                std::thread::sleep(AGAIN_AFTER);
                outcome = attempt();
            }
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    /// A file is opened by `open`.
    ///
    /// # Errors
    /// As `open`.
    pub fn open<T>(&self, file: FileId, open: impl FnOnce(&mut Hold) -> Result<T, Errno>) -> Result<T, Errno> {
        self.with(file, |hold| {
            let opened = open(hold);
            hold.opens += u64::from(opened.is_ok());
            opened
        })
    }

    /// Runs `act` while no other thread opens or closes the file.
    pub fn with<T>(&self, file: FileId, act: impl FnOnce(&mut Hold) -> T) -> T {
        let hold = Arc::clone(self.files().entry(file).or_default());
        let outcome = act(&mut lock(&hold));
        drop(hold);
        self.forget_if_unused(file);
        outcome
    }

    /// A file is closed once by `close`.
    ///
    /// # Errors
    /// As `close`.
    pub fn close(&self, file: FileId, close: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        self.with(file, |hold| {
            let closed = close();
            hold.opens = hold.opens.saturating_sub(1);
            if hold.opens == 0 || self.has_earlier {
                hold.contents = None;
            }
            closed
        })
    }

    /// By which contents the kernel knows a file, if this node holds it.
    ///
    /// # Errors
    /// The tree owner's error.
    pub fn of(&self, file: FileId) -> Result<Option<u64>, Errno> {
        let known = self.files().get(&file).map(Arc::clone);
        if let Some(contents) = known.and_then(|hold| lock(&hold).contents) {
            return Ok(Some(contents));
        }
        match self.has_earlier {
            true => self.ask(file)?.map_or_else(|| self.lapsed(file), |held| Ok(Some(held))),
            false => Ok(None),
        }
    }

    /// The same for what programs have written, of which this node holds the file from then on if it has lapsed.
    ///
    /// # Errors
    /// The tree owner's error.
    pub fn keep(&self, file: FileId) -> Result<Option<u64>, Errno> {
        self.with(file, |hold| {
            if hold.contents.is_none() && self.has_earlier {
                hold.contents = self.find_or_resume(file)?;
            }
            Ok(hold.contents)
        })
    }

    fn find_or_resume(&self, file: FileId) -> Result<Option<u64>, Errno> {
        if let Some(held) = self.ask(file)? {
            return Ok(Some(held));
        }
        let Some(lapsed) = self.lapsed(file)? else { return Ok(None) };
        match self.lock(file, hold::request(lapsed)) {
            Ok(()) => Ok(Some(lapsed)),
            // Another node was faster.
            Err(Errno::EAGAIN) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Whether this node is known to hold a file.
    pub fn is_held(&self, file: FileId) -> bool {
        let known = self.files().get(&file).map(Arc::clone);
        known.is_some_and(|hold| lock(&hold).is_held())
    }

    /// Whether somebody else may change a file at any moment.
    ///
    /// # Errors
    /// The tree owner's error.
    pub fn is_elsewhere(&self, file: FileId) -> Result<bool, Errno> {
        let held = self.reader.tree.lock_in_the_way(file, hold::any())?;
        Ok(held.is_some_and(|held| held.node != self.reader.local.rank || !hold::is_hold(&held)))
    }

    /// The same for who opens it.
    ///
    /// # Errors
    /// The tree owner's error.
    pub fn look(&self, file: FileId, hold: &mut Hold) -> Result<Option<u64>, Errno> {
        if hold.contents.is_none() && self.has_earlier {
            hold.contents = self.ask(file)?;
        }
        Ok(hold.contents)
    }

    /// Takes a file that was in this state. By which contents the kernel knows it.
    ///
    /// # Errors
    /// EBUSY where another node has it, ESTALE where it has changed since.
    pub fn take(&self, file: FileId, hold: &mut Hold, state: &FileState) -> Result<u64, Errno> {
        if let Some(open) = self.commits.files.find(file) {
            self.commits.clear(&open)?;
        }
        let lapsed = self.lapsed(file)?;
        let contents = lapsed.unwrap_or_else(|| hold::identity(state));
        let taken = match self.lock(file, hold::request(contents)) {
            Err(Errno::EAGAIN) => self.take_again(file, contents),
            taken => taken,
        };
        taken.map_err(|errno| if errno == Errno::EAGAIN { Errno::EBUSY } else { errno })?;
        if lapsed.is_none() && hold::identity(&self.reader.tree.state(file)?) != contents {
            self.lock(file, hold::end_of(contents))?;
            return Err(Errno::ESTALE);
        }
        hold.contents = Some(contents);
        Ok(contents)
    }

    /// Gives back a file that was taken without being opened, unless programs have it open.
    ///
    /// # Errors
    /// The tree owner's error.
    pub fn give_back(&self, file: FileId, hold: &mut Hold, contents: u64) -> Result<(), Errno> {
        if hold.opens > 0 {
            return Ok(());
        }
        hold.contents = None;
        // It may be open since an earlier daemon: the owner knows.
        self.lock(file, if self.has_earlier { hold::unless_open() } else { hold::end_of(contents) })
    }

    /// This node may have it still without a program that writes it on the private mount: a program reads it on the burst mount, or closing
    /// it has failed.
    fn take_again(&self, file: FileId, contents: u64) -> Result<(), Errno> {
        let earlier = self.ask(file)?.ok_or(Errno::EBUSY)?;
        self.lock(file, hold::end_of(earlier))?;
        self.lock(file, hold::request(contents))
    }

    fn lock(&self, file: FileId, request: LockRequest) -> Result<(), Errno> {
        self.commits.carry_out_own(&Caller::default(), Operation::Lock { file, request })
    }

    fn ask(&self, file: FileId) -> Result<Option<u64>, Errno> {
        let held = self.reader.tree.lock_in_the_way(file, hold::any())?;
        let own = held.filter(|held| held.node == self.reader.local.rank && hold::is_hold(held));
        Ok(own.map(|held| hold::identity_of(&held)))
    }

    /// The same of what has lapsed. That happens to who owned the tree, and does no more.
    fn lapsed(&self, file: FileId) -> Result<Option<u64>, Errno> {
        let local = &self.reader.local;
        if local.owns().epoch == 0 {
            return Ok(None);
        }
        let lapsed = self.reader.tree.lock_in_the_way(file, hold::lapsed_of(local.rank))?;
        Ok(lapsed.and_then(|lapsed| hold::resumable(&lapsed)))
    }

    fn forget_if_unused(&self, file: FileId) {
        let mut files = self.files();
        let is_over = |hold: &Hold| hold.opens == 0 && hold.contents.is_none();
        let is_unused = |hold: &Arc<Mutex<Hold>>| Arc::strong_count(hold) == 1 && is_over(&lock(hold));
        if files.get(&file).is_some_and(is_unused) {
            files.remove(&file);
        }
    }

    fn files(&self) -> MutexGuard<'_, Map<FileId, Arc<Mutex<Hold>>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(hold: &Mutex<Hold>) -> MutexGuard<'_, Hold> {
    hold.lock().unwrap_or_else(PoisonError::into_inner)
}
