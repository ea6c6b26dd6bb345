//! The kernel's requests on the burst mount: what they are about, and how they are answered. `serving` takes them.
//!
//! A node's number is made of the file's identity, so that the next daemon knows what the kernel means. Handles hold nothing but
//! the flags of the open, for the same reason. Writes bypass the page cache: what is written is in the log when the program
//! goes on. Readings fill it (`page_cache`).

use std::sync::Arc;
use std::time::Duration;

use forebay_fuse::{Change as Asked, Entry, NewAttributes, Reply, Request};
use forebay_types::{Errno, FileId};
use forebay_wire::write::{AttributeChanges, Caller, Done, FileState, Operation, RenameRule};
use forebay_write::AskedFor;

use super::allocating::least_bytes;
use super::by_number::{find_by_number, is_by_number};
use super::close_retry::CloseRetries;
use super::committing::Committing;
use super::creating::{named, open_found, unnamed};
use super::directories::Readings;
use super::joined::Joined;
use super::locks::Locking;
use super::requests::{Number, UnderWay, caller};
use super::room::Room;
use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::early_commits::EarlyCommits;
use crate::write::files::Files;
use crate::write::kernel_ids::{O_EXCL, file_of, handle, may_map, mode_of, node_of, open_flags, place, time, wanted};
use crate::write::page_cache::{PageCache, ToTell};

/// How long the kernel may believe names, and attributes that come with them: not at all, since other nodes change them.
const TTL: Duration = Duration::ZERO;

/// Takes the requests of the burst mount's session.
pub struct Kernel {
    pub reader: Arc<Reader>,
    pub cache: Arc<PageCache>,
    pub files: Arc<Files>,
    pub commits: Arc<Commits>,
    pub committing: Committing,
    pub early_commits: Arc<EarlyCommits>,
    pub locking: Arc<Locking>,
    pub room: Room,
    pub readings: Readings,
    pub under_way: Arc<UnderWay>,
    pub close_retries: CloseRetries,
    /// No request is served before.
    pub joined: Arc<Joined>,
}

impl Kernel {
    /// Changes that are about names; what `entry` is to tell of, for those that make one.
    pub async fn change_name(&self, request: &Request<'_>, asked: &Asked<'_>) -> Result<Option<FileState>, Errno> {
        let operation = match asked {
            Asked::Mknod { name, mode, rdev } => self.creation(request, name, *mode, *rdev, &[])?,
            Asked::Mkdir { name, mode } => self.creation(request, name, mode & 0o7777 | 0o040_000, 0, &[])?,
            Asked::Symlink { name, target } => self.creation(request, name, 0o120_777, 0, target)?,
            Asked::Link { node, name } => Operation::Link { file: file_of(*node), place: place(request.node, name)? },
            Asked::Unlink { name } => Operation::Unlink { place: place(request.node, name)? },
            Asked::Rmdir { name } => Operation::RemoveDirectory { place: place(request.node, name)? },
            Asked::Rename { name, to_directory, to_name, flags } => Operation::Rename {
                from: place(request.node, name)?,
                to: place(*to_directory, to_name)?,
                rule: match flags {
                    0 => RenameRule::Replace,
                    1 => RenameRule::Keep,
                    2 => RenameRule::Exchange,
                    _ => return Err(Errno::EINVAL),
                },
            },
            _ => return Err(Errno::ENOSYS),
        };
        match self.carry_out(request, operation).await? {
            Done::File(state) => Ok(Some(self.seen(state))),
            Done::Nothing => Ok(None),
        }
    }

    fn creation(
        &self,
        request: &Request<'_>,
        name: &[u8],
        mode: u32,
        rdev: u32,
        target: &[u8],
    ) -> Result<Operation, Errno> {
        Ok(Operation::Create {
            place: place(request.node, name)?,
            file: self.reader.local.new_file(),
            mode,
            rdev,
            target: target.to_vec(),
            is_opened: false,
            is_exclusive: false,
        })
    }

