//! Writes of this node's programs: when others see them, and when they are durable.

use std::sync::Arc;

use forebay_fuse::Request;
use forebay_types::{Errno, FileId};

use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::files::Files;
use crate::write::kernel_words::file_of;

/// See the module.
pub struct Committing {
    pub reader: Arc<Reader>,
    pub files: Arc<Files>,
    pub commits: Arc<Commits>,
}

impl Committing {
    /// Lets everybody see what this node has written to a file.
    pub fn commit(&self, file: FileId) -> Result<(), Errno> {
        self.files.find(file).map_or(Ok(()), |open| self.commits.commit(&open))
    }

    /// A program closes a file once.
    ///
    /// # Errors
    /// Why what was written cannot be seen by others, or could not be written.
    pub fn flush(&self, request: &Request<'_>, is_writer: bool) -> Result<(), Errno> {
        let committed = self.commit(file_of(request.node));
        let told = if is_writer { self.files.tell_failed(file_of(request.node)) } else { Ok(()) };
        committed.and(told).and(if is_writer { self.tell_refused(file_of(request.node)) } else { Ok(()) })
    }

    /// `fsync(2)`, which the kernel sends after what it has gathered, and only if it could send all of it.
    pub fn sync(&self, request: &Request<'_>) -> Result<(), Errno> {
        let file = file_of(request.node);
        // The kernel itself has told of data that it could not send before.
        self.files.forget_failed(file);
        self.commit(file)?;
        self.tell_refused(file)?;
        self.make_durable(Some(file))
    }

    /// The error of an early commit, which is told once.
    fn tell_refused(&self, file: FileId) -> Result<(), Errno> {
        self.files.find(file).map_or(Ok(()), |open| open.tell_refused())
    }

    /// A write has failed. If the kernel had gathered it, no program may be told.
    pub fn note_failed(&self, request: &Request<'_>, is_gathered: bool, errno: Errno) {
        if is_gathered {
            self.files.note_failed(file_of(request.node), errno);
        }
    }

    /// Commits until now, of one file or all, survive the loss of power, and of the node that owns the tree.
    pub fn make_durable(&self, file: Option<FileId>) -> Result<(), Errno> {
        self.reader.local.make_durable()?;
        let is_copied = file.is_none_or(|file| match self.files.find(file) {
            Some(open) => open.is_copied(|| self.is_copied(file)),
            None => self.is_copied(file),
        });
        if let Some(copying) = self.reader.local.copying.as_ref().filter(|_| is_copied) {
            self.reader.nodes.wait_for(copying.wait(&self.reader.nodes))?;
        }
        self.reader.tree.make_durable()
    }

    /// Whether this node's partner copies what is written to a file.
    pub fn is_copied(&self, file: FileId) -> bool {
        let copying = self.reader.local.copying.as_ref();
        copying.is_some_and(|copying| copying.copies(|| self.reader.tree.is_copied(file)))
    }
}
