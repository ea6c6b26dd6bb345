//! A node's burst mount as its programs see it: a kernel that speaks FUSE to the node's daemon, and asks the next one what one that
//! has died did not answer.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay_fuse::abi::{
    AttrOut, CreateIn, Dirent, EntryOut, FlushIn, FsyncIn, InHeader, MkdirIn, OpenIn, OpenOut, OutHeader, ReadIn,
    ReleaseIn, Rename2In, SetattrIn, UNIQUE_RESEND, WriteIn, opcode,
};
use forebay_fuse::{Negotiated, ProcessKernel, Session, SessionOptions};
use forebay_types::Errno;
use zerocopy::{FromBytes, IntoBytes};

use crate::reached::{Reach, reached};

/// A valid size in what is asked with SETATTR.
const SIZE: u32 = 1 << 3;

/// The kernel's numbers go up by two.
const NUMBER_STEP: u64 = 2;

const READ_BYTES: u32 = 128 << 10;
const LIST_BYTES: u32 = 4096;

/// A mount.
#[derive(Default)]
pub struct Mount {
    state: Mutex<State>,
    asked: Condvar,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
    queue: VecDeque<u64>,
    /// Of daemons so far.
    daemon: u64,
}

struct Waiting {
    request: Vec<u8>,
    is_taken: bool,
    answer: Option<Result<Vec<u8>, Errno>>,
}

/// The file of a name.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub node: u64,
}

impl Mount {
    /// A session for the next daemon, and its number. Requests that an earlier one has taken and not answered are sent again.
    pub fn attach(self: &Arc<Self>, options: &SessionOptions) -> io::Result<(Session, u64)> {
        let number = {
            let mut state = self.state();
            state.daemon += 1;
            let open: Vec<u64> = state
                .waiting
                .iter()
                .filter(|(_, waiting)| waiting.answer.is_none())
                .map(|(number, _)| *number)
                .collect();
            for waiting in state.waiting.values_mut().filter(|waiting| waiting.answer.is_none() && waiting.is_taken) {
                reached(Reach::RequestOutlivedDaemon);
                let number = UNIQUE_RESEND | number_of(&waiting.request);
                waiting.request[8..16].copy_from_slice(&number.to_ne_bytes());
            }
            state.queue = open.into();
            state.daemon
        };
        let negotiated = Negotiated { minor: 31, flags: 0, offered: 0, max_background: 64, request_bytes_max: 1 << 20 };
        let end = Arc::new(End { mount: Arc::clone(self), number });
        self.asked.notify_all();
        Ok((Session::within(end, negotiated, options)?, number))
    }

    /// A daemon gets nothing more.
    pub fn detach(&self) {
        self.state().daemon += 1;
        self.asked.notify_all();
    }

    /// Drops all requests: no program waits for answers any more.
    pub fn forget(&self) {
        let mut state = self.state();
        state.waiting.clear();
        state.queue.clear();
    }

