//! The kernel's requests on the burst mount.
//!
//! A node's number is made of the file's identity, so that the next daemon knows what the kernel means. Handles hold nothing but
//! the flags of the open, for the same reason. Writes bypass the page cache: what is written is in the log when the program
//! goes on. Readings fill it (`page_cache`).

use std::sync::Arc;
use std::time::Duration;

use forebay_fuse::{Change as Asked, Entry, Handler, Lock, NewAttributes, Operation as Op, Reply, Request};
use forebay_types::{Errno, FileId};
use forebay_wire::log_record::RecordData;
use forebay_wire::write::{AttributeChanges, Caller, CommitAt, Done, FileState, Operation, RenameRule};

use super::allocating::least_bytes;
use super::by_number::{find_by_number, is_by_number};
use super::committing::Committing;
use super::creating::{named, open_found, unnamed};
use super::directories::Readings;
use super::extended;
use super::joined::Joined;
use super::locks::{Locking, request_of};
use super::owed::Owed;
use super::requests::{Number, UnderWay, admit, answer, caller, unserved};
use super::room::Room;
use super::seeking::seek;
use super::waits::{may_wait, note_late};
use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::early_commits::EarlyCommits;
use crate::write::files::{Amount, Files, OpenFile};
use crate::write::kernel_words::{
    O_APPEND, file_of, handle, may_map, may_write, mode_of, node_of, open_flags, place, time, wanted, without_rights,
};
use crate::write::page_cache::{PageCache, ToTell};
use crate::write::tree::fits::SURE_FILE_BYTES;

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
    pub owed: Arc<Owed>,
    /// No request is served before.
    pub joined: Arc<Joined>,
}

impl Handler for Kernel {
    fn handle(&self, request: Request<'_>, reply: Reply) {
        if let Err(errno) = admit(&self.joined, &request.operation) {
            return unserved(&request.operation, reply, errno);
        }
        let file = file_of(request.node);
        match &request.operation {
            Op::Lookup { name } => answer_entry(self.look_up(&request, name), reply),
            Op::Getattr { .. } => self.get_attributes(file, reply),
            Op::Readlink => match self.reader.tree.target(file) {
                Ok(target) => reply.bytes(&target),
                Err(errno) => reply.error(errno),
            },
            Op::Open { flags } => self.open(&request, *flags, reply),
            Op::Release { flock_owner, .. } => {
                self.owed.close((&request, self.under_way.begin(&request)), *flock_owner, reply)
            }
            Op::Read { offset, size, .. } => match self.reader.read(&self.files, file, *offset, *size as usize) {
                Ok((parts, state)) => {
                    let pending = self.files.pending(file, 0..0);
                    self.cache.fill(&state, &pending.attributes(&state.attributes));
                    reply.gather(&parts);
                }
                Err(errno) => reply.error(errno),
            },
            Op::Flush { lock_owner, handle } => {
                let flushed = self.committing.flush(&request, may_write(*handle as u32));
                answer(flushed.and(self.locking.release(file, *lock_owner, false)), reply);
            }
            Op::Fsync { .. } => answer(self.committing.sync(&request), reply),
            Op::Fsyncdir { .. } => answer(self.committing.make_durable(Some(file)), reply),
            Op::Syncfs => answer(self.committing.make_durable(None), reply),
            Op::Opendir { .. } => reply.open(self.readings.open(), 0),
            Op::Releasedir { handle } => {
                self.readings.close(*handle);
                reply.ok();
            }
            Op::Readdir { handle, offset, size } => {
                self.read_directory(request.node, (*handle, *offset, *size), false, reply)
            }
            Op::Readdirplus { handle, offset, size } => {
                self.read_directory(request.node, (*handle, *offset, *size), true, reply)
            }
            Op::Change(asked) => self.change(&request, asked, reply),
            _ => self.handle_lesser(&request, reply),
        }
    }

    fn may_wait(&self, request: &Request<'_>) -> bool {
        may_wait(&self.reader, &self.files, request)
    }

    fn hand_over(&self, request: &Request<'_>) -> Box<dyn Send> {
        note_late(&self.under_way, &self.locking, request)
    }
}

