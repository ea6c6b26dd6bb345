//! The files that programs of this node have written to, with what nobody else sees yet.
//!
//! A write is in the log when it is answered, and in the file's pending extents; a commit hands these to the leader,
//! who lets everybody see them. Commits of one file are made one after the other; writes go on meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use forebay_fuse::Request;
use forebay_types::{Attributes, Errno, FileId, LogPosition, Map, Timestamp};
use forebay_wire::write::{COMMIT_EXTENTS_MAX, Caller, Change, Operation, Piece, Source, WrittenExtent};
use forebay_write::{Extents, blocks_of};

use super::reopen_flush::ReopenFlush;

/// Pending extents of a file for which its writers wait: those of some commits, so that they rarely do.
const PENDING_EXTENTS_MAX: usize = 4 * COMMIT_EXTENTS_MAX;

/// The bits of a mode that lend rights: set-user-ID, set-group-ID.
const LENT_RIGHTS: u32 = 0o6000;

/// All of them.
#[derive(Default)]
pub struct Files {
    files: Mutex<Map<FileId, Arc<OpenFile>>>,
    /// Shared by who appends to the log and has not noted it yet, or is about to commit it. Not held while other nodes are asked.
    noting: RwLock<()>,
    /// How they are opened so that the kernel sends what it has of them.
    reopen_flush: ReopenFlush,
    /// Processes that do so.
    flushes: AtomicUsize,
}

/// One of them.
pub struct OpenFile {
    pub file: FileId,
    state: Mutex<State>,
    /// Held while a commit is made.
    commit: tokio::sync::Mutex<()>,
    /// Whether the partner copies what is written to it, once somebody wanted to know.
    is_copied: Mutex<Option<bool>>,
}

#[derive(Default)]
struct State {
    /// Descriptions that are open, as far as this daemon has seen them opened.
    opens: u64,
    /// Whether the kernel may gather what is written by one of those that there were since nothing was open.
    may_be_mapped: bool,
    /// Why something could not be written that the kernel had gathered, and whether a process that settles the file may have been told,
    /// instead of a program.
    failed: Option<(Errno, bool)>,
    /// Whether its mode lent rights when it was opened last, or was changed here.
    lends_rights: bool,
    /// Where uncommitted bytes are.
    pending: Extents,
    /// The same, in the order of writing, with what was overwritten since.
    written: VecDeque<WrittenExtent>,
    /// Commits that are sent, or were and are not answered, by this daemon or one before it: of the first of what was written.
    unanswered: VecDeque<Change>,
    /// Extents on their way to the file's end.
    appending: Vec<WrittenExtent>,
    /// The writer of any of it that ends the rights which the file lends.
    ends_lent_rights: Option<Caller>,
    /// When the last of it was written.
    written_at: Option<Timestamp>,
    /// When the first of it was, or the last that was pending with it and is not any more.
    pending_since: Option<Timestamp>,
}

/// A file's pending pieces in a range, at a moment.
#[derive(Default)]
pub struct Pending {
    pieces: Vec<Piece>,
    /// Of the whole file.
    bytes: u64,
    end: u64,
    written_at: Option<Timestamp>,
}

impl Files {
    /// A program has opened `file`, which has this mode. The kernel may gather what it writes or not.
    pub fn open(&self, file: FileId, mode: u32, may_be_mapped: bool) {
        let open = self.entry(file);
        let mut state = open.state();
        if state.opens == 0 && state.written.is_empty() && state.appending.is_empty() {
            // It may have been renamed since it was over, and kept by a thread that had it.
            *open.known_copied() = None;
        }
        state.opens += 1;
        state.may_be_mapped |= may_be_mapped;
        state.lends_rights = mode & LENT_RIGHTS != 0;
    }

    /// The entry of `file`, which is made if there is none.
    pub fn entry(&self, file: FileId) -> Arc<OpenFile> {
        let mut files = self.lock();
        let new = || OpenFile {
            file,
            state: Mutex::default(),
            commit: tokio::sync::Mutex::default(),
            is_copied: Mutex::default(),
        };
        Arc::clone(files.entry(file).or_insert_with(|| Arc::new(new())))
    }

    /// `file`, if it is known.
    pub fn find(&self, file: FileId) -> Option<Arc<OpenFile>> {
        self.lock().get(&file).map(Arc::clone)
    }

    /// Pending pieces in a range of `file`. To be asked for before the committed ones: in between they may be committed.
    pub fn pending(&self, file: FileId, range: Range<u64>) -> Pending {
        self.find(file).map_or_else(Pending::default, |open| open.pending(range))
    }

