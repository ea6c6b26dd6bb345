//! Answers to the kernel.
//!
//! A `Reply` answers exactly one request, once, from any thread: its methods consume it, and one that is dropped
//! unanswered answers EIO, because a process that waits for ever is worse than an error. Which method fits which
//! operation is said at `Operation`. Errors of the write itself are not handed to the handler: the only ones that occur
//! are that the kernel gave the request up (a signal) or that the mount is gone, and there is nothing to do about either.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use forebay_latency::Started;
use forebay_types::{Attributes, Errno, FileSystem};
use rustix::io::Errno as OsErrno;
use zerocopy::IntoBytes;

use crate::abi::{self, opcode};
use crate::buffer::Space;
use crate::change::Lock;
use crate::counts::name_of;
use crate::device::Device;
use crate::directory::DirectoryBuffer;
use crate::entry::{Entry, attr, entry_out, seconds_nanos};
use crate::kept_requests::Slot;

/// The right, and the duty, to answer one request.
#[must_use = "a reply that is dropped answers EIO"]
pub struct Reply {
    device: Arc<Device>,
    unique: u64,
    opcode: u32,
    pending: bool,
    /// Where the request is kept until it is answered: a slot, or the memory that it was read into.
    slot: Option<Slot>,
    space: Option<Arc<Space>>,
    /// When it began, until it has been answered.
    started: Option<Started>,
}

impl Reply {
    /// To a request about a node, that begins now.
    pub(crate) fn new(device: Arc<Device>, (unique, node): (u64, u64), code: u32, wants_reply: bool) -> Self {
        if wants_reply {
            device.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        let started = wants_reply.then(|| device.latencies.begin(name_of(code), unique, node));
        Self { device, unique, opcode: code, pending: wants_reply, slot: None, space: None, started }
    }

    pub(crate) fn kept_in(mut self, slot: Option<Slot>, space: Option<&Arc<Space>>) -> Self {
        self.slot = slot;
        self.space = space.filter(|_| self.pending).map(Arc::clone);
        self
    }

    /// To `Lookup`: the node of the name.
    pub fn entry(self, entry: &Entry) {
        self.send(&[entry_out(entry).as_bytes()], &[]);
    }

    /// To `Lookup`: there is no such name, and the kernel may remember that for `ttl`.
    pub fn negative(self, ttl: Duration) {
        if ttl.is_zero() {
            return self.error(Errno::ENOENT);
        }
        let (entry_valid, entry_valid_nsec) = seconds_nanos(ttl);
        self.send(&[abi::EntryOut { entry_valid, entry_valid_nsec, ..Default::default() }.as_bytes()], &[]);
    }

    /// To `Getattr`.
    pub fn attributes(self, attributes: &Attributes, ttl: Duration) {
        let (attr_valid, attr_valid_nsec) = seconds_nanos(ttl);
        let out = abi::AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: attr(attributes) };
        self.send(&[out.as_bytes()], &[]);
    }

    /// To `Read`, `Readlink`, `Getxattr`, `Listxattr`: the bytes.
    pub fn bytes(self, bytes: &[u8]) {
        self.send(&[bytes], &[]);
    }

    /// To `Read`: the bytes of `parts` one after the other, written straight from where they are.
    pub fn gather(self, parts: &[Bytes]) {
        self.send(&[], parts);
    }

    /// To `Readdir` and `Readdirplus`. An empty buffer is the end of the directory.
    pub fn directory(self, buffer: DirectoryBuffer) {
        self.send(&[buffer.as_bytes()], &[]);
    }

    /// To `Open` and `Opendir`: `handle` comes back with every operation on the open file; `flags` are `open_flag`s.
    pub fn open(self, handle: u64, flags: u32) {
        self.send(&[abi::OpenOut { fh: handle, open_flags: flags, backing_id: 0 }.as_bytes()], &[]);
    }

    /// To `Create`: the node of the name, and its open file as `open` has it.
    pub fn created(self, entry: &Entry, handle: u64, flags: u32) {
        let open = abi::OpenOut { fh: handle, open_flags: flags, backing_id: 0 };
        self.send(&[entry_out(entry).as_bytes(), open.as_bytes()], &[]);
    }

    /// To `Write`: how many bytes were taken.
    pub fn written(self, bytes: u32) {
        self.send(&[abi::WriteOut { size: bytes, padding: 0 }.as_bytes()], &[]);
    }

    /// To `GetLock`: the lock that is in the way, or one of kind `F_UNLCK` (2) if none is.
    pub fn lock(self, lock: &Lock) {
        let Lock { start, end, kind, pid, .. } = *lock;
        self.send(&[abi::FileLock { start, end, kind, pid }.as_bytes()], &[]);
    }