    pub async fn carry_out(&self, request: &Request<'_>, operation: Operation) -> Result<Done, Errno> {
        let number = self.under_way.begin(request);
        self.carry_out_as(&number, caller(request), operation).await
    }

    pub async fn carry_out_as(&self, number: &Number, caller: Caller, operation: Operation) -> Result<Done, Errno> {
        let local = &self.reader.local;
        let outcome = self.reader.tree.carry_out(&number.change(local.rank, local.now(), caller, operation)).await;
        // The outcome is unknown.
        outcome.map_err(|errno| if errno == Errno::EALREADY { Errno::EIO } else { errno })
    }

    pub async fn look_up(&self, request: &Request<'_>, name: &[u8]) -> Result<FileState, Errno> {
        if let Some(file) = self.files.file_to_flush(request, name) {
            return self.state(file).await;
        }
        if is_by_number(name) {
            return find_by_number(&self.reader, request, name).await;
        }
        let state = self.reader.tree.lookup(&caller(request), place(request.node, name)?).await?;
        self.reader.nodes.lost.found(file_of(request.node), state.file);
        // Writes that were pending before the question may have been committed since; those that are pending now were not.
        if self.files.find(state.file).is_some() { self.state(state.file).await } else { Ok(state) }
    }

    pub async fn state(&self, file: FileId) -> Result<FileState, Errno> {
        let pending = self.files.pending(file, 0..0);
        let state = self.reader.tree.state(file).await?;
        Ok(FileState { attributes: pending.attributes(&state.attributes), ..state })
    }

    /// A file as this node's programs see it.
    pub fn seen(&self, state: FileState) -> FileState {
        let pending = self.files.pending(state.file, 0..0);
        FileState { attributes: pending.attributes(&state.attributes), ..state }
    }

    /// For as long as the leader tells of changes, the kernel need not ask again.
    pub async fn get_attributes(&self, file: FileId, purpose: AskedFor, reply: Reply) {
        let asked = self.cache.ask(file, purpose);
        let pending = self.files.pending(file, 0..0);
        match self.reader.tree.leased_state(file).await {
            Ok((state, lease)) => {
                let attributes = pending.attributes(&state.attributes);
                let lease = if pending.is_empty() { lease } else { TTL };
                let told = ToTell { state, attributes, lease };
                if let Some((dropping, reply)) = self.cache.tell(&asked, &told, reply) {
                    let last = self.last_byte(file, attributes.size_bytes).await;
                    self.cache.drop_before(dropping, last, &told, reply);
                }
            }
            Err(errno) => reply.error(errno),
        }
    }

    /// A file's size and last byte; `None` where it is shorter by now. A byte that is lost counts as 0: it brings the size along, and the kernel drops
    /// it before a program reads on, which then gets the error.
    async fn last_byte(&self, file: FileId, size_bytes: u64) -> Option<(u64, u8)> {
        let offset = size_bytes.checked_sub(1)?;
        match self.reader.read(&self.files, file, offset, 1).await {
            Ok((parts, _)) => Some((size_bytes, *parts.iter().find_map(|part| part.first())?)),
            Err(_) => Some((size_bytes, 0)),
        }
    }

    pub fn answer_attributes(&self, state: Result<FileState, Errno>, reply: Reply) {
        match state {
            Ok(state) => {
                reply.attributes(&state.attributes, TTL);
            }
            Err(errno) => reply.error(errno),
        }
    }

    pub async fn open(&self, request: &Request<'_>, flags: u32, reply: Reply) {
        let file = file_of(request.node);
        let opened = match self.reader.tree.check_access(&caller(request), file, wanted(flags)).await {
            Ok(()) => self.carry_out(request, Operation::Open { file }).await,
            Err(errno) => Err(errno),
        };
        match opened {
            Ok(done) => {
                self.files.open(file, mode_of(&done), may_map(flags));
                let is_current = matches!(done, Done::File(state) if self.cache.is_current(&state));
                reply.open(handle(request, flags), open_flags(flags, is_current));
            }
            Err(errno) => reply.error(errno),
        }
    }

