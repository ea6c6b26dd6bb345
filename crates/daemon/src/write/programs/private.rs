//! The kernel's requests on the private mount, where the kernel gathers what programs write in its page cache.
//!
//! The kernel trusts itself there about the size of a file and the time of its last write. So a file belongs to this node from the
//! first open for writing until its programs have closed it (`holds`): other nodes do not open it for writing meanwhile. And the
//! kernel's number of a file says which contents it is about (`forebay_write::hold::identity`): what others have changed is another
//! file to the kernel at its next lookup, while descriptors that are open stay with what they had. Through a number that is
//! not the present one nothing is opened (ESTALE): the kernel looks the name up again, and the program sees nothing of it.
//!
//! Everything else is as on the burst mount, and done by its `Kernel`. Only the prefixes are shown, and what leads there.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use forebay_fuse::{Change as Asked, Entry, Handler, NewAttributes, Operation as Op, Reply, Request, open_flag};
use forebay_types::{Errno, FileId, Kind, NodeRank, ViewPath};
use forebay_wire::write::{Caller, Done, FileState, Operation};
use forebay_write::hold::identity;

use super::holds::{Hold, Holds};
use super::kernel::Kernel;
use super::prefixes::{Prefixes, Ways};
use super::requests::{admit, answer_entry, caller, unserved};
use crate::write::kernel_words::{
    O_APPEND, O_EXCL, file_of as plain_file_of, handle, may_write, node_of, place, wanted,
};

/// How long the kernel may believe attributes of a file that this node holds: what others may still change, such as the mode,
/// is seen after that. Asked for at each write they would cost as much as the writes.
const HELD_TTL: Duration = Duration::from_secs(1);

/// In a handle: the file is read as it is at that time, past the page cache, whichever contents the number is about.
const AS_IT_IS: u64 = 1 << 12;

/// In a handle: it is of the private mount, whose kernel numbers requests for itself.
const OF_PRIVATE: u64 = 1 << 13;

/// Where the parts of a number begin, bits: the file's serial, its creator (`NODES_MAX`), and what tells its contents apart.
const CREATOR_AT: u32 = 32;
const CONTENTS_AT: u32 = 52;

/// The private mount, as its daemon knows it.
pub struct PrivateMount {
    pub prefixes: Arc<Prefixes>,
    /// Where it is, once it is served.
    pub mount: OnceLock<PathBuf>,
    /// Writes that its kernel has sent to this daemon.
    pub writes: Arc<AtomicU64>,
}

impl PrivateMount {
    /// That of these directories; there is none of none.
    pub fn of(paths: Vec<ViewPath>) -> Self {
        Self { prefixes: Arc::new(Prefixes::new(paths)), mount: OnceLock::new(), writes: Arc::default() }
    }
}

/// Takes the requests of the private mount's session.
pub struct PrivateKernel {
    pub kernel: Kernel,
    pub holds: Holds,
    /// Counts writes.
    pub writes: Arc<AtomicU64>,
}