impl Kernel {
    /// Requests that come rarely.
    fn handle_lesser(&self, request: &Request<'_>, reply: Reply) {
        let file = file_of(request.node);
        match &request.operation {
            Op::Access { mask } => answer(self.reader.tree.check_access(&caller(request), file, *mask), reply),
            Op::Lseek { offset, whence, .. } => {
                let is_mapped = self.files.find(file).is_some_and(|open| open.may_be_mapped());
                let may_be_mapped = is_mapped || self.cache.has_earlier();
                let committed = self.committing.commit(file);
                match committed.and_then(|()| seek(&self.reader, may_be_mapped, file, *offset, *whence)) {
                    Ok(found) => reply.lseek(found),
                    Err(errno) => reply.error(errno),
                }
            }
            Op::Statfs => match self.reader.tree.file_system() {
                Ok(sizes) => reply.statfs(&sizes),
                Err(errno) => reply.error(errno),
            },
            Op::Interrupt { unique } => {
                self.locking.interrupt(*unique);
                reply.none();
            }
            Op::Forget { .. } | Op::BatchForget(_) => reply.none(),
            Op::Getxattr { .. } | Op::Listxattr { .. } => extended::answer(&self.reader.tree, request, reply),
            // The kernel does without it, and does not ask again: it copies ranges itself.
            Op::Other(_) => reply.error(Errno::ENOSYS),
            operation => {
                let errno = operation.default_error();
                reply.error(errno);
            }
        }
    }

    fn change(&self, request: &Request<'_>, asked: &Asked<'_>, reply: Reply) {
        match asked {
            Asked::Write { offset, data, flags, ends_lent_rights, is_gathered, .. } => {
                let written = self.write(request, *offset, data, *flags, *ends_lent_rights);
                match written.inspect_err(|errno| self.committing.note_failed(request, *is_gathered, *errno)) {
                    Ok(()) => reply.written(data.len() as u32),
                    Err(errno) => reply.error(errno),
                }
            }
            Asked::Create { name, mode, flags } => {
                self.answer_created(self.create(request, name, (*mode, *flags)), request, *flags, reply);
            }
            Asked::CreateUnnamed { mode, flags } => {
                self.answer_created(self.create_unnamed(request, (*mode, *flags)), request, *flags, reply);
            }
            Asked::SetAttributes(new) => self.answer_attributes(self.set_attributes(request, new), reply),
            Asked::Fallocate { offset, len, mode, .. } => answer(self.allocate(request, *offset, *len, *mode), reply),
            Asked::GetLock(lock) => match self.locking.in_the_way(&self.reader, file_of(request.node), lock) {
                Ok(lock) => reply.lock(&lock),
                Err(errno) => reply.error(errno),
            },
            Asked::SetExtended { .. } | Asked::RemoveExtended { .. } => {
                let set = extended::setting(request, asked).and_then(|set| self.carry_out(request, set));
                answer(set.map(drop), reply);
            }
            Asked::SetLock(lock) => answer(self.lock(request, lock), reply),
            Asked::SetLockWaiting(lock) => self.lock_waiting(request, lock, reply),
            _ => match self.change_name(request, asked) {
                Ok(Some(state)) => reply.entry(&entry(&state)),
                Ok(None) => reply.ok(),
                Err(errno) => reply.error(errno),
            },
        }
    }