    /// To `Statfs`.
    pub fn statfs(self, stat: &FileSystem) {
        let out = abi::Kstatfs {
            blocks: stat.blocks,
            bfree: stat.blocks_free,
            bavail: stat.blocks_available,
            files: stat.files,
            ffree: stat.files_free,
            bsize: stat.block_bytes,
            namelen: stat.name_bytes_max,
            frsize: stat.fragment_bytes,
            ..Default::default()
        };
        self.send(&[out.as_bytes()], &[]);
    }

    /// To `Ioctl`: what `ioctl(2)` returns (not negative) and the bytes for the caller's buffer, at most as many as
    /// the request's `output_bytes`.
    pub fn ioctl(self, result: i32, output: &[u8]) {
        let out = abi::IoctlOut { result, ..Default::default() };
        self.send(&[out.as_bytes(), output], &[]);
    }

    /// To `Lseek`: the offset found.
    pub fn lseek(self, offset: u64) {
        self.send(&[abi::LseekOut { offset }.as_bytes()], &[]);
    }

    /// To `Getxattr` and `Listxattr` of size 0: how many bytes there are.
    pub fn xattr_size(self, size: u32) {
        self.send(&[abi::GetxattrOut { size, padding: 0 }.as_bytes()], &[]);
    }

    /// To `Poll`: the `POLL*` bits that are ready.
    pub fn poll(self, events: u32) {
        self.send(&[abi::PollOut { revents: events, padding: 0 }.as_bytes()], &[]);
    }

    /// Success, with nothing to say: `Release`, `Flush`, `Access` and such.
    pub fn ok(self) {
        self.send(&[], &[]);
    }

    /// It failed. To `Interrupt`, EAGAIN has the kernel send it again; anything else is not sent.
    pub fn error(mut self, errno: Errno) {
        let again = self.opcode == opcode::INTERRUPT && errno == Errno::EAGAIN;
        if self.take_pending() || again {
            self.write(-errno.number(), &[], &[]);
        }
    }

    /// To `Forget`, `BatchForget` and `Interrupt`, which get no answer. To anything else: EIO.
    pub fn none(self) {}

    /// Whether it has yet to be answered; asked once.
    fn take_pending(&mut self) -> bool {
        let pending = std::mem::take(&mut self.pending);
        if pending {
            self.device.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        pending
    }

    fn send(mut self, fixed: &[&[u8]], parts: &[Bytes]) {
        if self.take_pending() {
            self.write(0, fixed, parts);
        }
    }

    fn write(&mut self, error: i32, fixed: &[&[u8]], parts: &[Bytes]) {
        if self.device.leaves(error != 0) {
            return self.leave();
        }
        self.write_to_kernel(error, fixed, parts);
        if let Some(started) = self.started.take() {
            self.device.latencies.end(self.unique, started);
        }
        if let (Some(kept), Some(slot)) = (&self.device.kept, self.slot) {
            kept.release(slot);
        }
        self.space.iter().for_each(|space| space.note_answered());
    }

    /// The request stays where it is kept, for the next daemon: nobody empties memory that is shared.
    fn leave(&self) {
        std::mem::forget(self.space.clone());
    }

    fn write_to_kernel(&self, error: i32, fixed: &[&[u8]], parts: &[Bytes]) {
        // Counted before it is sent, so that a program that has read sees its own bytes in the counts.
        if self.opcode == opcode::READ {
            let fixed_bytes: usize = fixed.iter().map(|part| part.len()).sum();
            let parts_bytes: usize = parts.iter().map(Bytes::len).sum();
            self.device.counts.count_bytes_read((fixed_bytes + parts_bytes) as u64);
        }
        let Err(failed) = self.device.send(error, self.unique, fixed, parts) else { return };
        match failed.raw_os_error().map(OsErrno::from_raw_os_error) {
            // Given up after a signal.
            Some(OsErrno::NOENT) => {}
            Some(OsErrno::NODEV | OsErrno::PERM | OsErrno::CONNABORTED) => {
                tracing::debug!(unique = self.unique, "the mount is gone, a reply was not taken");
            }
            // The kernel ends the request with EIO then; nobody waits for ever.
            _ => tracing::error!(unique = self.unique, opcode = self.opcode, %failed, "the kernel refused a reply"),
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.take_pending() {
            return;
        }
        if self.device.leaves(true) {
            self.leave();
        } else {
            tracing::warn!(unique = self.unique, opcode = self.opcode, "a request was left unanswered: EIO");
            self.write(-Errno::EIO.number(), &[], &[]);
        }
    }
}
