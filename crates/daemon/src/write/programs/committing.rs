//! Writes of this node's programs: when others see them, and when they are durable.

use std::sync::Arc;

use forebay_fuse::Request;
use forebay_types::{Errno, FileId};

use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::files::{Files, OpenFile};
use crate::write::kernel_ids::file_of;

/// See the module.
pub struct Committing {
    pub reader: Arc<Reader>,
    pub files: Arc<Files>,
    pub commits: Arc<Commits>,
}

impl Committing {
    /// Lets everybody see what this node has written to a file.
    pub async fn commit(&self, file: FileId) -> Result<(), Errno> {
        match self.files.find(file) {
            Some(open) => self.commits.commit(&open).await,
            None => Ok(()),
        }
    }

    /// A program closes a file once.
    ///
    /// # Errors
    /// Why what was written cannot be seen by others, or could not be written.
    pub async fn flush(&self, request: &Request<'_>, is_writer: bool) -> Result<(), Errno> {
        let file = file_of(request.node);
        let committed = self.commit(file).await;
        if !is_writer {
            return committed;
        }
        committed.and(self.files.tell_failed(file))?;
        // `fsync` tells of lost changes. If the file is gone, so is what was written to it since.
        if self.reader.nodes.lost.has(file) { self.reader.tree.state(file).await.map(drop) } else { Ok(()) }
    }

    /// `fsync(2)`, which the kernel sends after what it has gathered, and only if it could send all of it.
    pub async fn sync(&self, request: &Request<'_>) -> Result<(), Errno> {
        let file = file_of(request.node);
        // The kernel itself has told of data that it could not send before.
        self.files.forget_failed(file);
        self.commit(file).await?;
        // A commit to a file that is gone is none. One whose creation was lost is gone though it is open.
        let (there, durable) = tokio::join!(self.reader.tree.state(file), self.make_durable(Some(file)));
        there.map(drop).and(durable)?;
        self.reader.nodes.lost.tell(file)
    }

    /// `fsync(2)` of a directory.
    pub async fn sync_directory(&self, directory: FileId) -> Result<(), Errno> {
        self.make_durable(Some(directory)).await?;
        self.reader.nodes.lost.tell(directory)
    }

    /// A write has failed. If the kernel had gathered it, no program may be told.
    pub fn note_failed(&self, file: FileId, is_gathered: bool, errno: Errno) {
        if is_gathered {
            self.files.note_failed(file, errno);
        }
    }

    /// Commits until now, of one file or all, survive the loss of power, and of the node that leads the tree.
    pub async fn make_durable(&self, file: Option<FileId>) -> Result<(), Errno> {
        let (local, nodes) = (&self.reader.local, &self.reader.nodes);
        local.make_durable_for_all().await?;
        let is_copied = match file {
            None => true,
            Some(file) => match self.files.find(file) {
                Some(open) => self.is_copied(&open).await,
                None => self.ask_copied(file).await,
            },
        };
        if let Some(copying) = local.copying.as_ref().filter(|_| is_copied) {
            copying.until_copied(nodes).await?;
        }
        self.reader.tree.make_durable().await
    }

    /// Whether this node's partner copies what is written to a file, if that is known.
    pub fn known_copied(&self, open: &OpenFile) -> Option<bool> {
        let copying = self.reader.local.copying.as_ref();
        copying.map_or(Some(false), |copying| copying.copies_all()).or_else(|| open.is_copied())
    }

    /// The same; the leader is asked where it is not known.
    pub async fn is_copied(&self, open: &OpenFile) -> bool {
        match self.known_copied(open) {
            Some(is_copied) => is_copied,
            None => {
                let is_copied = self.ask_copied(open.file).await;
                open.note_copied(is_copied)
            }
        }
    }

    /// Where the leader cannot say, it is copied.
    async fn ask_copied(&self, file: FileId) -> bool {
        let copying = self.reader.local.copying.as_ref();
        match copying.map_or(Some(false), |copying| copying.copies_all()) {
            Some(is_copied) => is_copied,
            None => self.reader.tree.is_copied(file).await.unwrap_or(true),
        }
    }
}