    /// The next request for a daemon, while it has the mount.
    pub fn next(&self, daemon: u64) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            if state.daemon != daemon {
                return None;
            }
            if let Some(number) = state.queue.pop_front() {
                let Some(waiting) = state.waiting.get_mut(&number) else { continue };
                waiting.is_taken = true;
                return Some(waiting.request.clone());
            }
            state = self.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn ask(&self, code: u32, node: u64, body: &[&[u8]]) -> Result<Vec<u8>, Errno> {
        let body = body.concat();
        let mut state = self.state();
        state.last += NUMBER_STEP;
        let number = state.last;
        let len = (size_of::<InHeader>() + body.len()) as u32;
        let head = InHeader { len, opcode: code, unique: number, nodeid: node, pid: 1, ..InHeader::default() };
        let request = [head.as_bytes(), &body].concat();
        state.waiting.insert(number, Waiting { request, is_taken: false, answer: None });
        state.queue.push_back(number);
        self.asked.notify_all();
        loop {
            if let Some(answer) = state.waiting.get_mut(&number).and_then(|waiting| waiting.answer.take()) {
                state.waiting.remove(&number);
                return answer;
            }
            state = self.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn look_up(&self, directory: u64, name: &str) -> Result<Found, Errno> {
        self.ask(opcode::LOOKUP, directory, &[name.as_bytes(), &[0]]).and_then(|said| entry(&said))
    }

    pub fn make_directory(&self, directory: u64, name: &str) -> Result<Found, Errno> {
        let asked = MkdirIn { mode: 0o755, umask: 0 };
        self.ask(opcode::MKDIR, directory, &[asked.as_bytes(), name.as_bytes(), &[0]]).and_then(|said| entry(&said))
    }

    /// Makes a file, or opens it; its node and handle.
    pub fn create(&self, directory: u64, name: &str, flags: i32) -> Result<(Found, u64), Errno> {
        let flags = flags as u32 | libc::O_CREAT as u32;
        let asked = CreateIn { flags, mode: 0o100_644, umask: 0, open_flags: 0 };
        let said = self.ask(opcode::CREATE, directory, &[asked.as_bytes(), name.as_bytes(), &[0]])?;
        let (_, open) = EntryOut::read_from_prefix(&said).map_err(|_| Errno::EPROTO)?;
        let (open, _) = OpenOut::read_from_prefix(open).map_err(|_| Errno::EPROTO)?;
        Ok((entry(&said)?, open.fh))
    }

    pub fn open(&self, node: u64, flags: i32) -> Result<u64, Errno> {
        let said = self.ask(opcode::OPEN, node, &[OpenIn { flags: flags as u32, open_flags: 0 }.as_bytes()])?;
        OpenOut::read_from_prefix(&said).map(|(open, _)| open.fh).map_err(|_| Errno::EPROTO)
    }

    pub fn write(&self, node: u64, handle: u64, offset: u64, bytes: &[u8], flags: i32) -> Result<(), Errno> {
        let size = bytes.len() as u32;
        let asked = WriteIn { fh: handle, offset, size, flags: flags as u32, ..WriteIn::default() };
        self.ask(opcode::WRITE, node, &[asked.as_bytes(), bytes]).map(drop)
    }

    /// The whole of a file.
    pub fn read(&self, node: u64, handle: u64) -> Result<Vec<u8>, Errno> {
        self.ask(opcode::READ, node, &[ReadIn { fh: handle, size: READ_BYTES, ..ReadIn::default() }.as_bytes()])
    }

    pub fn sync(&self, node: u64, handle: u64) -> Result<(), Errno> {
        self.ask(opcode::FSYNC, node, &[FsyncIn { fh: handle, ..FsyncIn::default() }.as_bytes()]).map(drop)
    }

    /// Closes a handle. Returns whether its writes are visible to all nodes now.
    pub fn close(&self, node: u64, handle: u64, flags: i32) -> Result<(), Errno> {
        let flushed = self.ask(opcode::FLUSH, node, &[FlushIn { fh: handle, ..FlushIn::default() }.as_bytes()]);
        let asked = ReleaseIn { fh: handle, flags: flags as u32, ..ReleaseIn::default() };
        let released = self.ask(opcode::RELEASE, node, &[asked.as_bytes()]);
        flushed.and(released).map(drop)
    }

    pub fn cut_off(&self, node: u64, size: u64) -> Result<(), Errno> {
        let asked = SetattrIn { valid: SIZE, size, ..SetattrIn::default() };
        let said = self.ask(opcode::SETATTR, node, &[asked.as_bytes()])?;
        AttrOut::read_from_prefix(&said).map(drop).map_err(|_| Errno::EPROTO)
    }

    pub fn rename(&self, directory: u64, from: &str, to: &str) -> Result<(), Errno> {
        let asked = Rename2In { newdir: directory, ..Rename2In::default() };
        let names = [from.as_bytes(), &[0], to.as_bytes(), &[0]].concat();
        self.ask(opcode::RENAME2, directory, &[asked.as_bytes(), &names]).map(drop)
    }

    pub fn remove(&self, directory: u64, name: &str) -> Result<(), Errno> {
        self.ask(opcode::UNLINK, directory, &[name.as_bytes(), &[0]]).map(drop)
    }

    /// All names in a directory.
    pub fn list(&self, directory: u64) -> Result<Vec<String>, Errno> {
        let said = self.ask(opcode::OPENDIR, directory, &[OpenIn::default().as_bytes()])?;
        let handle = OpenOut::read_from_prefix(&said).map_err(|_| Errno::EPROTO)?.0.fh;
        let (mut names, mut offset) = (vec![], 0);
        loop {
            let asked = ReadIn { fh: handle, offset, size: LIST_BYTES, ..ReadIn::default() };
            let said = self.ask(opcode::READDIR, directory, &[asked.as_bytes()])?;
            let mut rest = &said[..];
            if rest.is_empty() {
                break;
            }
            while let Ok((found, name)) = Dirent::read_from_prefix(rest) {
                let len = found.namelen as usize;
                let Some(name) = name.get(..len) else { break };
                names.push(String::from_utf8_lossy(name).into_owned());
                offset = found.off;
                rest = rest.get((size_of::<Dirent>() + len).next_multiple_of(8)..).unwrap_or_default();
            }
        }
        let asked = ReleaseIn { fh: handle, ..ReleaseIn::default() };
        self.ask(opcode::RELEASEDIR, directory, &[asked.as_bytes()])?;
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(said: &[u8]) -> Result<Found, Errno> {
    let (entry, _) = EntryOut::read_from_prefix(said).map_err(|_| Errno::EPROTO)?;
    match entry.nodeid {
        0 => Err(Errno::ENOENT),
        node => Ok(Found { node }),
    }
}

fn number_of(request: &[u8]) -> u64 {
    InHeader::read_from_prefix(request).map_or(0, |(head, _)| head.unique)
}

/// A daemon's way to the mount.
struct End {
    mount: Arc<Mount>,
    number: u64,
}

impl ProcessKernel for End {
    fn take(&self, message: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes: Vec<u8> = message.iter().flat_map(|slice| slice.iter().copied()).collect();
        let (head, rest) = OutHeader::read_from_prefix(&bytes).map_err(|_| Errno::EINVAL)?;
        let mut state = self.mount.state();
        if state.daemon != self.number && state.daemon != self.number + 1 {
            return Err(Errno::ENODEV.into());
        }
        // A notification: this kernel keeps no caches.
        if head.unique == 0 {
            return Ok(());
        }
        let waiting = state.waiting.get_mut(&(head.unique & !UNIQUE_RESEND)).ok_or(Errno::ENOENT)?;
        waiting.answer = Some(if head.error == 0 { Ok(rest.to_vec()) } else { Err(Errno::from(-head.error)) });
        drop(state);
        self.mount.answered.notify_all();
        Ok(())
    }
}
