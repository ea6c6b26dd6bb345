//! A small file system in memory that answers as Forebay does: for ever, unless told otherwise.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use forebay_fuse::{DirectoryBuffer, Entry, Handler, Operation, ROOT_NODE, Reply, Request, open_flag};
use forebay_types::{Attributes, Errno, FileSystem, Kind, Timestamp};

/// The command of the ioctl that the root answers: `_IOWR('F', 1, [u8; 8])`.
pub const IOCTL_REVERSE: u32 = 3 << 30 | 8 << 16 | (b'F' as u32) << 8 | 1;

/// A block count that no other file system has.
pub const BLOCKS: u64 = 123_457;

const HANDLE: u64 = 0x0123_4567_89ab_cdef;

enum Content {
    File(Bytes),
    Directory(BTreeMap<Vec<u8>, u64>),
    Symlink(Vec<u8>),
}

struct Node {
    attributes: Attributes,
    content: Content,
}

/// The file system. Nodes are numbered in the order they are added, from 1, the root.
pub struct Tree {
    nodes: Mutex<HashMap<u64, Node>>,
    ttl: Duration,
    opens: AtomicBool,
    held: Mutex<Held>,
    changed: Condvar,
}

/// Reads that are not answered until they are released or interrupted.
#[derive(Default)]
struct Held {
    node: Option<u64>,
    replies: HashMap<u64, Reply>,
    interrupted: Vec<u64>,
}

