//! The kernel of one life of a node: it speaks FUSE to the daemon's session, remembers names for as long as it is told and
//! forgets them when it is told, keeps pages, and looks at every one that it is given.
//!
//! It sends what a kernel sends for a lookup, a read, a link and a directory; programs wait for the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use forebay_fuse::abi::{
    Attr, Dirent, EntryOut, InHeader, InterruptIn, NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyStoreOut, OutHeader,
    ReadIn, notify_code, opcode,
};
use forebay_fuse::{Handler, Negotiated, ProcessKernel, ROOT_NODE, Session, SessionOptions};
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Extent, Generation, Kind, Time, Timestamp, ViewPath};
use tokio::sync::oneshot;
use zerocopy::{FromBytes, IntoBytes};

use crate::check::Check;
use crate::contents;
use crate::reached::Reach;
use crate::world::World;

/// Bytes that a directory's reader takes at a time: small, so that it goes on from many positions.
const DIRECTORY_BYTES: u32 = 512;

const PAGE_BYTES: u64 = 4096;

/// A kernel.
pub(crate) struct Kernel {
    world: Arc<World>,
    state: Mutex<State>,
    session: Mutex<Attached>,
}

/// The daemon that a kernel asks, and how many it has had.
#[derive(Default)]
struct Attached {
    take: Option<Take>,
    number: u64,
}

type Take = Arc<dyn Fn(&[u8]) + Send + Sync>;

#[derive(Default)]
struct State {
    next_unique: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// The inodes of names, and until when each may be believed; `None` for absences.
    names: BTreeMap<(u64, Vec<u8>), (Option<Inode>, Time)>,
    paths: BTreeMap<u64, ViewPath>,
    generations: BTreeMap<u64, Generation>,
    pages: BTreeMap<u64, BTreeSet<u64>>,
    /// Pages that were asked for.
    asked: BTreeMap<u64, BTreeSet<u64>>,
    killed: Vec<u32>,
    hides_programs: bool,
}

/// A request that waits for its answer.
struct Waiting {
    /// As it was sent, for the next daemon if this one dies.
    request: Vec<u8>,
    pid: u32,
    answer: oneshot::Sender<Result<Vec<u8>, Errno>>,
    /// The name that is looked up.
    looked_up: Option<(u64, Vec<u8>)>,
}

/// The inode of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub node: u64,
    pub generation: Generation,
    pub mode: u32,
    pub nlink: u32,
}

impl Inode {
    /// The root, of which a kernel knows from the beginning.
    pub fn root() -> Self {
        let mode = u32::from(Kind::Directory.dirent()) << 12;
        Self { node: ROOT_NODE, generation: Generation::default(), mode, nlink: 1 }
    }

    pub fn kind(&self) -> Option<Kind> {
        Kind::from_mode(self.mode)
    }
}

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct Listed {
    pub name: Vec<u8>,
    pub ino: u64,
    pub kind: u32,
    /// Its inode, where the listing said so.
    pub inode: Option<Inode>,
}

impl Kernel {
    /// A kernel that has no daemon yet.
    pub fn new(world: &Arc<World>) -> Arc<Self> {
        let paths = BTreeMap::from([(ROOT_NODE, ViewPath::root())]);
        let state = Mutex::new(State { paths, ..State::default() });
        Arc::new(Self { world: Arc::clone(world), state, session: Mutex::default() })
    }

    /// A session for its next daemon.
    pub fn session(self: &Arc<Self>) -> io::Result<Arc<Session>> {
        let number = {
            let mut attached = self.attached();
            attached.number += 1;
            attached.number
        };
        let negotiated = Negotiated { minor: 31, flags: 0, offered: 0, max_background: 64, request_bytes_max: 1 << 20 };
        let end = Arc::new(End { kernel: Arc::downgrade(self), number });
        Ok(Arc::new(Session::within(end, negotiated, &SessionOptions::default())?))
    }

    /// The handler gets the kernel's requests from now on, first those that it sent to a daemon before.
    pub fn attach(&self, session: &Arc<Session>, handler: Arc<impl Handler>) {
        let session = Arc::clone(session);
        let take: Take = Arc::new(move |request: &[u8]| session.take(request, &handler));
        self.attached().take = Some(Arc::clone(&take));
        let asked: Vec<(u64, Vec<u8>, u32)> = {
            let state = self.state();
            state.waiting.iter().map(|(unique, waiting)| (*unique, waiting.request.clone(), waiting.pid)).collect()
        };
        for (unique, request, pid) in asked {
            self.world.note_reached(Reach::RequestOutlivedDaemon);
            take(&request);
            if self.is_being_killed(pid) {
                self.send(0, opcode::INTERRUPT, 0, pid, InterruptIn { unique }.as_bytes());
            }
        }
    }

