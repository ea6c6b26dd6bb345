//! Which files of the private mount this node holds: what the tree has of it (`forebay_write::hold`), remembered while that is sure.
//!
//! The owner of the tree ends a hold when the node has closed the file. This daemon knows how often it is open only if it has seen
//! all opens; one that goes on where another died asks the owner each time that it does not know of a hold.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Errno, FileId, Map};
use forebay_wire::write::{Caller, FileState, LockRequest, Operation};
use forebay_write::hold;

use super::commits::Commits;
use super::contents::Reader;

/// How long the last close of a file may take to come to the owner of the tree: kernels tell of it when `close` has returned.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// How often it is tried meanwhile.
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// See the module.
pub struct Holds {
    reader: Arc<Reader>,
    commits: Arc<Commits>,
    /// Whether a daemon before this one may have opened files.
    has_earlier: bool,
    files: Mutex<Map<FileId, Arc<Mutex<Hold>>>>,
}

/// What is known of one file. Held while it is opened or closed, so that these follow each other.
#[derive(Default)]
pub struct Hold {
    /// By which contents the kernel knows it, if this node is sure to hold it.
    contents: Option<u64>,
    /// How often it is open, as far as this daemon has seen it opened.
    opens: u64,
}

impl Hold {
    /// An open has failed.
    pub fn forget_if_closed(&mut self) {
        if self.opens == 0 {
            self.contents = None;
        }
    }
}

impl Holds {
    pub fn new(reader: &Arc<Reader>, commits: &Arc<Commits>, has_earlier: bool) -> Self {
        Self { reader: Arc::clone(reader), commits: Arc::clone(commits), has_earlier, files: Mutex::default() }
    }

    /// A file is opened by `open`.
    ///
    /// # Errors
    /// As `open`.
    pub fn open<T>(&self, file: FileId, open: impl FnOnce(&mut Hold) -> Result<T, Errno>) -> Result<T, Errno> {
        let hold = Arc::clone(self.files().entry(file).or_default());
        let opened = {
            let mut hold = lock(&hold);
            let opened = open(&mut hold);
            hold.opens += u64::from(opened.is_ok());
            opened
        };
        drop(hold);
        self.forget_if_unused(file);
        opened
    }

    /// A file is closed once by `close`.
    ///
    /// # Errors
    /// As `close`.
    pub fn close(&self, file: FileId, close: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        let hold = Arc::clone(self.files().entry(file).or_default());
        let closed = {
            let mut hold = lock(&hold);
            let closed = close();
            hold.opens = hold.opens.saturating_sub(1);
            if hold.opens == 0 || self.has_earlier {
                hold.contents = None;
            }
            closed
        };
        drop(hold);
        self.forget_if_unused(file);
        closed
    }

    /// By which contents the kernel knows a file, if this node holds it.
    ///
    /// # Errors
    /// What the owner of the tree says.
    pub fn of(&self, file: FileId) -> Result<Option<u64>, Errno> {
        let known = self.files().get(&file).map(Arc::clone);
        if let Some(contents) = known.and_then(|hold| lock(&hold).contents) {
            return Ok(Some(contents));
        }
        if self.has_earlier { self.ask(file) } else { Ok(None) }
    }

    /// Whether this node is known to hold a file.
    pub fn is_held(&self, file: FileId) -> bool {
        let known = self.files().get(&file).map(Arc::clone);
        known.is_some_and(|hold| lock(&hold).contents.is_some())
    }

    /// The same for who opens it.
    ///
    /// # Errors
    /// What the owner of the tree says.
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
        let contents = hold::identity(state);
        self.lock_when_closed(file, hold, contents)?;
        if hold::identity(&self.reader.tree.state(file)?) != contents {
            self.lock(file, LockRequest { kind: None, ..hold::request(contents) })?;
            return Err(Errno::ESTALE);
        }
        hold.contents = Some(contents);
        Ok(contents)
    }

    /// What another node has just closed is free in a moment.
    fn lock_when_closed(&self, file: FileId, hold: &Hold, contents: u64) -> Result<(), Errno> {
        let began = Instant::now();
        loop {
            let taken = match self.lock(file, hold::request(contents)) {
                Err(Errno::EAGAIN) => self.take_again(file, hold, contents),
                taken => taken,
            };
            match taken {
                Err(Errno::EAGAIN | Errno::EBUSY) if began.elapsed() < CLOSED_WITHIN => std::thread::sleep(AGAIN_AFTER),
                Err(Errno::EAGAIN) => return Err(Errno::EBUSY),
                taken => return taken,
            }
        }
    }

    /// This node may have it still, without anything open on the private mount: a program reads it on the burst mount, or closing it has
    /// failed.
    fn take_again(&self, file: FileId, hold: &Hold, contents: u64) -> Result<(), Errno> {
        let earlier = self.ask(file)?.filter(|_| hold.opens == 0).ok_or(Errno::EBUSY)?;
        self.lock(file, LockRequest { kind: None, ..hold::request(earlier) })?;
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

    fn forget_if_unused(&self, file: FileId) {
        let mut files = self.files();
        let is_unused = |hold: &Arc<Mutex<Hold>>| Arc::strong_count(hold) == 1 && lock(hold).opens == 0;
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