impl Handler for PrivateKernel {
    fn handle(&self, request: Request<'_>, reply: Reply) {
        if let Err(errno) = admit(&self.kernel.joined, &request.operation, || false) {
            return unserved(&request.operation, reply, errno);
        }
        let (file, node) = (file_of(request.node), request.node);
        let plain = Request { node: node_of(file), ..request };
        match &plain.operation {
            Op::Lookup { name } => answer_entry(self.look_up(&plain, name), reply),
            Op::Getattr { .. } => self.get_attributes(file, reply),
            Op::Open { flags } => match self.open(&plain, contents_of(node), *flags) {
                Ok(true) => reply.open(private_handle(&plain, *flags), open_flag::KEEP_CACHE),
                Ok(false) => {
                    let uncached = open_flag::KEEP_CACHE | open_flag::DIRECT_IO;
                    reply.open(private_handle(&plain, *flags) | AS_IT_IS, uncached);
                }
                Err(errno) => reply.error(errno),
            },
            Op::Read { handle, offset, size, .. } => {
                let contents = (handle & AS_IT_IS == 0).then(|| contents_of(node));
                match self.read(file, contents, *offset, *size) {
                    Ok(parts) => reply.gather(&parts),
                    Err(errno) => reply.error(errno),
                }
            }
            Op::Flush { handle, lock_owner } if self.is_lost(node, *handle) => {
                let _ = self.kernel.locking.release(file, *lock_owner, false);
                reply.error(Errno::EIO);
            }
            Op::Fsync { handle, .. } if self.is_lost(node, *handle) => reply.error(Errno::EIO),
            Op::Release { flock_owner, handle } => {
                // That it is refused was told by then; it is closed all the same.
                self.is_lost(node, *handle);
                // The kernel has been answered.
                let _ = self.holds.close(file, || self.kernel.close(&plain, *flock_owner, reply));
            }
            // The kernel has data that it has not sent: it sees no holes.
            Op::Lseek { .. } => reply.error(Errno::ENOSYS),
            Op::Change(_) => self.change(plain, contents_of(node), reply),
            _ => self.kernel.handle(plain, reply),
        }
    }

    fn may_wait(&self, request: &Request<'_>) -> bool {
        let mut plain = as_plain(request);
        // Appends are writes as others here: the file is this node's.
        if let Op::Change(Asked::Write { flags, .. }) = &mut plain.operation {
            *flags &= !O_APPEND;
            if self.kernel.prefixes.are_unknown() {
                return true;
            }
        }
        self.kernel.may_wait(&plain)
    }

    fn hand_over(&self, request: &Request<'_>) -> Box<dyn Send> {
        self.kernel.hand_over(&as_plain(request))
    }
}

/// A request as the kernel of the burst mount would send it.
fn as_plain<'a>(request: &Request<'a>) -> Request<'a> {
    Request { node: node_of(file_of(request.node)), ..request.clone() }
}

impl PrivateKernel {
    fn change(&self, mut plain: Request<'_>, contents: u64, reply: Reply) {
        let file = plain_file_of(plain.node);
        let Op::Change(asked) = &mut plain.operation else { return reply.error(Errno::EIO) };
        match asked {
            Asked::Rename { to_directory, .. } => *to_directory = node_of(file_of(*to_directory)),
            Asked::Link { node, .. } => *node = node_of(file_of(*node)),
            // The kernel knows where the end is: the file is this node's.
            Asked::Write { flags, .. } => {
                self.writes.fetch_add(1, Ordering::Relaxed);
                *flags &= !O_APPEND;
            }
            _ => {}
        }
        let Op::Change(asked) = &plain.operation else { return reply.error(Errno::EIO) };
        let to = match asked {
            Asked::Rename { to_directory, .. } => plain_file_of(*to_directory),
            _ => file,
        };
        match self.kernel.ways().map(|ways| ways.is_above(file) || ways.is_above(to)) {
            Ok(false) => {}
            Ok(true) => return reply.error(Errno::EROFS),
            Err(errno) => return reply.error(errno),
        }
        let refused = match asked {
            Asked::Write { data, .. } => self.is_refused(file, contents).then_some(data.len()),
            Asked::Fallocate { .. } => self.is_refused(file, contents).then_some(0),
            _ => None,
        };
        if let Some(bytes) = refused {
            self.kernel.commits.refused.note(file, bytes as u64);
            return reply.error(Errno::EIO);
        }
        match asked {
            Asked::Create { name, mode, flags } => match self.create(&plain, name, *mode, *flags) {
                Ok(entry) => reply.created(&entry, private_handle(&plain, *flags), open_flag::KEEP_CACHE),
                Err(errno) => reply.error(errno),
            },
            Asked::CreateUnnamed { mode, flags } => match self.create_unnamed(&plain, *mode, *flags) {
                Ok(entry) => reply.created(&entry, private_handle(&plain, *flags), open_flag::KEEP_CACHE),
                Err(errno) => reply.error(errno),
            },
            Asked::SetAttributes(new) => match self.set_attributes(&plain, contents, new) {
                Ok(state) => reply.attributes(&state.attributes, Duration::ZERO),
                Err(errno) => reply.error(errno),
            },
            Asked::Mknod { .. } | Asked::Mkdir { .. } | Asked::Symlink { .. } | Asked::Link { .. } => {
                let made = self.kernel.change_name(&plain, asked).and_then(|state| state.ok_or(Errno::EIO));
                answer_entry(made.and_then(|state| self.entry(&state)), reply);
            }
            _ => self.kernel.handle(plain, reply),
        }
    }

