//! The kernel's requests on the burst mount.
//!
//! A node's number is made of the file's identity, so that the next daemon knows what the kernel means. Handles hold nothing but
//! the flags of the open, for the same reason. Writes bypass the page cache: what is written is in the log when the program
//! goes on, and what others committed is seen by the next open.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forebay_fuse::{
    Change as Asked, DirectoryBuffer, Entry, Handler, Lock, NewAttributes, NewTime, Operation as Op, Reply, Request,
    open_flag,
};
use forebay_types::{Attributes, Errno, FileId, Kind, Name, NodeRank, Timestamp};
use forebay_wire::write::{
    AttributeChanges, Caller, CommitAt, Done, FileState, Operation, Place, RenameRule, TimeChange,
};
use forebay_wire::write_message::Entries;

use super::commits::Commits;
use super::contents::Reader;
use super::directories::Readings;
use super::files::{Files, OpenFile};
use super::local::APPENDED;
use super::requests::{Number, UnderWay, caller};

/// How long the kernel may believe names and attributes: not at all, since other nodes change them.
const TTL: Duration = Duration::ZERO;

const O_ACCMODE: u32 = 0o3;
const O_RDONLY: u32 = 0;
const O_RDWR: u32 = 2;
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;
const O_APPEND: u32 = 0o2000;

/// The bits of `access(2)`.
const READ: u32 = 4;
const WRITE: u32 = 2;

/// `FALLOC_FL_KEEP_SIZE`.
const KEEP_SIZE: u32 = 1;

/// `F_UNLCK`.
const UNLOCKED: u32 = 2;

/// Takes the requests of the burst mount's session.
pub struct Kernel {
    pub reader: Arc<Reader>,
    pub files: Arc<Files>,
    pub commits: Arc<Commits>,
    pub readings: Readings,
    pub under_way: UnderWay,
    /// Nobody is served before.
    pub joined: Arc<OnceLock<()>>,
}

/// The kernel's number of a file: also its inode number. 1 is the root's.
fn node_of(file: FileId) -> u64 {
    (u64::from(file.creator.0) << 40) + file.serial + 1
}

fn file_of(node: u64) -> FileId {
    let number = node.wrapping_sub(1);
    FileId { creator: NodeRank((number >> 40) as u32), serial: number & ((1 << 40) - 1) }
}

/// A name that the kernel sends.
fn place(directory: u64, name: &[u8]) -> Result<Place, Errno> {
    let name = Name::new(name).map_err(|_| Errno::ENAMETOOLONG)?;
    Ok(Place { directory: file_of(directory), name })
}

impl Handler for Kernel {
    fn handle(&self, request: Request<'_>, reply: Reply) {
        self.joined.wait();
        let file = file_of(request.node);
        match &request.operation {
            Op::Lookup { name } => self.answer_entry(self.lookup(&request, name), reply),
            Op::Getattr { .. } => self.answer_attributes(self.state(file), reply),
            Op::Readlink => match self.reader.tree.target(file) {
                Ok(target) => reply.bytes(&target),
                Err(errno) => reply.error(errno),
            },
            Op::Open { flags } => self.open(&request, *flags, reply),
            Op::Release { .. } => answer(self.close(&request), reply),
            Op::Read { offset, size, .. } => match self.reader.read(&self.files, file, *offset, *size as usize) {
                Ok(bytes) => reply.bytes(&bytes),
                Err(errno) => reply.error(errno),
            },
            Op::Flush { .. } => answer(self.commit(&request, file), reply),
            Op::Fsync { .. } => {
                answer(self.commit(&request, file).and_then(|()| self.reader.local.make_durable()), reply)
            }
            Op::Fsyncdir { .. } | Op::Syncfs => answer(self.reader.local.make_durable(), reply),
            Op::Opendir { .. } => reply.open(self.readings.open(), 0),
            Op::Releasedir { handle } => {
                self.readings.close(*handle);
                reply.ok();
            }
            Op::Readdir { handle, offset, size } => self.read_directory(file, (*handle, *offset, *size), false, reply),
            Op::Readdirplus { handle, offset, size } => {
                self.read_directory(file, (*handle, *offset, *size), true, reply)
            }
            Op::Access { mask } => answer(self.reader.tree.check_access(&caller(&request), file, *mask), reply),
            Op::Statfs => match self.reader.tree.file_system() {
                Ok(sizes) => reply.statfs(&sizes),
                Err(errno) => reply.error(errno),
            },
            Op::Forget { .. } | Op::BatchForget(_) | Op::Interrupt { .. } => reply.none(),
            Op::Getxattr { .. } | Op::Listxattr { .. } => reply.error(Errno::EOPNOTSUPP),
            Op::Change(asked) => self.change(&request, asked, reply),
            operation => {
                let errno = operation.default_error();
                reply.error(errno);
            }
        }
    }
}