    /// Changes that are about names; what `entry` is to tell of, for those that make one.
    fn change_name(&self, request: &Request<'_>, asked: &Asked<'_>) -> Result<Option<FileState>, Errno> {
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
        match self.carry_out(request, operation)? {
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

    fn carry_out(&self, request: &Request<'_>, operation: Operation) -> Result<Done, Errno> {
        let number = self.under_way.begin(request);
        self.carry_out_as(&number, caller(request), operation)
    }

    fn carry_out_as(&self, number: &Number, caller: Caller, operation: Operation) -> Result<Done, Errno> {
        let local = &self.reader.local;
        let outcome = self.reader.tree.carry_out(&number.change(local.rank, local.now(), caller, operation));
        // The outcome is unknown.
        outcome.map_err(|errno| if errno == Errno::EALREADY { Errno::EIO } else { errno })
    }

    fn look_up(&self, request: &Request<'_>, name: &[u8]) -> Result<FileState, Errno> {
        if let Some(file) = self.files.settled(request, name) {
            return self.state(file);
        }
        if is_by_number(name) { find_by_number(&self.reader, request, name) } else { self.lookup(request, name) }
    }

    fn lookup(&self, request: &Request<'_>, name: &[u8]) -> Result<FileState, Errno> {
        let state = self.reader.tree.lookup(&caller(request), place(request.node, name)?)?;
        // Writes that were pending before the question may have been committed since; those that are pending now were not.
        if self.files.find(state.file).is_some() { self.state(state.file) } else { Ok(state) }
    }

    fn state(&self, file: FileId) -> Result<FileState, Errno> {
        let pending = self.files.pending(file, 0..0);
        let state = self.reader.tree.state(file)?;
        Ok(FileState { attributes: pending.attributes(&state.attributes), ..state })
    }

    /// A file as this node's programs see it.
    pub fn seen(&self, state: FileState) -> FileState {
        let pending = self.files.pending(state.file, 0..0);
        FileState { attributes: pending.attributes(&state.attributes), ..state }
    }

    /// For as long as the owner tells of changes, the kernel need not ask again.
    fn get_attributes(&self, file: FileId, reply: Reply) {
        let forgotten = self.cache.forgotten();
        let pending = self.files.pending(file, 0..0);
        match self.reader.tree.leased_state(file) {
            Ok((state, lease)) => {
                let attributes = pending.attributes(&state.attributes);
                let lease = if pending.is_empty() { lease } else { TTL };
                self.cache.tell(&ToTell { forgotten, state, attributes, lease }, reply);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn answer_attributes(&self, state: Result<FileState, Errno>, reply: Reply) {
        match state {
            Ok(state) => {
                self.cache.answer_change(&state);
                reply.attributes(&state.attributes, TTL);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, request: &Request<'_>, flags: u32, reply: Reply) {
        let file = file_of(request.node);
        let allowed = self.reader.tree.check_access(&caller(request), file, wanted(flags));
        match allowed.and_then(|()| self.carry_out(request, Operation::Open { file })) {
            Ok(done) => {
                self.files.open(file, mode_of(&done), may_map(flags));
                let is_current = matches!(done, Done::File(state) if self.cache.is_current(&state));
                reply.open(handle(request, flags), open_flags(flags, is_current));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn answer_created(&self, created: Result<FileState, Errno>, request: &Request<'_>, flags: u32, reply: Reply) {
        match created {
            Ok(state) => {
                self.files.open(state.file, state.attributes.mode, may_map(flags));
                let is_current = self.cache.is_current(&state);
                reply.created(&entry(&state), handle(request, flags), open_flags(flags, is_current));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn create(&self, request: &Request<'_>, name: &[u8], how: (u32, u32)) -> Result<FileState, Errno> {
        let (number, caller) = (self.under_way.begin(request), caller(request));
        let file = self.reader.local.new_file();
        let operation = named(request, name, file, how)?;
        let Done::File(state) = self.carry_out_as(&number, caller.clone(), operation)? else { return Err(Errno::EIO) };
        // Another program was faster: its file is opened as it is.
        if state.file != file {
            open_found((&self.reader, &self.commits), &caller, &state, how.1)?;
            return self.state(state.file);
        }
        Ok(state)
    }

    /// Makes a file without a name, which is open from then on.
    fn create_unnamed(&self, request: &Request<'_>, how: (u32, u32)) -> Result<FileState, Errno> {
        match self.carry_out(request, unnamed(request, self.reader.local.new_file(), how))? {
            Done::File(state) => Ok(state),
            Done::Nothing => Err(Errno::EIO),
        }
    }

    fn write(
        &self,
        request: &Request<'_>,
        offset: u64,
        data: &[u8],
        flags: u32,
        ends_lent_rights: bool,
    ) -> Result<(), Errno> {
        let file = file_of(request.node);
        let open = self.files.entry(file);
        let writer = ends_lent_rights.then(|| without_rights(request));
        if flags & O_APPEND != 0 {
            return self.append(request, &open, data, writer);
        }
        let end = offset.saturating_add(data.len() as u64);
        if end > SURE_FILE_BYTES && self.state(file)?.attributes.size_bytes < end {
            // Others may refuse it where it lands.
            self.carry_out(request, Operation::Allocate { file, least_bytes: end })?;
        }
        let is_copied = open.is_copied(|| self.committing.is_copied(file));
        let pending = self.room.wait_for(|| {
            let _noting = self.files.noting();
            let extent = self.reader.local.append(RecordData::Written { file, offset, is_copied }, data)?;
            Ok(open.note(extent, self.reader.local.now(), writer.clone()))
        })?;
        // The commit ends the rights that the file lends.
        let is_seen_at_once = ends_lent_rights && open.lends_rights();
        self.early_commits.begin_if(pending == Amount::Much, file);
        if is_seen_at_once || pending == Amount::TooMuch { self.committing.commit(file) } else { Ok(()) }
    }

    /// A program that gets a lock sees what was written under it, and one that gives it back shows what it has written.
    fn lock(&self, request: &Request<'_>, lock: &Lock) -> Result<(), Errno> {
        let (file, asked) = (file_of(request.node), request_of(lock)?);
        self.committing.commit(file)?;
        let operation = Operation::Lock { file, request: asked };
        let is_held = |outcome: &Result<(), Errno>| *outcome == Err(Errno::EAGAIN);
        let outcome = self.locking.ask_behind_closes(file, is_held, |is_again| match is_again {
            // The first has had its answer.
            true => self.commits.carry_out_own(&Caller::default(), operation.clone()),
            false => self.carry_out(request, operation.clone()).map(drop),
        });
        if outcome == Err(Errno::EAGAIN) { self.locking.convert(file, asked) } else { outcome }?;
        self.locking.note(file, &asked);
        self.locking.wake();
        Ok(())
    }

    fn lock_waiting(&self, request: &Request<'_>, lock: &Lock, reply: Reply) {
        let file = file_of(request.node);
        match self.committing.commit(file).and_then(|()| request_of(lock)) {
            Ok(asked) => self.locking.wait(request.unique, file, asked, reply),
            Err(errno) => reply.error(errno),
        }
    }

    /// Where the end is, the owner says when the write is committed.
    fn append(&self, request: &Request<'_>, open: &OpenFile, data: &[u8], writer: Option<Caller>) -> Result<(), Errno> {
        self.committing.commit(open.file)?;
        let is_copied = open.is_copied(|| self.committing.is_copied(open.file));
        let extent = self.room.wait_for(|| {
            let _noting = self.files.noting();
            let extent = self.reader.local.append(RecordData::Appended { file: open.file, is_copied }, data)?;
            open.note_appending(extent);
            Ok(extent)
        })?;
        let operation = Operation::Commit { file: open.file, extents: vec![extent], at: CommitAt::End };
        let number = self.under_way.begin(request);
        open.append(extent, || self.carry_out_as(&number, writer.unwrap_or_default(), operation)).map(drop)
    }

    fn set_attributes(&self, request: &Request<'_>, new: &NewAttributes) -> Result<FileState, Errno> {
        let file = file_of(request.node);
        // A truncation comes after what was written before it.
        self.committing.commit(file)?;
        let changes = AttributeChanges {
            mode: new.mode,
            uid: new.uid,
            gid: new.gid,
            size_bytes: new.size_bytes,
            atime: new.atime.map(time),
            mtime: new.mtime.map(time),
            is_through_descriptor: new.handle.is_some(),
        };
        match self.carry_out(request, Operation::SetAttributes { file, changes })? {
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

    fn allocate(&self, request: &Request<'_>, offset: u64, len: u64, mode: u32) -> Result<(), Errno> {
        let (file, end) = (file_of(request.node), offset.checked_add(len).ok_or(Errno::EFBIG)?);
        self.committing.commit(file)?;
        let size_bytes = self.state(file)?.attributes.size_bytes;
        let least_bytes = least_bytes(mode, offset..end, size_bytes, &self.reader.tree.file_system()?)?;
        match self.carry_out(request, Operation::Allocate { file, least_bytes })? {
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

fn answer_entry(found: Result<FileState, Errno>, reply: Reply) {
    match found {
        Ok(state) => reply.entry(&entry(&state)),
        Err(errno) => reply.error(errno),
    }
}