    /// A program has closed `file` once. A writer has been told by then what could not be written.
    pub fn close(&self, file: FileId, is_writer: bool) {
        if let Some(open) = self.find(file) {
            let mut state = open.state();
            state.opens = state.opens.saturating_sub(1);
            state.may_be_mapped &= state.opens > 0;
            state.failed = state.failed.filter(|_| state.opens > 0 && !is_writer);
        }
    }

    /// While `settle` runs, a process has the kernel send what it has gathered; and afterwards, if that has taken too long.
    pub fn while_flushing(&self, settle: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let outcome = settle();
        let goes_on = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut);
        if !goes_on {
            self.flushes.fetch_sub(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Data that the kernel had gathered of `file` could not be written. It tells one of those who make it send that.
    pub fn note_failed(&self, file: FileId, errno: Errno) {
        let open = self.entry(file);
        let failed = &mut open.state().failed;
        let is_flushed = self.flushes.load(Ordering::Relaxed) > 0 || failed.is_some_and(|(_, is_flushed)| is_flushed);
        *failed = Some((errno, is_flushed));
    }

    /// The error for programs that close `file`: none, if the kernel has told one.
    ///
    /// # Errors
    /// Why it could not be written.
    pub fn tell_failed(&self, file: FileId) -> Result<(), Errno> {
        match self.find(file).and_then(|open| open.state().failed) {
            Some((errno, true)) => Err(errno),
            _ => Ok(()),
        }
    }

    /// Programs know of that, or it is over.
    pub fn forget_failed(&self, file: FileId) {
        if let Some(open) = self.find(file) {
            open.state().failed = None;
        }
    }

    /// Whether all that the kernel had gathered of files could be written, as far as no program has been told.
    ///
    /// # Errors
    /// Why some of it could not.
    pub fn failed(&self) -> Result<(), Errno> {
        self.all().iter().find_map(|open| open.state().failed).map_or(Ok(()), |(errno, _)| Err(errno))
    }

    /// Forgets `file` if nothing is open and nothing pending.
    pub fn forget_if_over(&self, file: FileId) {
        let mut files = self.lock();
        let Some(open) = files.get(&file) else { return };
        let is_over = {
            let state = open.state();
            state.opens == 0 && state.written.is_empty() && state.appending.is_empty()
        };
        // Another thread that has it may be about to note something.
        if is_over && Arc::strong_count(open) == 1 {
            files.remove(&file);
        }
    }

    /// All that are known.
    pub fn all(&self) -> Vec<Arc<OpenFile>> {
        self.lock().values().map(Arc::clone).collect()
    }

    /// The one that has this name in the mount's root for the process that settles it.
    pub fn file_to_flush(&self, request: &Request<'_>, name: &[u8]) -> Option<FileId> {
        let file = self.reopen_flush.file(request, name)?;
        self.find(file).filter(|open| open.state().opens > 0).map(|_| file)
    }

    /// Names for those that programs have open and of which the kernel may have gathered something, as far as this daemon has seen them opened.
    ///
    /// # Errors
    /// When the kernel gives no random number.
    pub fn to_flush(&self) -> std::io::Result<Vec<OsString>> {
        let is_one = |open: &mut State| {
            open.failed = open.failed.map(|(errno, _)| (errno, true));
            open.opens > 0 && open.may_be_mapped
        };
        self.all()
            .iter()
            .filter(|open| is_one(&mut open.state()))
            .map(|open| self.reopen_flush.name(open.file))
            .collect()
    }

    /// Held from before an append until it is noted, and while a commit is written down.
    pub fn noting(&self) -> RwLockReadGuard<'_, ()> {
        self.noting.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of `look`, which is given what is pending, and the commits of it that are not answered: nothing is on its way into the log.
    pub fn while_nobody_writes<T>(&self, look: impl FnOnce(Vec<(FileId, Vec<WrittenExtent>)>, Vec<Change>) -> T) -> T {
        let _nobody = self.noting.write().unwrap_or_else(PoisonError::into_inner);
        let (mut pending, mut sent) = (vec![], vec![]);
        for open in self.all() {
            let state = open.state();
            sent.extend(state.unanswered.iter().cloned());
            if !state.written.is_empty() {
                pending.push((open.file, state.written.iter().copied().collect()));
            }
        }
        look(pending, sent)
    }

    /// Whether a record is pending.
    pub fn has_pending(&self, position: LogPosition) -> bool {
        self.all().iter().any(|open| open.state().written.iter().any(|extent| extent.position == position))
    }

    /// Whether a record is pending that no commit has named.
    pub fn has_uncommitted(&self, position: LogPosition) -> bool {
        let is_one = |state: &State| state.written.iter().skip(state.named()).any(|extent| extent.position == position);
        self.all().iter().any(|open| is_one(&open.state()))
    }

    /// Drops what no commit has named. How many extents.
    pub fn drop_uncommitted(&self) -> usize {
        self.all().iter().map(|open| open.state().drop_unnamed(|_| true)).sum()
    }

    /// Drops these records of a file, as far as no commit has named them. How many extents.
    pub fn drop_records(&self, file: FileId, records: &BTreeSet<LogPosition>) -> usize {
        let is_one = |extent: &WrittenExtent| records.contains(&extent.position);
        self.find(file).map_or(0, |open| open.state().drop_unnamed(is_one))
    }

    /// The result of `look`, with the bytes of each segment that are pending then.
    pub fn with_pending_bytes<T>(&self, look: impl FnOnce() -> T) -> (T, BTreeMap<u64, u64>) {
        let _nobody = self.noting.write().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = BTreeMap::new();
        for open in self.all() {
            let state = open.state();
            for extent in state.written.iter().chain(&state.appending) {
                *bytes.entry(extent.position.segment).or_default() += extent.len;
            }
        }
        (look(), bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Map<FileId, Arc<OpenFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many extents of a file are pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    Little,
    /// A commit is to begin.
    Much,
    /// The write waits for the commit.
    TooMuch,
}

impl OpenFile {
    /// Notes a written extent, and by whom if that ends the rights which the file lends. How much is pending then.
    pub fn note(&self, extent: WrittenExtent, now: Timestamp, ends_lent_rights: Option<Caller>) -> Amount {
        let mut state = self.state();
        state.ends_lent_rights = ends_lent_rights.or(state.ends_lent_rights.take());
        // Freed when the commit has been made: until then the log's order says what counts.
        state.pending.insert(extent, &mut vec![]);
        state.written.push_back(extent);
        state.written_at = Some(now);
        state.pending_since.get_or_insert(now);
        match state.written.len() {
            PENDING_EXTENTS_MAX.. => Amount::TooMuch,
            COMMIT_EXTENTS_MAX.. => Amount::Much,
            _ => Amount::Little,
        }
    }

    /// Notes a commit that is to be sent, of what is noted first.
    pub fn note_unanswered(&self, change: Change) {
        self.state().unanswered.push_back(change);
    }

    /// Notes an extent that is on its way to the file's end.
    pub fn note_appending(&self, extent: WrittenExtent) {
        self.state().appending.push(extent);
    }

    /// It is there, or does not come there.
    pub fn note_appended(&self, extent: &WrittenExtent) {
        self.state().appending.retain(|other| other.position != extent.position);
    }

    /// Whether who runs it gets its owner's or its group's rights, as far as is known here.
    pub fn lends_rights(&self) -> bool {
        self.state().lends_rights
    }

    /// Its mode was changed.
    pub fn set_mode(&self, mode: u32) {
        self.state().lends_rights = mode & LENT_RIGHTS != 0;
    }

    /// Whether the partner copies what is written to it: as it was when somebody first wanted to know, until it is forgotten.
    pub fn is_copied(&self) -> Option<bool> {
        *self.known_copied()
    }

    /// It is so from now on, unless it has become known meanwhile.
    pub fn note_copied(&self, is_copied: bool) -> bool {
        *self.known_copied().get_or_insert(is_copied)
    }

    fn known_copied(&self) -> MutexGuard<'_, Option<bool>> {
        self.is_copied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one of so many writes commits what is pending.
    pub fn is_about_to_commit(&self, writes: usize) -> bool {
        self.state().written.len() + writes >= PENDING_EXTENTS_MAX
    }

    /// Since when something is pending, if anything is.
    pub fn pending_since(&self) -> Option<Timestamp> {
        self.state().pending_since
    }

    /// For whom what is pending is committed, whoever has it committed: for a user whose writes end the rights which the file lends, if one of
    /// those who wrote is such a user.
    pub fn writer(&self) -> Caller {
        self.state().ends_lent_rights.clone().unwrap_or_default()
    }

    /// Whether programs may have changed it through a map.
    pub fn may_be_mapped(&self) -> bool {
        self.state().may_be_mapped
    }

    /// Whether anything is pending.
    pub fn is_dirty(&self) -> bool {
        !self.state().written.is_empty()
    }

    /// Bytes that are pending.
    pub fn pending_bytes(&self) -> u64 {
        self.state().pending.written_bytes()
    }

    /// When the last of them were written, as far as this daemon knows.
    pub fn written_at(&self) -> Option<Timestamp> {
        self.state().written_at
    }

    /// Where they are in the file: offset and length.
    pub fn pending_ranges(&self) -> Vec<(u64, u64)> {
        self.state().pending.written().map(|extent| (extent.offset, extent.len)).collect()
    }

    fn pending(&self, range: Range<u64>) -> Pending {
        let state = self.state();
        let pieces = state.pending.pieces(range).into_iter();
        let pieces = pieces.filter(|piece| matches!(piece.source, Source::Log(_))).collect();
        Pending {
            pieces,
            bytes: state.pending.written_bytes(),
            end: state.pending.written_end(),
            written_at: state.written_at,
        }
    }

    /// Commits of the file are made one after the other: as long as the outcome is held, nobody else's.
    pub async fn turn_to_commit(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.commit.lock().await
    }

    /// The extents that were written first, as many as one commit has.
    pub fn first_written(&self) -> Vec<WrittenExtent> {
        self.state().written.iter().take(COMMIT_EXTENTS_MAX).copied().collect()
    }

    /// The first commit that was sent, or is to be, and is not answered.
    pub fn first_unanswered(&self) -> Option<Change> {
        self.state().unanswered.front().cloned()
    }

    /// It is answered. Extents that it has not brought to the tree stay pending.
    pub fn note_answered(&self, commit: &Change, is_committed: bool) {
        self.state().unanswered.pop_front();
        if is_committed {
            self.drop_committed(commit);
        }
    }

    /// Drops the extents of a commit, which are the tree's now.
    pub fn drop_committed(&self, commit: &Change) {
        if let Operation::Commit { extents, .. } = &commit.operation {
            self.state().drop_committed(extents.len());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The first `count` written extents are the tree's now.
    fn drop_committed(&mut self, count: usize) {
        self.written.drain(..count.min(self.written.len()));
        self.count_pending();
    }

    /// Written extents that no commit has named are no more, if they are meant. How many.
    fn drop_unnamed(&mut self, is_meant: impl Fn(&WrittenExtent) -> bool) -> usize {
        let (before, mut named) = (self.written.len(), self.named());
        self.written.retain(|extent| {
            let is_named = named > 0;
            named = named.saturating_sub(1);
            is_named || !is_meant(extent)
        });
        self.count_pending();
        before - self.written.len()
    }

    /// How many of the written extents commits have named.
    fn named(&self) -> usize {
        let of_commit = |change: &Change| match &change.operation {
            Operation::Commit { extents, .. } => extents.len(),
            _ => 0,
        };
        self.unanswered.iter().map(of_commit).sum()
    }

    fn count_pending(&mut self) {
        self.pending = Extents::default();
        for extent in &self.written {
            self.pending.insert(*extent, &mut vec![]);
        }
        if self.written.is_empty() {
            self.written_at = None;
            self.ends_lent_rights = None;
        }
        self.pending_since = self.written_at;
    }
}

impl Pending {
    /// Whether nothing of the file was written since it was committed.
    pub fn is_empty(&self) -> bool {
        self.written_at.is_none()
    }

    /// The attributes with what is pending.
    pub fn attributes(&self, committed: &Attributes) -> Attributes {
        let Some(written_at) = self.written_at else { return *committed };
        let size_bytes = committed.size_bytes.max(self.end);
        // Bytes over committed ones are counted twice until they are committed, too.
        let blocks = (committed.blocks + blocks_of(self.bytes)).min(blocks_of(size_bytes).max(committed.blocks));
        Attributes { size_bytes, blocks, mtime: written_at, ctime: written_at, ..*committed }
    }

    /// The pieces of `range`: pending ones, and elsewhere committed ones; none where neither are.
    pub fn over(&self, committed: &[Piece], range: Range<u64>) -> Vec<Piece> {
        let mut over = vec![];
        let mut at = range.start;
        for piece in &self.pieces {
            over.extend(committed.iter().filter_map(|under| under.part(at..piece.offset)));
            over.push(*piece);
            at = piece.offset + piece.len;
        }
        over.extend(committed.iter().filter_map(|under| under.part(at..range.end)));
        over
    }
}
