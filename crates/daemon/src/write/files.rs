//! The files that programs of this node have open, with what they wrote and nobody else sees yet.
//!
//! A write is in the log when it is answered, and in the file's pending extents; a commit hands these to the tree's owner,
//! who lets everybody see them. Commits of one file are made one after the other; writes go on meanwhile.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::{Attributes, Errno, FileId, Map, Timestamp};
use forebay_wire::write::{COMMIT_EXTENTS_MAX, WrittenExtent};
use forebay_write::{Extents, Piece, Source};

/// All of them.
#[derive(Default)]
pub struct Files {
    files: Mutex<Map<FileId, Arc<OpenFile>>>,
    /// Held by who opens or closes until the owner knows it too: the kernel does both at once.
    turn: Mutex<()>,
}

/// One of them.
pub struct OpenFile {
    pub file: FileId,
    state: Mutex<State>,
    /// Held while a commit is made.
    commit: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Descriptions that are open; files of a daemon before this one have one more than is known.
    opens: u64,
    /// Where uncommitted bytes are.
    pending: Extents,
    /// The same, in the order of writing, with what was overwritten since.
    written: Vec<WrittenExtent>,
    /// When they were written.
    written_at: Option<Timestamp>,
}

impl Files {
    /// Lets nobody else open or close meanwhile.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program opens `file`.
    pub fn open(&self, file: FileId) -> Arc<OpenFile> {
        let open = self.entry(file);
        open.state().opens += 1;
        open
    }

    /// What is known of `file`, which may be open since before this daemon.
    pub fn entry(&self, file: FileId) -> Arc<OpenFile> {
        let mut files = self.lock();
        Arc::clone(
            files
                .entry(file)
                .or_insert_with(|| Arc::new(OpenFile { file, state: Mutex::default(), commit: Mutex::default() })),
        )
    }

    /// `file`, if it is open.
    pub fn find(&self, file: FileId) -> Option<Arc<OpenFile>> {
        self.lock().get(&file).map(Arc::clone)
    }

    /// A program closed its last descriptor of an open. Whether it was the node's last: the file is then forgotten here.
    pub fn close(&self, file: FileId) -> bool {
        let mut files = self.lock();
        let Some(open) = files.get(&file) else { return false };
        let is_last = {
            let mut state = open.state();
            state.opens = state.opens.saturating_sub(1);
            state.opens == 0
        };
        if is_last {
            files.remove(&file);
        }
        is_last
    }

    /// All that are open.
    pub fn all(&self) -> Vec<Arc<OpenFile>> {
        self.lock().values().map(Arc::clone).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Map<FileId, Arc<OpenFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenFile {
    /// Notes what was written. Whether so much is pending that it is to be committed; and what nobody can see any more.
    pub fn note(&self, extent: WrittenExtent, now: Timestamp) -> bool {
        let mut state = self.state();
        // Freed when the commit has been made: until then the log's order says what counts.
        state.pending.insert(extent, &mut vec![]);
        state.written.push(extent);
        state.written_at = Some(now);
        state.written.len() >= COMMIT_EXTENTS_MAX
    }

    /// Whether anything is pending.
    pub fn is_dirty(&self) -> bool {
        !self.state().written.is_empty()
    }

    /// Bytes that are pending.
    pub fn pending_bytes(&self) -> u64 {
        self.state().pending.written().map(|extent| extent.len).sum()
    }

    /// Where they are in the file: offset and length.
    pub fn pending_ranges(&self) -> Vec<(u64, u64)> {
        self.state().pending.written().map(|extent| (extent.offset, extent.len)).collect()
    }

    /// The attributes with what is pending.
    pub fn with_pending(&self, attributes: &Attributes) -> Attributes {
        let state = self.state();
        let Some(written_at) = state.written_at else { return *attributes };
        let size_bytes = attributes.size_bytes.max(state.pending.written_end());
        Attributes { size_bytes, blocks: size_bytes.div_ceil(512), mtime: written_at, ctime: written_at, ..*attributes }
    }

    /// `pieces` of `range` with what is pending over them.
    pub fn over(
        &self,
        range: Range<u64>,
        pieces: &dyn Fn(Range<u64>) -> Result<Vec<Piece>, Errno>,
    ) -> Result<Vec<Piece>, Errno> {
        let mut over = vec![];
        for piece in self.state().pending.pieces(range) {
            match piece.source {
                Source::Log(_) => over.push(piece),
                _ => over.extend(pieces(piece.offset..piece.offset + piece.len)?),
            }
        }
        Ok(over)
    }

    /// Has what is pending committed by `commit`, piece by piece in the order of writing.
    ///
    /// # Errors
    /// What `commit` says; what it was not asked for, or refused, stays pending.
    pub fn commit(&self, commit: impl Fn(Vec<WrittenExtent>) -> Result<(), Errno>) -> Result<(), Errno> {
        let _one = self.commit.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let part: Vec<WrittenExtent> = self.state().written.iter().take(COMMIT_EXTENTS_MAX).copied().collect();
            if part.is_empty() {
                return Ok(());
            }
            commit(part.clone())?;
            self.state().drop_committed(part.len());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The first `count` written extents are the tree's now.
    fn drop_committed(&mut self, count: usize) {
        self.written.drain(..count);
        self.pending = Extents::default();
        for extent in &self.written {
            self.pending.insert(*extent, &mut vec![]);
        }
        if self.written.is_empty() {
            self.written_at = None;
        }
    }
}