    fn look_up(&self, plain: &Request<'_>, name: &[u8]) -> Result<Entry, Errno> {
        if let Some(file) = self.kernel.files.settled(plain, name) {
            return self.entry(&self.kernel.state(file)?);
        }
        let ways = self.kernel.ways()?;
        ways.check(plain.node, name)?;
        if ways.is_above(plain_file_of(plain.node)) && !ways.leads(plain.node, name) {
            return Err(Errno::ENOENT);
        }
        let place = place(plain.node, name)?;
        let state = self.kernel.reader.tree.lookup(&caller(plain), place)?;
        self.entry(&state)
    }

    /// The kernel's entry for a file, as the tree has it.
    fn entry(&self, state: &FileState) -> Result<Entry, Errno> {
        let held = match state.attributes.kind() {
            Kind::File => self.holds.of(state.file)?,
            _ => None,
        };
        let ttl = if held.is_some() { HELD_TTL } else { Duration::ZERO };
        self.entry_as(state, held.unwrap_or_else(|| identity(state)), ttl)
    }

    fn entry_as(&self, state: &FileState, contents: u64, attribute_ttl: Duration) -> Result<Entry, Errno> {
        let contents = if state.attributes.kind() == Kind::File { contents } else { 0 };
        let ways: &Ways = self.kernel.ways()?;
        Ok(Entry {
            node: number_of(state.file, contents)?,
            generation: contents,
            attributes: self.kernel.seen(*state).attributes,
            entry_ttl: ways.ttl(state.file, Duration::ZERO),
            attribute_ttl,
        })
    }

    fn get_attributes(&self, file: FileId, reply: Reply) {
        let ttl = if self.holds.is_held(file) { HELD_TTL } else { Duration::ZERO };
        match self.kernel.state(file) {
            Ok(state) => reply.attributes(&state.attributes, ttl),
            Err(errno) => reply.error(errno),
        }
    }

    /// Whether the page cache may have what is read: not while another node changes the file. One that is changed all the time would
    /// never be opened otherwise, since the kernel's number of it is never about the contents that are there.
    fn open(&self, plain: &Request<'_>, contents: u64, flags: u32) -> Result<bool, Errno> {
        let file = plain_file_of(plain.node);
        self.kernel.reader.tree.check_access(&caller(plain), file, wanted(flags))?;
        let mut is_open = false;
        let opened = self.holds.wait_for(|| {
            self.holds.open(file, |hold| {
                if !is_open {
                    self.kernel.carry_out(plain, Operation::Open { file })?;
                    is_open = true;
                }
                let (state, present) = self.claim(file, hold, may_write(flags))?;
                match tag_of(present) == contents {
                    is_present if may_write(flags) || hold.is_held() => {
                        is_present.then_some((state, true)).ok_or(Errno::ESTALE)
                    }
                    is_present => Ok((state, is_present && !self.holds.is_elsewhere(file)?)),
                }
            })
        });
        if opened.is_err() && is_open {
            self.holds.with(file, |hold| self.close_again(file, hold));
        }
        let (state, is_cached) = opened?;
        self.kernel.files.open(file, state.attributes.mode, may_write(flags));
        Ok(is_cached)
    }