    /// Its daemon is gone: what it still says is not heard, and what was asked of it waits for the next.
    pub fn detach(&self) {
        let mut attached = self.attached();
        attached.number += 1;
        let gone = attached.take.take();
        drop(attached);
        drop(gone);
    }

    fn attached(&self) -> MutexGuard<'_, Attached> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The inode of a name in a directory, for task `pid`.
    pub async fn look_up(&self, pid: u32, parent: u64, name: &[u8]) -> Result<Option<Inode>, Errno> {
        let key = (parent, name.to_vec());
        let now = self.world.now();
        if let Some((inode, _)) = self.state().names.get(&key).filter(|(_, until)| now < *until) {
            return Ok(*inode);
        }
        let answer = self.ask(pid, opcode::LOOKUP, parent, &[name, &[0]].concat(), Some(key)).await;
        match answer {
            Ok(entry) => Ok(entry_of(&entry).0),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Where a symbolic link leads.
    pub async fn read_link(&self, pid: u32, node: u64) -> Result<Vec<u8>, Errno> {
        self.ask(pid, opcode::READLINK, node, &[], None).await
    }

    /// Reads the pages of an extent, as far as the file goes, unless they are here; whether all that came are right. A kernel asks
    /// for as much as a chunk has at once, and a page once.
    pub async fn read(&self, pid: u32, inode: Inode, extent: Extent) -> Result<bool, Errno> {
        let Inode { node, generation, .. } = inode;
        let extent = extent.clamped(generation.size_bytes);
        let pages = extent.offset_bytes / PAGE_BYTES..extent.end_bytes().div_ceil(PAGE_BYTES);
        let missing = || self.state().missing_pages(node, pages.clone());
        while let Some(missing) = missing() {
            self.note_pages_asked_twice(node, missing.clone());
            let offset = missing.start * PAGE_BYTES;
            let read = ReadIn { offset, size: ((missing.end * PAGE_BYTES) - offset) as u32, ..ReadIn::default() };
            let bytes = self.ask(pid, opcode::READ, node, read.as_bytes(), None).await?;
            let len_bytes = (missing.end * PAGE_BYTES).min(generation.size_bytes) - offset;
            if bytes.len() as u64 != len_bytes || !self.keep_pages(node, offset, &bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads an extent past the pages, as far as the file goes; whether what came is right.
    pub async fn read_direct(&self, pid: u32, inode: Inode, extent: Extent) -> Result<bool, Errno> {
        let extent = extent.clamped(inode.generation.size_bytes);
        let (mut at, end) = (extent.offset_bytes, extent.end_bytes());
        while at < end {
            let piece = Extent { offset_bytes: at, len_bytes: (end - at).min(CHUNK_BYTES) };
            let read = ReadIn { offset: at, size: piece.len_bytes as u32, ..ReadIn::default() };
            let pages = at / PAGE_BYTES..piece.end_bytes().div_ceil(PAGE_BYTES);
            self.note_pages_asked_twice(inode.node, pages);
            let bytes = self.ask(pid, opcode::READ, inode.node, read.as_bytes(), None).await?;
            if bytes.len() as u64 != piece.len_bytes || !contents::are_right(&bytes, &inode.generation, piece) {
                return Ok(false);
            }
            at = piece.end_bytes();
        }
        self.world.note_reached(Reach::DirectRead);
        Ok(true)
    }

    /// The names in a directory, with what they lead to where that is asked for.
    pub async fn read_directory(&self, pid: u32, node: u64, plus: bool) -> Result<Vec<Listed>, Errno> {
        let (code, size) =
            if plus { (opcode::READDIRPLUS, 4 * DIRECTORY_BYTES) } else { (opcode::READDIR, DIRECTORY_BYTES) };
        let (mut all, mut offset) = (Vec::new(), 0);
        loop {
            let read = ReadIn { offset, size, ..ReadIn::default() };
            let some = self.ask(pid, code, node, read.as_bytes(), None).await?;
            if some.is_empty() {
                return Ok(all);
            }
            for (listed, ttl, next) in entries_of(&some, plus) {
                offset = next;
                if listed.name == b"." || listed.name == b".." {
                    continue;
                }
                if listed.inode.is_some() {
                    let key = (node, listed.name.clone());
                    let mut state = self.state();
                    state.know(&key, listed.inode);
                    state.names.insert(key, (listed.inode, self.world.now().after(ttl)));
                }
                all.push(listed);
            }
        }
    }

    /// Sends a signal to the waiter of task `pid`: the daemon hears of the first one by an interrupt, and of no other.
    pub fn signal(&self, pid: u32, unique: u64) {
        let interrupt = InterruptIn { unique };
        self.send(0, opcode::INTERRUPT, 0, pid, interrupt.as_bytes());
    }

    /// The signal that a task gets is one that ends it.
    pub fn kill(&self, pid: u32) {
        self.state().killed.push(pid);
    }

    /// Whether a task is being killed.
    pub fn is_being_killed(&self, pid: u32) -> bool {
        self.state().killed.contains(&pid)
    }

    /// Lets its daemons see no program from now on.
    pub fn hide_programs(&self) {
        self.state().hides_programs = true;
    }

    /// Whether a daemon sees that a task is being killed.
    pub fn is_seen_being_killed(&self, pid: u32) -> bool {
        !self.state().hides_programs && self.is_being_killed(pid)
    }

    /// The number that the next request will have.
    pub fn next_unique(&self) -> u64 {
        self.state().next_unique + 1
    }

    async fn ask(
        &self,
        pid: u32,
        code: u32,
        node: u64,
        body: &[u8],
        looked_up: Option<(u64, Vec<u8>)>,
    ) -> Result<Vec<u8>, Errno> {
        let (sender, answer) = oneshot::channel();
        let unique = {
            let mut state = self.state();
            state.next_unique += 1;
            let unique = state.next_unique;
            let request = request_of(unique, code, node, pid, body);
            state.waiting.insert(unique, Waiting { request, pid, answer: sender, looked_up });
            unique
        };
        self.send(unique, code, node, pid, body);
        // The host is gone.
        answer.await.unwrap_or(Err(Errno::ENOTCONN))
    }

    fn send(&self, unique: u64, code: u32, node: u64, pid: u32, body: &[u8]) {
        let take = self.attached().take.clone();
        if let Some(take) = take {
            take(&request_of(unique, code, node, pid, body));
        }
    }

    fn take_answer(&self, unique: u64, error: i32, bytes: Vec<u8>) -> io::Result<()> {
        let mut state = self.state();
        let Some(Waiting { answer, looked_up, .. }) = state.waiting.remove(&unique) else {
            return Err(Errno::ENOENT.into());
        };
        let outcome = if error == 0 { Ok(bytes) } else { Err(Errno::from(-error)) };
        if let (Some(key), Ok(entry)) = (looked_up, &outcome) {
            let (inode, ttl) = entry_of(entry);
            state.know(&key, inode);
            let until = self.world.now().after(ttl);
            state.names.insert(key, (inode, until));
        }
        drop(state);
        // The waiter may have been killed.
        let _ = answer.send(outcome);
        Ok(())
    }

    fn take_notification(&self, code: i32, bytes: &[u8]) -> io::Result<()> {
        match code {
            notify_code::INVAL_ENTRY => {
                let (head, name) = NotifyInvalEntryOut::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
                let key = (head.parent, name[..head.namelen as usize].to_vec());
                if self.state().forget(&key) { Ok(()) } else { Err(Errno::ENOENT.into()) }
            }
            notify_code::STORE => {
                let (head, pages) = NotifyStoreOut::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
                let is_known = self.state().paths.contains_key(&head.nodeid);
                if !is_known {
                    return Err(Errno::ENOENT.into());
                }
                self.keep_pages(head.nodeid, head.offset, pages);
                Ok(())
            }
            notify_code::INVAL_INODE => {
                let (head, _) = NotifyInvalInodeOut::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
                self.state().pages.remove(&head.ino).map(drop).ok_or(Errno::ENOENT.into())
            }
            _ => Ok(()),
        }
    }

    /// Two programs may ask for a page at the same time here, where a real kernel lets the second wait for the first. A daemon that
    /// keeps chunks for its kernel alone drops those of which it has read as much as there is: so it may read one again.
    fn note_pages_asked_twice(&self, node: u64, pages: Range<u64>) {
        let mut state = self.state();
        let asked = state.asked.entry(node).or_default();
        let twice: Vec<u64> = pages.clone().filter(|page| !asked.insert(*page)).collect();
        if let (Some(file), Some(generation)) = (state.paths.get(&node), state.generations.get(&node)) {
            let chunk = |page| contents::chunk_name(file, generation, ChunkIndex(page * PAGE_BYTES / CHUNK_BYTES));
            self.world.state().asked_by_kernels_twice.extend(twice.into_iter().map(chunk));
        }
    }

    /// Keeps pages that are those of the inode, as they must be. Whether they are.
    fn keep_pages(&self, node: u64, offset_bytes: u64, bytes: &[u8]) -> bool {
        let mut state = self.state();
        let (Some(path), Some(generation)) = (state.paths.get(&node), state.generations.get(&node)) else {
            return false;
        };
        let extent = Extent { offset_bytes, len_bytes: bytes.len() as u64 };
        if !contents::are_right(bytes, generation, extent) {
            let what = format!("a kernel is given wrong pages of {path} at {offset_bytes}");
            self.world.note_wrong(Check::Contents, &what);
            return false;
        }
        let pages = offset_bytes / PAGE_BYTES..extent.end_bytes().div_ceil(PAGE_BYTES);
        state.pages.entry(node).or_default().extend(pages);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The first of some pages that are not here, as many as are asked for at once.
    fn missing_pages(&self, node: u64, mut pages: Range<u64>) -> Option<Range<u64>> {
        let is_here = |page: &u64| self.pages.get(&node).is_some_and(|here| here.contains(page));
        let first = pages.find(|page| !is_here(page))?;
        let last =
            (first + 1..pages.end.min(first + CHUNK_BYTES / PAGE_BYTES)).take_while(|page| !is_here(page)).last();
        Some(first..last.unwrap_or(first) + 1)
    }

    /// Forgets a name, and all names below it, absent ones too. Whether it was known.
    fn forget(&mut self, key: &(u64, Vec<u8>)) -> bool {
        let Some((led_to, _)) = self.names.remove(key) else { return false };
        let mut gone: Vec<u64> = led_to.into_iter().map(|inode| inode.node).collect();
        while let Some(dir) = gone.pop() {
            let below = self.names.extract_if(.., |(parent, _), _| *parent == dir);
            gone.extend(below.filter_map(|(_, (led_to, _))| Some(led_to?.node)));
        }
        true
    }

    fn know(&mut self, (parent, name): &(u64, Vec<u8>), inode: Option<Inode>) {
        if let (Some(inode), Some(dir)) = (inode, self.paths.get(parent))
            && let Ok(path) = dir.join(name)
        {
            self.paths.insert(inode.node, path);
            self.generations.insert(inode.node, inode.generation);
        }
    }
}

/// The session's way to the kernel, which does not hold it.
struct End {
    kernel: Weak<Kernel>,
    /// Of which of its daemons.
    number: u64,
}

impl ProcessKernel for End {
    fn take(&self, message: &[IoSlice<'_>]) -> io::Result<()> {
        let kernel = self.kernel.upgrade().ok_or(Errno::ENODEV)?;
        if kernel.attached().number != self.number {
            return Err(Errno::ENODEV.into());
        }
        let bytes: Vec<u8> = message.iter().flat_map(|slice| slice.iter().copied()).collect();
        let (head, rest) = OutHeader::read_from_prefix(&bytes).map_err(|_| Errno::EINVAL)?;
        match head.unique {
            0 => kernel.take_notification(head.error, rest),
            unique => kernel.take_answer(unique, head.error, rest.to_vec()),
        }
    }
}

fn request_of(unique: u64, code: u32, node: u64, pid: u32, body: &[u8]) -> Vec<u8> {
    let len = (size_of::<InHeader>() + body.len()) as u32;
    let head = InHeader { len, opcode: code, unique, nodeid: node, pid, ..InHeader::default() };
    [head.as_bytes(), body].concat()
}

/// The inode of a name, and for how long it may be believed.
fn entry_of(bytes: &[u8]) -> (Option<Inode>, Duration) {
    let Ok((entry, _)) = EntryOut::read_from_prefix(bytes) else { return (None, Duration::ZERO) };
    let ttl = Duration::new(entry.entry_valid, entry.entry_valid_nsec);
    let Attr { mode, nlink, .. } = entry.attr;
    let inode = Inode { node: entry.nodeid, generation: generation_of(&entry.attr), mode, nlink };
    ((entry.nodeid != 0).then_some(inode), ttl)
}

fn generation_of(attr: &Attr) -> Generation {
    let time = |seconds: u64, nanos: u32| Timestamp { seconds: seconds as i64, nanos };
    Generation {
        size_bytes: attr.size,
        mtime: time(attr.mtime, attr.mtimensec),
        ctime: time(attr.ctime, attr.ctimensec),
        ino: attr.ino,
    }
}

/// The names in an answer to a directory's reader, each with how long it may be believed and where to go on behind it.
fn entries_of(mut bytes: &[u8], plus: bool) -> Vec<(Listed, Duration, u64)> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let (inode, ttl) = if plus { entry_of(bytes) } else { (None, Duration::ZERO) };
        let head_bytes = if plus { size_of::<EntryOut>() } else { 0 };
        let Ok((entry, rest)) = Dirent::read_from_prefix(&bytes[head_bytes..]) else { break };
        let len = entry.namelen as usize;
        let listed = Listed { name: rest[..len].to_vec(), ino: entry.ino, kind: entry.kind, inode };
        entries.push((listed, ttl, entry.off));
        let entry_bytes = (head_bytes + size_of::<Dirent>() + len).next_multiple_of(8);
        bytes = &bytes[entry_bytes.min(bytes.len())..];
    }
    entries
}