impl Tree {
    pub fn new() -> Self {
        let root =
            Node { attributes: attributes(ROOT_NODE, 0o040_755, 0), content: Content::Directory(BTreeMap::new()) };
        Self {
            nodes: Mutex::new(HashMap::from([(ROOT_NODE, root)])),
            ttl: Duration::MAX,
            opens: AtomicBool::new(false),
            held: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub fn file(&self, parent: u64, name: &str, mode: u32, bytes: impl Into<Bytes>) -> u64 {
        let bytes = bytes.into();
        self.add(parent, name, 0o100_000 | mode, bytes.len() as u64, Content::File(bytes))
    }

    pub fn directory(&self, parent: u64, name: &str) -> u64 {
        self.add(parent, name, 0o040_755, 0, Content::Directory(BTreeMap::new()))
    }

    pub fn symlink(&self, parent: u64, name: &str, target: &str) -> u64 {
        self.add(parent, name, 0o120_777, target.len() as u64, Content::Symlink(target.into()))
    }

    /// Answers OPEN with a handle and expects it back from then on.
    pub fn answer_opens(&self) {
        self.opens.store(true, Ordering::SeqCst);
    }

    /// Takes a name away.
    pub fn remove(&self, parent: u64, name: &str) {
        if let Content::Directory(entries) = &mut self.nodes.lock().unwrap().get_mut(&parent).unwrap().content {
            entries.remove(name.as_bytes());
        }
    }

    /// Gives a file other bytes.
    pub fn rewrite(&self, node: u64, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        let mut nodes = self.nodes.lock().unwrap();
        let node = nodes.get_mut(&node).unwrap();
        node.attributes.size_bytes = bytes.len() as u64;
        node.content = Content::File(bytes);
    }

    pub fn with_attributes(&self, node: u64, change: impl FnOnce(&mut Attributes)) {
        change(&mut self.nodes.lock().unwrap().get_mut(&node).unwrap().attributes);
    }

    /// Leaves reads of `node` unanswered from now on; `None` answers again (but not those already held).
    pub fn hold_reads(&self, node: Option<u64>) {
        self.held.lock().unwrap().node = node;
    }

    /// Fails the reads that are held, and answers those that come from now on: the kernel may ask once more.
    pub fn fail_held(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        held.replies.into_values().for_each(|reply| reply.error(Errno::EIO));
    }

    /// Waits for a read to be held and returns its number.
    pub fn wait_held(&self) -> u64 {
        self.wait_for(|held| held.replies.keys().next().copied())
    }

    /// Waits until so many reads are held.
    pub fn wait_held_count(&self, count: usize) {
        self.wait_for(|held| (held.replies.len() == count).then_some(()));
    }

    /// Waits for an INTERRUPT of request `unique`.
    pub fn wait_interrupted(&self, unique: u64) {
        self.wait_for(|held| held.interrupted.contains(&unique).then_some(()));
    }

    fn wait_for<T>(&self, mut found: impl FnMut(&Held) -> Option<T>) -> T {
        let mut value = None;
        let guard = self.held.lock().unwrap();
        let waited = self.changed.wait_timeout_while(guard, crate::fixture::DEADLINE, |held| {
            value = found(held);
            value.is_none()
        });
        drop(waited.unwrap());
        value.expect("it happens before the deadline")
    }

    fn add(&self, parent: u64, name: &str, mode: u32, size_bytes: u64, content: Content) -> u64 {
        let mut nodes = self.nodes.lock().unwrap();
        let number = nodes.len() as u64 + 1;
        nodes.insert(number, Node { attributes: attributes(number, mode, size_bytes), content });
        match &mut nodes.get_mut(&parent).unwrap().content {
            Content::Directory(entries) => entries.insert(name.into(), number),
            _ => panic!("parent is no directory"),
        };
        number
    }

    fn entry(&self, node: u64, attributes: Attributes) -> Entry {
        Entry { node, generation: 0, attributes, entry_ttl: self.ttl, attribute_ttl: self.ttl }
    }

    fn lookup(&self, parent: u64, name: &[u8], reply: Reply) {
        let nodes = self.nodes.lock().unwrap();
        let child = match nodes.get(&parent).map(|node| &node.content) {
            Some(Content::Directory(entries)) => entries.get(name).copied(),
            _ => return reply.error(Errno::ENOTDIR),
        };
        match child {
            Some(child) => reply.entry(&self.entry(child, nodes[&child].attributes)),
            None => reply.negative(self.ttl),
        }
    }

    fn list(&self, node: u64, offset: u64, size: u32, plus: bool, reply: Reply) {
        let nodes = self.nodes.lock().unwrap();
        let Some(Content::Directory(entries)) = nodes.get(&node).map(|node| &node.content) else {
            return reply.error(Errno::ENOTDIR);
        };
        let mut buffer = DirectoryBuffer::new(size);
        let dots = [(&b"."[..], None), (b"..", None)].into_iter();
        let all = dots.chain(entries.iter().map(|(name, child)| (name.as_slice(), Some(*child))));
        for (index, (name, child)) in all.enumerate().skip(offset as usize) {
            let kind = child.map_or(Kind::Directory, |child| nodes[&child].attributes.kind());
            let ino = child.unwrap_or(node);
            let entry = child.map(|child| self.entry(child, nodes[&child].attributes));
            let next = index as u64 + 1;
            let fits = match plus {
                true => buffer.push_plus(entry.as_ref(), ino, next, kind, name),
                false => buffer.push(ino, next, kind, name),
            };
            if !fits {
                break;
            }
        }
        reply.directory(buffer);
    }

    fn read(&self, request: &Request<'_>, offset: u64, size: u32, reply: Reply) {
        let mut held = self.held.lock().unwrap();
        if held.node == Some(request.node) {
            held.replies.insert(request.unique, reply);
            self.changed.notify_all();
            return;
        }
        drop(held);
        let nodes = self.nodes.lock().unwrap();
        let Some(Content::File(bytes)) = nodes.get(&request.node).map(|node| &node.content) else {
            return reply.error(Errno::EISDIR);
        };
        let start = bytes.len().min(offset as usize);
        let wanted = bytes.slice(start..bytes.len().min(start + size as usize));
        // In crumbs, more of them for a large read than one writev takes.
        let crumbs: Vec<Bytes> = (0..wanted.len().div_ceil(700))
            .map(|index| wanted.slice(index * 700..wanted.len().min((index + 1) * 700)))
            .collect();
        reply.gather(&crumbs);
    }

    fn interrupt(&self, unique: u64) {
        let mut held = self.held.lock().unwrap();
        held.interrupted.push(unique);
        if let Some(reply) = held.replies.remove(&unique) {
            reply.error(Errno::EINTR);
        }
        self.changed.notify_all();
    }
}

impl Handler for Tree {
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply> {
        self.answer(request, reply);
        None
    }
}

impl Tree {
    fn answer(&self, request: Request<'_>, reply: Reply) {
        match request.operation {
            Operation::Lookup { name } => self.lookup(request.node, name, reply),
            Operation::Getattr { .. } => {
                let found = self.nodes.lock().unwrap().get(&request.node).map(|node| node.attributes);
                match found {
                    Some(attributes) => reply.attributes(&attributes, self.ttl),
                    None => reply.error(Errno::ESTALE),
                }
            }
            Operation::Readlink => match self.nodes.lock().unwrap().get(&request.node).map(|node| &node.content) {
                Some(Content::Symlink(target)) => reply.bytes(target),
                _ => reply.error(Errno::EINVAL),
            },
            Operation::Readdir { offset, size, .. } => self.list(request.node, offset, size, false, reply),
            Operation::Readdirplus { offset, size, .. } => self.list(request.node, offset, size, true, reply),
            Operation::Open { .. } if self.opens.load(Ordering::SeqCst) => reply.open(HANDLE, open_flag::KEEP_CACHE),
            Operation::Release { handle, .. } => {
                assert_eq!(handle, HANDLE);
                reply.ok();
            }
            Operation::Read { handle, offset, size, .. } => {
                assert_eq!(handle == HANDLE, self.opens.load(Ordering::SeqCst));
                self.read(&request, offset, size, reply);
            }
            Operation::Interrupt { unique } => {
                self.interrupt(unique);
                reply.none();
            }
            Operation::Forget { .. } | Operation::BatchForget(_) => reply.none(),
            Operation::Ioctl { command: IOCTL_REVERSE, input, is_dir: true, .. } if request.node == ROOT_NODE => {
                let mut output = input.to_vec();
                output.reverse();
                reply.ioctl(7, &output);
            }
            Operation::Statfs => reply.statfs(&FileSystem {
                blocks: BLOCKS,
                block_bytes: 4096,
                fragment_bytes: 4096,
                name_bytes_max: 255,
                ..FileSystem::default()
            }),
            other => reply.error(other.default_error()),
        }
    }
}

fn attributes(ino: u64, mode: u32, size_bytes: u64) -> Attributes {
    let time = Timestamp { seconds: 1_700_000_000, nanos: 123_456_789 };
    Attributes {
        ino,
        size_bytes,
        blocks: size_bytes.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        mode,
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        blksize: 4096,
    }
}