    pub fn answer_created(&self, created: Result<FileState, Errno>, request: &Request<'_>, flags: u32, reply: Reply) {
        match created {
            Ok(state) => {
                self.files.open(state.file, state.attributes.mode, may_map(flags));
                let is_current = self.cache.is_current(&state);
                reply.created(&entry(&state), handle(request, flags), open_flags(flags, is_current));
            }
            Err(errno) => reply.error(errno),
        }
    }

    pub async fn create(&self, request: &Request<'_>, name: &[u8], how: (u32, u32)) -> Result<FileState, Errno> {
        let (number, caller) = (self.under_way.begin(request), caller(request));
        let file = self.reader.local.new_file();
        let operation = named(request, name, file, how)?;
        let Done::File(state) = self.carry_out_as(&number, caller.clone(), operation).await? else {
            return Err(Errno::EIO);
        };
        self.reader.nodes.lost.found(file_of(request.node), state.file);
        // Another program was faster: its file is opened as it is. Not by an exclusive creation: that was carried out for the daemon before, and its
        // program may write to the file whatever its mode.
        if state.file != file && how.1 & O_EXCL == 0 {
            open_found((&self.reader, &self.commits), &caller, &state, how.1).await?;
            return self.state(state.file).await;
        }
        Ok(state)
    }

    /// Makes a file without a name, which is open from then on.
    pub async fn create_unnamed(&self, request: &Request<'_>, how: (u32, u32)) -> Result<FileState, Errno> {
        match self.carry_out(request, unnamed(request, self.reader.local.new_file(), how)).await? {
            Done::File(state) => Ok(state),
            Done::Nothing => Err(Errno::EIO),
        }
    }

    pub async fn set_attributes(&self, request: &Request<'_>, new: &NewAttributes) -> Result<FileState, Errno> {
        let file = file_of(request.node);
        // A truncation comes after what was written before it.
        self.committing.commit(file).await?;
        let changes = AttributeChanges {
            mode: new.mode,
            uid: new.uid,
            gid: new.gid,
            size_bytes: new.size_bytes,
            atime: new.atime.map(time),
            mtime: new.mtime.map(time),
            is_through_descriptor: new.handle.is_some(),
        };
        match self.carry_out(request, Operation::SetAttributes { file, changes }).await? {
            Done::File(state) => {
                if new.size_bytes == Some(0) {
                    self.files.forget_failed(file);
                }
                if let Some(open) = self.files.find(file) {
                    open.set_mode(state.attributes.mode);
                }
                Ok(self.seen(state))
            }
            Done::Nothing => Err(Errno::EIO),
        }
    }

    pub async fn allocate(&self, request: &Request<'_>, offset: u64, len: u64, mode: u32) -> Result<(), Errno> {
        let (file, end) = (file_of(request.node), offset.checked_add(len).ok_or(Errno::EFBIG)?);
        self.committing.commit(file).await?;
        let size_bytes = self.state(file).await?.attributes.size_bytes;
        let least_bytes = least_bytes(mode, offset..end, size_bytes, &self.reader.tree.file_system().await?)?;
        match self.carry_out(request, Operation::Allocate { file, least_bytes }).await? {
            Done::File(state) => {
                self.files.find(file).into_iter().for_each(|open| open.set_mode(state.attributes.mode));
                Ok(())
            }
            Done::Nothing => Err(Errno::EIO),
        }
    }
}

/// The kernel's entry for a file, by its name.
pub fn entry(state: &FileState) -> Entry {
    let node = node_of(state.file);
    Entry { node, generation: 0, attributes: state.attributes, entry_ttl: TTL, attribute_ttl: TTL }
}

pub fn answer_entry(found: Result<FileState, Errno>, reply: Reply) {
    match found {
        Ok(state) => reply.entry(&entry(&state)),
        Err(errno) => reply.error(errno),
    }
}
