//! The descriptor of `/dev/fuse`: one read gives one request, one write takes one reply or notification.
//!
//! Writing gathers from wherever the bytes are, so that a chunk goes from the cache's buffers into the kernel's pages
//! with the one copy that the kernel makes.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use forebay_latency::Register;
use rustix::io::{DupFlags, Errno as OsErrno};
use zerocopy::IntoBytes;

use crate::abi::{OutHeader, opcode};
use crate::counts::{MessageCounts, name_of};
use crate::kept_requests::KeptRequests;
use crate::options::Access;

/// Parts of one write; the kernel's `UIO_MAXIOV`.
const PARTS_MAX: usize = 1024;

/// A kernel within the process, as simulated jobs and tests have one: it calls `Session::take`, and is told the rest here.
pub trait ProcessKernel: Send + Sync {
    /// Takes one reply or notification, whole: its head, then what follows (`abi`).
    ///
    /// # Errors
    /// The error of `write(2)` on the device: ENOENT for a request that is gone or a node that is not known.
    fn take(&self, message: &[IoSlice<'_>]) -> io::Result<()>;
}

/// Where the kernel is.
pub(crate) enum Kernel {
    /// Behind a descriptor of `/dev/fuse`.
    Device(Arc<OwnedFd>),
    Process(Arc<dyn ProcessKernel>),
}

/// A connection to the kernel, shared by readers, replies and notifiers.
pub(crate) struct Device {
    kernel: Kernel,
    pub(crate) counts: MessageCounts,
    /// How long requests take, until their answers are with the kernel.
    pub(crate) latencies: Arc<Register>,
    /// Bytes of the largest request.
    pub(crate) request_bytes_max: usize,
    /// Requests in flight, where a next daemon must find them.
    pub(crate) kept: Option<KeptRequests>,
    /// Another daemon takes over: it answers what this one could only fail.
    handing_over: AtomicBool,
    /// It answers everything that is not answered yet.
    left: AtomicBool,
    /// Requests that wait for their answer.
    pub(crate) in_flight: AtomicUsize,
}

/// The outcome of one read.
pub(crate) enum Received {
    /// One request of that many bytes.
    Request(usize),
    /// No request yet; read again.
    Nothing,
    /// The connection is gone: unmounted or aborted.
    Ended,
}

impl Device {
    pub(crate) fn new(kernel: Kernel, kept: Option<KeptRequests>, access: Access) -> Self {
        Self {
            kernel,
            counts: MessageCounts::default(),
            latencies: Arc::new(Register::new(name_of(opcode::SETLKW))),
            request_bytes_max: access.request_bytes_max(),
            kept,
            handing_over: AtomicBool::new(false),
            left: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
        }
    }

    /// That of `/dev/fuse`.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.kernel {
            Kernel::Device(descriptor) => Some(descriptor.as_fd()),
            Kernel::Process(_) => None,
        }
    }

    /// Lets the descriptor's number stand for nothing, whoever has a share of it.
    pub(crate) fn close_for_all(&self) -> io::Result<()> {
        let Kernel::Device(descriptor) = &self.kernel else { return Ok(()) };
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        // SAFETY: the number is open as long as `descriptor` lives; it gets another file and is not closed here.
        let mut shared = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(descriptor.as_raw_fd()) });
        Ok(rustix::io::dup3(nothing, &mut shared, DupFlags::CLOEXEC)?)
    }

    /// Sends no error from now on.
    pub(crate) fn begin_to_hand_over(&self) {
        self.handing_over.store(true, Ordering::SeqCst);
    }

    /// Answers nothing from now on.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    /// Whether an answer is left to the next daemon: all of them, or this one because it is an error.
    pub(crate) fn leaves(&self, is_error: bool) -> bool {
        let flag = if is_error { &self.handing_over } else { &self.left };
        flag.load(Ordering::SeqCst)
    }

    /// Waits for the next request.
    ///
    /// # Errors
    /// Errors of `read(2)` beyond the cases that are normal on this device.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let Kernel::Device(descriptor) = &self.kernel else { return Ok(Received::Ended) };
        match rustix::io::read(&**descriptor, buffer) {
            // A closed socket in place of the device, as tests use it.
            Ok(0) => Ok(Received::Ended),
            Ok(len) => Ok(Received::Request(len)),
            // ENOENT: the request was aborted while it was being read.
            Err(OsErrno::NOENT | OsErrno::INTR) => Ok(Received::Nothing),
            Err(OsErrno::AGAIN) => wait_readable(descriptor).map(|()| Received::Nothing),
            Err(OsErrno::NODEV | OsErrno::CONNABORTED) => Ok(Received::Ended),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one message: a head with `error` and `unique`, then `fixed`, then `parts`.
    ///
    /// # Errors
    /// The error of `write(2)`; ENOENT is a reply to a request that the kernel gave up.
    pub(crate) fn send(&self, error: i32, unique: u64, fixed: &[&[u8]], parts: &[Bytes]) -> io::Result<()> {
        let fixed_bytes: usize = fixed.iter().map(|part| part.len()).sum();
        let parts_bytes: usize = parts.iter().map(Bytes::len).sum();
        let len = u32::try_from(size_of::<OutHeader>() + fixed_bytes + parts_bytes)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let head = OutHeader { len, error, unique };
        let mut slices = Vec::with_capacity(PARTS_MAX.min(1 + fixed.len() + parts.len()));
        slices.push(IoSlice::new(head.as_bytes()));
        slices.extend(fixed.iter().map(|part| IoSlice::new(part)));
        let room = PARTS_MAX - slices.len();
        if parts.len() <= room {
            slices.extend(parts.iter().map(|part| IoSlice::new(part)));
            return self.write(&slices);
        }
        // More parts than one write takes: the rest is small crumbs, and copying them is cheaper than refusing.
        let (direct, rest) = parts.split_at(room - 1);
        let rest = rest.concat();
        slices.extend(direct.iter().map(|part| IoSlice::new(part)));
        slices.push(IoSlice::new(&rest));
        self.write(&slices)
    }

    fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let descriptor = match &self.kernel {
            Kernel::Device(descriptor) => descriptor,
            Kernel::Process(kernel) => return kernel.take(slices),
        };
        loop {
            match rustix::io::writev(&**descriptor, slices) {
                // The device takes a message whole or not at all.
                Ok(_) => return Ok(()),
                Err(OsErrno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Only for a descriptor that somebody else made non-blocking.
fn wait_readable(descriptor: &OwnedFd) -> io::Result<()> {
    let mut polled = [rustix::event::PollFd::new(descriptor, rustix::event::PollFlags::IN)];
    match rustix::event::poll(&mut polled, None) {
        Ok(_) | Err(OsErrno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
