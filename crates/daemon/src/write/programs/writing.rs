//! Writes of programs: appended to this node's log, where they wait for nothing; committed before or after that, where they have to be.

use forebay_fuse::{Change as Asked, Operation as Op, OwnedRequest, Reply, Request};
use forebay_types::threads::KERNEL_READERS_MAX;
use forebay_types::{Errno, FileId};
use forebay_wire::log_record::RecordData;
use forebay_wire::write::{Caller, CommitAt, Operation, WrittenExtent};

use super::kernel::Kernel;
use crate::write::files::{Amount, OpenFile};
use crate::write::kernel_ids::{O_APPEND, file_of, without_rights};
use crate::write::tree::fits::SURE_FILE_BYTES;

/// A write within a file.
struct Write<'a> {
    file: FileId,
    offset: u64,
    data: &'a [u8],
    /// The user whose rights the file lends no more afterwards.
    writer: Option<Caller>,
}

impl<'a> Write<'a> {
    /// The write that a request is, if it is one, and whether it goes to the file's end.
    fn of(request: &Request<'a>) -> Option<(Self, bool)> {
        let Op::Change(Asked::Write { offset, data, flags, ends_lent_rights, .. }) = request.operation else {
            return None;
        };
        let writer = ends_lent_rights.then(|| without_rights(request));
        Some((Self { file: file_of(request.node), offset, data, writer }, flags & O_APPEND != 0))
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }
}

impl Kernel {
    /// Makes a write if it waits for nothing. Whether it has been made.
    pub fn write_at_once(&self, request: &Request<'_>) -> bool {
        let Some((write, is_append)) = Write::of(request) else { return false };
        let open = self.files.entry(write.file);
        let is_with_leader = is_append
            || write.end() > SURE_FILE_BYTES
            || open.is_about_to_commit(KERNEL_READERS_MAX)
            || write.writer.is_some() && open.lends_rights();
        let Some(is_copied) = self.committing.known_copied(&open).filter(|_| !is_with_leader) else { return false };
        let Ok(amount) = self.append_to_log(&open, &write, is_copied) else { return false };
        self.early_commits.begin_if(amount != Amount::Little, write.file);
        true
    }

    /// Makes any write. Its bytes are kept until they are in the log.
    pub async fn write(&self, owned: OwnedRequest, reply: Reply) {
        let request = owned.request();
        let Op::Change(Asked::Write { data, is_gathered, .. }) = request.operation else {
            return reply.error(Errno::EIO);
        };
        let (file, len) = (file_of(request.node), data.len() as u32);
        let written = match self.begin_write(&request).await {
            Ok(false) => Ok(()),
            Ok(true) => {
                drop(owned);
                self.committing.commit(file).await
            }
            Err(errno) => Err(errno),
        };
        match written.inspect_err(|errno| self.committing.note_failed(file, is_gathered, *errno)) {
            Ok(()) => reply.written(len),
            Err(errno) => reply.error(errno),
        }
    }

    /// Whether a commit is to follow.
    async fn begin_write(&self, request: &Request<'_>) -> Result<bool, Errno> {
        let (write, is_append) = Write::of(request).ok_or(Errno::EIO)?;
        let open = self.files.entry(write.file);
        if is_append {
            return self.append(request, &open, write).await.map(|()| false);
        }
        let end = write.end();
        if end > SURE_FILE_BYTES && self.state(write.file).await?.attributes.size_bytes < end {
            // Others may refuse it where it lands.
            self.carry_out(request, Operation::Allocate { file: write.file, least_bytes: end }).await?;
        }
        let is_copied = self.committing.is_copied(&open).await;
        let amount = self.room.wait_for(|| self.append_to_log(&open, &write, is_copied)).await?;
        self.early_commits.begin_if(amount == Amount::Much, write.file);
        // The commit ends the rights that the file lends.
        let is_seen_at_once = write.writer.is_some() && open.lends_rights();
        Ok(is_seen_at_once || amount == Amount::TooMuch)
    }

    fn append_to_log(&self, open: &OpenFile, write: &Write<'_>, is_copied: bool) -> Result<Amount, Errno> {
        let _noting = self.files.noting();
        let data = RecordData::Written { file: write.file, offset: write.offset, is_copied };
        let extent = self.reader.local.append(data, write.data)?;
        Ok(open.note(extent, self.reader.local.now(), write.writer.clone()))
    }

    /// Where the end is, the leader says when the write is committed.
    async fn append(&self, request: &Request<'_>, open: &OpenFile, write: Write<'_>) -> Result<(), Errno> {
        self.committing.commit(open.file).await?;
        let is_copied = self.committing.is_copied(open).await;
        let append = || -> Result<WrittenExtent, Errno> {
            let _noting = self.files.noting();
            let extent = self.reader.local.append(RecordData::Appended { file: open.file, is_copied }, write.data)?;
            open.note_appending(extent);
            Ok(extent)
        };
        let extent = self.room.wait_for(append).await?;
        let operation = Operation::Commit { file: open.file, extents: vec![extent], at: CommitAt::End };
        let number = self.under_way.begin(request);
        let appended = self.carry_out_as(&number, write.writer.unwrap_or_default(), operation).await;
        open.note_appended(&extent);
        appended.map(drop)
    }
}
