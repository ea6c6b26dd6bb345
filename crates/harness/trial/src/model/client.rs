//! One client of the modelled server: what a node's kernel asks, and what it may keep.
//!
//! Names and attributes are believed for a second and absent names not at all; a file's pages are kept while its
//! modification time stands still; every open and every listing asks the server. That is what network file systems
//! do by default, because their files may change at any time under other clients.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_fuse::{DirectoryBuffer, Entry, Handler, Operation, Reply, Request, open_flag};
use forebay_types::{Attributes, Errno, FileSystem, Timestamp};

use super::server::Model;

/// The handler that answers the kernel of one node.
pub struct Client {
    server: Arc<Model>,
    /// The modification time each file had when its pages were last begun to be cached.
    cached: Mutex<BTreeMap<u64, Timestamp>>,
}

impl Client {
    pub fn new(server: Arc<Model>) -> Self {
        Self { server, cached: Mutex::default() }
    }

    fn lookup(&self, directory: &Path, name: &[u8]) -> io::Result<Entry> {
        self.entry(directory.join(std::ffi::OsStr::from_bytes(name)))
    }

    fn entry(&self, path: PathBuf) -> io::Result<Entry> {
        let attributes = attributes(&fs::symlink_metadata(&path)?);
        let ttl = self.server.ttl();
        let node = self.server.learn(path);
        Ok(Entry { node, generation: 0, attributes, entry_ttl: ttl, attribute_ttl: ttl })
    }

    /// Whether the pages that the kernel has of a file are still those of the file.
    fn keeps_pages(&self, node: u64, path: &Path) -> io::Result<u32> {
        let mtime = attributes(&fs::metadata(path)?).mtime;
        let before = self.cached.lock().unwrap_or_else(PoisonError::into_inner).insert(node, mtime);
        Ok(if before == Some(mtime) { open_flag::KEEP_CACHE } else { 0 })
    }

    /// The entries of a directory behind the first `offset`, with attributes (`plus`) or without.
    fn listing(&self, path: &Path, offset: u64, size: u32, plus: bool) -> io::Result<DirectoryBuffer> {
        let mut names: Vec<_> = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        names.sort_unstable();
        let mut buffer = DirectoryBuffer::new(size);
        for (index, name) in names.iter().enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            let entry = self.entry(path.join(name))?;
            let (ino, next, kind) = (entry.attributes.ino, index as u64 + 1, entry.attributes.kind());
            let fits = match plus {
                true => buffer.push_plus(Some(&entry), ino, next, kind, name.as_bytes()),
                false => buffer.push(ino, next, kind, name.as_bytes()),
            };
            if !fits {
                break;
            }
        }
        Ok(buffer)
    }

    fn answer_listing(&self, path: &Path, range: (u64, u32), plus: bool, reply: Reply) {
        let listing = self.listing(path, range.0, range.1, plus);
        let bytes = listing.as_ref().map_or(0, |buffer| buffer.as_bytes().len());
        let kind = if plus { "readdirplus" } else { "readdir" };
        self.server.metadata(kind, bytes, move || match listing {
            Ok(buffer) => reply.directory(buffer),
            Err(error) => reply.error(Errno::of(&error)),
        });
    }
}

impl Handler for Client {
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply> {
        self.take(request, reply);
        None
    }
}

impl Client {
    fn take(&self, request: Request<'_>, reply: Reply) {
        let (server, ttl) = (&self.server, self.server.ttl());
        let Some(path) = server.path(request.node) else {
            // Requests about no node at all (forgetting, interrupting) need no answer that means anything.
            return if request.operation.wants_reply() { reply.error(Errno::ESTALE) } else { reply.none() };
        };
        match request.operation {
            Operation::Lookup { name } => {
                let found = self.lookup(&path, name);
                server.metadata("lookup", 0, move || answer(found, reply, |entry, reply| reply.entry(&entry)));
            }
            Operation::Getattr { .. } => {
                let found = fs::symlink_metadata(&path);
                server.metadata("getattr", 0, move || {
                    answer(found, reply, |found, reply| reply.attributes(&attributes(&found), ttl));
                });
            }
            Operation::Readlink => {
                let target = fs::read_link(&path).map(|target| target.into_os_string().into_vec());
                server.metadata("readlink", 0, move || answer(target, reply, |target, reply| reply.bytes(&target)));
            }
            Operation::Open { .. } => {
                let flags = self.keeps_pages(request.node, &path);
                server.metadata("open", 0, move || answer(flags, reply, |flags, reply| reply.open(0, flags)));
            }
            Operation::Opendir { .. } => server.metadata("opendir", 0, move || reply.open(0, 0)),
            Operation::Readdir { offset, size, .. } => self.answer_listing(&path, (offset, size), false, reply),
            Operation::Readdirplus { offset, size, .. } => self.answer_listing(&path, (offset, size), true, reply),
            Operation::Read { offset, size, .. } => {
                let contents = read(&path, offset, size as usize);
                let bytes = contents.as_ref().map_or(0, Vec::len);
                server.contents(bytes, move || answer(contents, reply, |contents, reply| reply.bytes(&contents)));
            }
            Operation::Statfs => {
                let stat = rustix::fs::statvfs(&path).map_err(io::Error::from);
                server.metadata("statfs", 0, move || {
                    answer(stat, reply, |stat, reply| reply.statfs(&file_system(&stat)))
                });
            }
            Operation::Release { .. } | Operation::Releasedir { .. } | Operation::Destroy => reply.ok(),
            other if other.wants_reply() => reply.error(other.default_error()),
            _ => reply.none(),
        }
    }
}

fn answer<T>(outcome: io::Result<T>, reply: Reply, then: impl FnOnce(T, Reply)) {
    match outcome {
        Ok(value) => then(value, reply),
        Err(error) => reply.error(Errno::of(&error)),
    }
}

/// Up to `size` bytes from `offset`, fewer only at the end of the file.
fn read(path: &Path, offset: u64, size: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut contents = vec![0; size];
    let mut filled = 0;
    while filled < size {
        match file.read_at(&mut contents[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    contents.truncate(filled);
    Ok(contents)
}

fn attributes(found: &fs::Metadata) -> Attributes {
    let time = |seconds, nanos: i64| Timestamp { seconds, nanos: nanos as u32 };
    Attributes {
        ino: found.ino(),
        size_bytes: found.size(),
        blocks: found.blocks(),
        atime: time(found.atime(), found.atime_nsec()),
        mtime: time(found.mtime(), found.mtime_nsec()),
        ctime: time(found.ctime(), found.ctime_nsec()),
        mode: found.mode(),
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: found.rdev() as u32,
        blksize: found.blksize() as u32,
    }
}

fn file_system(stat: &rustix::fs::StatVfs) -> FileSystem {
    FileSystem {
        blocks: stat.f_blocks,
        blocks_free: stat.f_bfree,
        blocks_available: stat.f_bavail,
        files: stat.f_files,
        files_free: stat.f_ffree,
        block_bytes: stat.f_bsize as u32,
        fragment_bytes: stat.f_frsize as u32,
        name_bytes_max: stat.f_namemax as u32,
    }
}