    /// Of certain contents, if there are any that it must be of.
    fn read(&self, file: FileId, contents: Option<u64>, offset: u64, size: u32) -> Result<Vec<Bytes>, Errno> {
        let (parts, state) = self.kernel.reader.read(&self.kernel.files, file, offset, size as usize)?;
        let Some(contents) = contents.filter(|contents| *contents != tag_of(identity(&state))) else {
            return Ok(parts);
        };
        let held = self.holds.of(file)?;
        if held.is_some_and(|held| tag_of(held) == contents) { Ok(parts) } else { Err(Errno::ESTALE) }
    }

    /// Whether what programs of this node have written, to what the kernel knows by `contents`, is not the file's any more. While the
    /// owner of the tree does not answer nobody knows: it decides when that is committed.
    fn is_refused(&self, file: FileId, contents: u64) -> bool {
        self.holds.keep(file).is_ok_and(|held| held.is_none_or(|held| tag_of(held) != contents))
    }

    /// Whether what was written through a descriptor is nobody's: none of it is pending afterwards.
    fn is_lost(&self, node: u64, handle: u64) -> bool {
        let file = file_of(node);
        if !may_write(handle as u32) || !self.is_refused(file, contents_of(node)) {
            return false;
        }
        if let Some(open) = self.kernel.files.find(file) {
            let _ = self.kernel.commits.clear(&open);
        }
        true
    }

    /// The file as it is, and by which contents the kernel knows it. It is this node's afterwards if it `is_written`.
    fn claim(&self, file: FileId, hold: &mut Hold, is_written: bool) -> Result<(FileState, u64), Errno> {
        let state = self.kernel.reader.tree.state(file)?;
        let held = match self.holds.look(file, hold)? {
            Some(held) => held,
            None if is_written => self.holds.take(file, hold, &state)?,
            None => return Ok((state, identity(&state))),
        };
        Ok((state, held))
    }

    /// Closes a file that was opened a moment ago, and is not after all.
    fn close_again(&self, file: FileId, hold: &mut Hold) {
        let closed = self.kernel.commits.carry_out_own(&Caller::default(), Operation::Close { file, handle: 0 });
        if let Err(errno) = closed {
            tracing::warn!(%errno, %file, "a file that was not opened stays open");
        }
        hold.forget_if_closed();
    }

    /// Another program may have made it since the kernel looked: the kernel looks again then.
    fn create(&self, plain: &Request<'_>, name: &[u8], mode: u32, flags: u32) -> Result<Entry, Errno> {
        let file = self.kernel.reader.local.new_file();
        let operation = Operation::Create {
            place: place(plain.node, name)?,
            file,
            mode: mode & 0o7777 | 0o100_000,
            rdev: 0,
            target: vec![],
            is_opened: true,
            is_exclusive: true,
        };
        let done = self.kernel.carry_out(plain, operation);
        let made = done.map_err(|errno| match errno {
            Errno::EEXIST if flags & O_EXCL == 0 => Errno::ESTALE,
            errno => errno,
        })?;
        // Sent again by the kernel, it has the name that the daemon before gave it.
        let Done::File(FileState { file, .. }) = made else { return Err(Errno::EIO) };
        self.opened_entry(file, flags)
    }

    fn create_unnamed(&self, plain: &Request<'_>, mode: u32, flags: u32) -> Result<Entry, Errno> {
        let made = self.kernel.create_unnamed(plain, (mode, flags))?;
        self.opened_entry(made.file, flags)
    }

    /// A file that a program of this node has just made, and opened by that.
    fn opened_entry(&self, file: FileId, flags: u32) -> Result<Entry, Errno> {
        let (state, held) = self.holds.open(file, |hold| {
            self.claim(file, hold, may_write(flags)).inspect_err(|_| self.close_again(file, hold))
        })?;
        self.kernel.files.open(file, state.attributes.mode, may_write(flags));
        let ttl = if may_write(flags) { HELD_TTL } else { Duration::ZERO };
        self.entry_as(&state, held, ttl)
    }

