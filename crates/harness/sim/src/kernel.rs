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
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Extent, Generation, Time, Timestamp, ViewPath};
use tokio::sync::oneshot;
use zerocopy::{FromBytes, IntoBytes};

use crate::contents;
use crate::world::World;

/// What a directory's reader takes at once: small, so that it goes on from many positions.
const DIRECTORY_BYTES: u32 = 512;

const PAGE_BYTES: u64 = 4096;

/// A kernel.
pub(crate) struct Kernel {
    world: Arc<World>,
    state: Mutex<State>,
    session: Mutex<Option<Take>>,
}

type Take = Arc<dyn Fn(&[u8]) + Send + Sync>;

#[derive(Default)]
struct State {
    next_unique: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// What names lead to, and until when that may be believed; `None` for nothing.
    names: BTreeMap<(u64, Vec<u8>), (Option<Inode>, Time)>,
    paths: BTreeMap<u64, ViewPath>,
    generations: BTreeMap<u64, Generation>,
    pages: BTreeMap<u64, BTreeSet<u64>>,
    /// Pages that were asked for.
    asked: BTreeMap<u64, BTreeSet<u64>>,
    killed: Vec<u32>,
}

/// A request that waits for its answer.
struct Waiting {
    answer: oneshot::Sender<Result<Vec<u8>, Errno>>,
    /// The name that is looked up.
    looked_up: Option<(u64, Vec<u8>)>,
}

/// What a name leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub node: u64,
    pub generation: Generation,
    pub mode: u32,
}

impl Kernel {
    /// The kernel, and the session with it.
    pub fn new(world: &Arc<World>) -> io::Result<(Arc<Self>, Arc<Session>)> {
        let paths = BTreeMap::from([(ROOT_NODE, ViewPath::root())]);
        let state = Mutex::new(State { paths, ..State::default() });
        let kernel = Arc::new(Self { world: Arc::clone(world), state, session: Mutex::default() });
        let negotiated = Negotiated { minor: 31, flags: 0, offered: 0, max_background: 64, request_bytes_max: 1 << 20 };
        let end = Arc::new(End(Arc::downgrade(&kernel)));
        let session = Session::within(end, negotiated, &SessionOptions::default())?;
        Ok((kernel, Arc::new(session)))
    }

    /// It is mounted: what it asks is handled.
    pub fn mount(&self, session: &Arc<Session>, handler: Arc<impl Handler>) {
        let session = Arc::clone(session);
        let take: Take = Arc::new(move |request: &[u8]| session.take(request, &*handler));
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(take);
    }

    /// It is no longer.
    pub fn unmount(&self) {
        drop(self.session.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// What a name in a directory leads to, for task `pid`.
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

    /// The names in a directory.
    pub async fn read_directory(&self, pid: u32, node: u64) -> Result<Vec<Vec<u8>>, Errno> {
        let (mut names, mut offset) = (Vec::new(), 0);
        loop {
            let read = ReadIn { offset, size: DIRECTORY_BYTES, ..ReadIn::default() };
            let some = self.ask(pid, opcode::READDIR, node, read.as_bytes(), None).await?;
            if some.is_empty() {
                return Ok(names);
            }
            for (name, next) in entries_of(&some) {
                offset = next;
                names.extend((name != b"." && name != b"..").then(|| name.to_vec()));
            }
        }
    }

    /// Whoever waits as task `pid` is killed: the daemon hears of it by an interrupt.
    pub fn kill(&self, pid: u32, unique: u64) {
        self.state().killed.push(pid);
        let interrupt = InterruptIn { unique };
        self.send(0, opcode::INTERRUPT, 0, pid, interrupt.as_bytes());
    }

    /// Whether a task is being killed.
    pub fn is_being_killed(&self, pid: u32) -> bool {
        self.state().killed.contains(&pid)
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
            state.waiting.insert(unique, Waiting { answer: sender, looked_up });
            unique
        };
        self.send(unique, code, node, pid, body);
        // Its daemon is gone.
        answer.await.unwrap_or(Err(Errno::ENOTCONN))
    }

    fn send(&self, unique: u64, code: u32, node: u64, pid: u32, body: &[u8]) {
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let head = InHeader { len, opcode: code, unique, nodeid: node, pid, ..InHeader::default() };
        let take = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(take) = take {
            take(&[head.as_bytes(), body].concat());
        }
    }

    fn take_answer(&self, unique: u64, error: i32, bytes: Vec<u8>) -> io::Result<()> {
        let mut state = self.state();
        let Some(Waiting { answer, looked_up }) = state.waiting.remove(&unique) else {
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
        // Whoever waited may have been killed.
        let _ = answer.send(outcome);
        Ok(())
    }

    fn take_notification(&self, code: i32, bytes: &[u8]) -> io::Result<()> {
        match code {
            notify_code::INVAL_ENTRY => {
                let (head, name) = NotifyInvalEntryOut::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
                let key = (head.parent, name[..head.namelen as usize].to_vec());
                self.state().names.remove(&key).map(drop).ok_or(Errno::ENOENT.into())
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
        if !contents::are_right(bytes, path, generation, extent) {
            self.world.note_wrong(format!("a kernel is given wrong pages of {path} at {offset_bytes}"));
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
struct End(Weak<Kernel>);

impl ProcessKernel for End {
    fn take(&self, message: &[IoSlice<'_>]) -> io::Result<()> {
        let kernel = self.0.upgrade().ok_or(Errno::ENODEV)?;
        let bytes: Vec<u8> = message.iter().flat_map(|slice| slice.iter().copied()).collect();
        let (head, rest) = OutHeader::read_from_prefix(&bytes).map_err(|_| Errno::EINVAL)?;
        match head.unique {
            0 => kernel.take_notification(head.error, rest),
            unique => kernel.take_answer(unique, head.error, rest.to_vec()),
        }
    }
}

/// What a name leads to, and for how long that may be believed.
fn entry_of(bytes: &[u8]) -> (Option<Inode>, Duration) {
    let Ok((entry, _)) = EntryOut::read_from_prefix(bytes) else { return (None, Duration::ZERO) };
    let ttl = Duration::new(entry.entry_valid, entry.entry_valid_nsec);
    let inode = Inode { node: entry.nodeid, generation: generation_of(&entry.attr), mode: entry.attr.mode };
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

/// The names in an answer to a directory's reader, each with where to go on behind it.
fn entries_of(mut bytes: &[u8]) -> Vec<(&[u8], u64)> {
    let mut entries = Vec::new();
    while let Ok((entry, rest)) = Dirent::read_from_prefix(bytes) {
        let len = entry.namelen as usize;
        entries.push((&rest[..len], entry.off));
        bytes = &rest[len.next_multiple_of(8).min(rest.len())..];
    }
    entries
}