fn answer(outcome: Result<(), Errno>, reply: Reply) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Kernel {
    fn change(&self, request: &Request<'_>, asked: &Asked<'_>, reply: Reply) {
        match asked {
            Asked::Write { offset, data, flags, .. } => match self.write(request, *offset, data, *flags) {
                Ok(()) => reply.written(data.len() as u32),
                Err(errno) => reply.error(errno),
            },
            Asked::Create { name, mode, flags } => self.create_and_open(request, name, (*mode, *flags), reply),
            Asked::SetAttributes(new) => self.answer_attributes(self.set_attributes(request, new), reply),
            Asked::Fallocate { offset, len, mode, .. } => answer(self.allocate(request, *offset, *len, *mode), reply),
            Asked::GetLock(lock) => reply.lock(&Lock { kind: UNLOCKED, ..*lock }),
            _ => match self.change_name(request, asked) {
                Ok(Some(state)) => self.answer_entry(Ok(state), reply),
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
            Asked::SetExtended { .. } | Asked::RemoveExtended { .. } => return Err(Errno::EOPNOTSUPP),
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

    fn carry_out_as(&self, number: &Number<'_>, caller: Caller, operation: Operation) -> Result<Done, Errno> {
        let local = &self.reader.local;
        self.reader.tree.carry_out(&number.change(local.rank, local.now(), caller, operation))
    }

    fn lookup(&self, request: &Request<'_>, name: &[u8]) -> Result<FileState, Errno> {
        let state = self.reader.tree.lookup(&caller(request), place(request.node, name)?)?;
        // What was pending before the question may have been committed since; what is pending now was not.
        if self.files.find(state.file).is_some() { self.state(state.file) } else { Ok(state) }
    }

    fn state(&self, file: FileId) -> Result<FileState, Errno> {
        let pending = self.files.pending(file, 0..0);
        let state = self.reader.tree.state(file)?;
        Ok(FileState { attributes: pending.attributes(&state.attributes), ..state })
    }

    /// A file as this node's programs see it.
    fn seen(&self, state: FileState) -> FileState {
        let pending = self.files.pending(state.file, 0..0);
        FileState { attributes: pending.attributes(&state.attributes), ..state }
    }

    fn answer_entry(&self, state: Result<FileState, Errno>, reply: Reply) {
        match state {
            Ok(state) => reply.entry(&entry(&state)),
            Err(errno) => reply.error(errno),
        }
    }

    fn answer_attributes(&self, state: Result<FileState, Errno>, reply: Reply) {
        match state {
            Ok(state) => reply.attributes(&state.attributes, TTL),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, request: &Request<'_>, flags: u32, reply: Reply) {
        let file = file_of(request.node);
        let allowed = self.reader.tree.check_access(&caller(request), file, wanted(flags));
        match allowed.and_then(|()| self.carry_out(request, Operation::Open { file })) {
            Ok(_) => {
                self.files.open(file);
                reply.open(handle(flags), open_flags(flags));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn create_and_open(&self, request: &Request<'_>, name: &[u8], (mode, flags): (u32, u32), reply: Reply) {
        match self.try_to_create(request, name, mode, flags) {
            Ok(state) => {
                self.files.open(state.file);
                reply.created(&entry(&state), handle(flags), open_flags(flags));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn try_to_create(&self, request: &Request<'_>, name: &[u8], mode: u32, flags: u32) -> Result<FileState, Errno> {
        let (number, caller) = (self.under_way.begin(request), caller(request));
        let file = self.reader.local.new_file();
        let operation = Operation::Create {
            place: place(request.node, name)?,
            file,
            mode: mode & 0o7777 | 0o100_000,
            rdev: 0,
            target: vec![],
            is_opened: true,
            is_exclusive: flags & O_EXCL != 0,
        };
        let Done::File(state) = self.carry_out_as(&number, caller.clone(), operation)? else { return Err(Errno::EIO) };
        // Somebody else was faster: it is opened as it is.
        if state.file != file {
            self.open_found(&caller, state.file, flags)?;
        }
        self.state(state.file)
    }

    /// What a creation found there already is opened, unless the caller may not.
    fn open_found(&self, caller: &Caller, file: FileId, flags: u32) -> Result<(), Errno> {
        let allowed = self.reader.tree.check_access(caller, file, wanted(flags));
        let opened = allowed.and_then(|()| match flags & O_TRUNC {
            0 => Ok(()),
            _ => {
                let changes = AttributeChanges { size_bytes: Some(0), ..AttributeChanges::default() };
                self.commits.carry_out_own(caller, Operation::SetAttributes { file, changes })
            }
        });
        if opened.is_err() {
            self.commits.carry_out_own(caller, Operation::Close { file })?;
        }
        opened
    }

    /// The last descriptor of an open is gone.
    fn close(&self, request: &Request<'_>) -> Result<(), Errno> {
        let file = file_of(request.node);
        self.commit(request, file)?;
        self.files.close(file);
        self.carry_out(request, Operation::Close { file }).map(drop)
    }

    fn write(&self, request: &Request<'_>, offset: u64, data: &[u8], flags: u32) -> Result<(), Errno> {
        let file = file_of(request.node);
        let open = self.files.entry(file);
        if flags & O_APPEND != 0 {
            return self.append(request, &open, data);
        }
        let is_much = {
            let _noting = self.files.noting();
            let extent = self.reader.local.append(file, offset, offset, data)?;
            open.note(extent, self.reader.local.now())
        };
        if is_much { self.commit(request, file) } else { Ok(()) }
    }

    /// Where the end is, the owner says when the write is committed.
    fn append(&self, request: &Request<'_>, open: &OpenFile, data: &[u8]) -> Result<(), Errno> {
        self.commit(request, open.file)?;
        let extent = {
            let _noting = self.files.noting();
            let extent = self.reader.local.append(open.file, APPENDED, 0, data)?;
            open.note_appending(extent);
            extent
        };
        let operation = Operation::Commit { file: open.file, extents: vec![extent], at: CommitAt::End };
        open.append(extent, || self.carry_out(request, operation)).map(drop)
    }

    /// Lets everybody see what this node has written to a file.
    fn commit(&self, request: &Request<'_>, file: FileId) -> Result<(), Errno> {
        let Some(open) = self.files.find(file) else { return Ok(()) };
        self.commits.commit(&open, &Caller { uid: request.uid, gid: request.gid, groups: vec![] })
    }

    fn set_attributes(&self, request: &Request<'_>, new: &NewAttributes) -> Result<FileState, Errno> {
        let file = file_of(request.node);
        // A truncation comes after what was written before it.
        self.commit(request, file)?;
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
            Done::File(state) => Ok(self.seen(state)),
            Done::Nothing => Err(Errno::EIO),
        }
    }

    /// Room need not be reserved: whether there is any is seen when something is written.
    fn allocate(&self, request: &Request<'_>, offset: u64, len: u64, mode: u32) -> Result<(), Errno> {
        let file = file_of(request.node);
        let end = offset.checked_add(len).ok_or(Errno::EFBIG)?;
        match mode {
            KEEP_SIZE => Ok(()),
            0 => {
                if self.state(file)?.attributes.size_bytes < end {
                    let new = NewAttributes { size_bytes: Some(end), handle: Some(0), ..NewAttributes::default() };
                    self.set_attributes(request, &new)?;
                }
                Ok(())
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn read_directory(&self, directory: FileId, (handle, offset, size): (u64, u64, u32), is_plus: bool, reply: Reply) {
        match self.readings.at(handle, offset, || self.reader.tree.list(directory)) {
            Ok(reading) => reply.directory(self.fill(&reading, offset, size, is_plus)),
            Err(errno) => reply.error(errno),
        }
    }

    /// Positions are indexes: 1 and 2 stand behind `.` and `..`, `i + 3` behind entry `i`.
    fn fill(&self, reading: &Entries, offset: u64, size: u32, is_plus: bool) -> DirectoryBuffer {
        let mut buffer = DirectoryBuffer::new(size);
        let dots = [(&b"."[..], node_of(reading.own.file)), (b"..", node_of(reading.parent))];
        for (index, (name, node)) in dots.into_iter().enumerate().skip(offset as usize) {
            let at = index as u64 + 1;
            let fits = match is_plus {
                true => buffer.push_plus(None, node, at, Kind::Directory, name),
                false => buffer.push(node, at, Kind::Directory, name),
            };
            if !fits {
                return buffer;
            }
        }
        let first = offset.saturating_sub(2) as usize;
        for (index, (name, state)) in reading.entries.iter().enumerate().skip(first) {
            let (state, at) = (self.seen(*state), index as u64 + 3);
            let (kind, name) = (state.attributes.kind(), name.as_bytes());
            let fits = match is_plus {
                true => buffer.push_plus(Some(&entry(&state)), node_of(state.file), at, kind, name),
                false => buffer.push(node_of(state.file), at, kind, name),
            };
            if !fits {
                break;
            }
        }
        buffer
    }
}

fn entry(state: &FileState) -> Entry {
    let attributes: Attributes = state.attributes;
    Entry { node: node_of(state.file), generation: 0, attributes, entry_ttl: TTL, attribute_ttl: TTL }
}

fn time(new: NewTime) -> TimeChange {
    match new {
        NewTime::Now => TimeChange::Now,
        NewTime::To(seconds, nanos) => TimeChange::To(Timestamp { seconds, nanos }),
    }
}

/// What of a file an open with these flags needs.
fn wanted(flags: u32) -> u32 {
    let access = match flags & O_ACCMODE {
        O_RDONLY => READ,
        O_RDWR => READ | WRITE,
        _ => WRITE,
    };
    access | if flags & O_TRUNC != 0 { WRITE } else { 0 }
}

/// What the next daemon can know of an open file.
fn handle(flags: u32) -> u64 {
    u64::from(flags)
}

/// Who writes goes past the page cache; who only reads fills it anew with each open.
fn open_flags(flags: u32) -> u32 {
    if flags & O_ACCMODE == O_RDONLY { 0 } else { open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES }
}