    /// A truncation takes the file for that time, without opening it: if this daemon dies meanwhile, the next one is asked the same, and
    /// gives it back.
    fn set_attributes(&self, plain: &Request<'_>, contents: u64, new: &NewAttributes) -> Result<FileState, Errno> {
        let file = plain_file_of(plain.node);
        let is_by_writer = new.handle.is_some_and(|handle| may_write(handle as u32));
        if is_by_writer && (new.size_bytes.is_some() || new.mtime.is_some()) && self.is_refused(file, contents) {
            return Err(Errno::EIO);
        }
        if is_kernels_own(new) {
            return self.kernel.set_attributes(&Request { uid: 0, gid: 0, ..plain.clone() }, new);
        }
        if new.size_bytes.is_none() || self.holds.is_held(file) {
            return self.kernel.set_attributes(plain, new);
        }
        self.holds.wait_for(|| {
            self.holds.with(file, |hold| {
                let (_, held) = self.claim(file, hold, true)?;
                let set = match tag_of(held) == contents {
                    true => self.kernel.set_attributes(plain, new),
                    false => Err(Errno::ESTALE),
                };
                self.holds.give_back(file, hold, held)?;
                set
            })
        })
    }
}

fn private_handle(request: &Request<'_>, flags: u32) -> u64 {
    handle(request, flags) | OF_PRIVATE
}

/// Whether the kernel tells when a file was written last, for whoever it was that wrote: `utimensat` comes without a handle.
fn is_kernels_own(new: &NewAttributes) -> bool {
    let times = NewAttributes { handle: new.handle, mtime: new.mtime, ..NewAttributes::default() };
    new.handle.is_some() && new.mtime.is_some() && *new == times
}

/// The kernel's number of a file with certain contents.
///
/// # Errors
/// EOVERFLOW where a node has made more files than there are numbers.
fn number_of(file: FileId, contents: u64) -> Result<u64, Errno> {
    let number = file.serial.checked_add(1).filter(|number| *number < 1 << CREATOR_AT).ok_or(Errno::EOVERFLOW)?;
    Ok(tag_of(contents) << CONTENTS_AT | u64::from(file.creator.0) << CREATOR_AT | number)
}

fn file_of(node: u64) -> FileId {
    let creator = (node >> CREATOR_AT) & ((1 << (CONTENTS_AT - CREATOR_AT)) - 1);
    let number = node & ((1 << CREATOR_AT) - 1);
    FileId { creator: NodeRank(creator as u32), serial: number.wrapping_sub(1) & ((1 << CREATOR_AT) - 1) }
}

/// Of a number, which contents it is about.
fn contents_of(node: u64) -> u64 {
    node >> CONTENTS_AT
}

/// The part of contents' identity that is in a number; all of it is in the generation.
fn tag_of(contents: u64) -> u64 {
    contents & ((1 << (u64::BITS - CONTENTS_AT)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_file_and_contents() {
        for (creator, serial) in [(0, 0), (0, 1), (1, 0), ((1 << 20) - 1, (1 << 32) - 2)] {
            let file = FileId { creator: NodeRank(creator), serial };
            for contents in [0, 1, 0xfff, u64::MAX] {
                let node = number_of(file, contents).unwrap();
                assert_eq!((file_of(node), contents_of(node)), (file, tag_of(contents)));
            }
        }
        let root = FileId { creator: NodeRank(0), serial: 0 };
        assert_eq!(number_of(root, 0), Ok(1));
        assert_eq!(number_of(FileId { serial: (1 << 32) - 1, ..root }, 0), Err(Errno::EOVERFLOW));
    }
}
