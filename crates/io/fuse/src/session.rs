//! A session: the readers that take the kernel's requests off the descriptor and hand them to the handler.
//!
//! Each reader is a thread that reads one request, calls the handler, and reads the next; it holds no lock while
//! handling, and the handler may answer later from anywhere, or have a task go on with the request (`tasks`). The session itself answers what every file system would
//! answer the same way: INIT, DESTROY, with no-open OPEN and OPENDIR, and bytes that are not a request.
//!
//! One reader always reads, so that INTERRUPTs and closes of files are read whatever waits: the last one has a task do what may take
//! as long as a disk takes. Where tasks are too many, others wait with the request that they have read, and the last reader fails it when a
//! reserve is used up, too. A reader without memory for the next request waits for some. Only the end of the device, or its error, ends one.
//!
//! A session can be resumed on the connection of one that died: what was agreed then holds, and requests that the dead
//! one had taken come again, from the kernel or from where they were kept.
//! Unmounting ends the readers; `stop` ends them also while files are still open on a mount that was detached.

mod ending;

use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use forebay_latency::Register;
use forebay_types::{Errno, threads};

use crate::abi::{self, opcode, open_flag};
use crate::buffer::{Buffer, Free, Read, Space};
use crate::change::Change;
use crate::counts::MessageCounts;
use crate::device::{Device, Kernel, ProcessKernel, Received};
use crate::handler::Handler;
use crate::handshake::agree;
use crate::init::Negotiated;
use crate::interrupts::Interrupts;
use crate::invalidator::Invalidator;
use crate::kept_requests::{Intake, KeptRequests, Slot};
use crate::limits;
use crate::notify::Notifier;
use crate::options::SessionOptions;
use crate::owned_request::OwnedRequest;
use crate::reply::Reply;
use crate::request::{self, Malformed, Operation, Request};
use crate::tasks::{Admission, Admitted, Needs, Tasks};
use crate::waiting_threads::WaitingThreads;
use crate::wake;

/// A running session. Dropping it stops it; it does not unmount.
pub struct Session {
    shared: Arc<Shared>,
    notifier: Notifier,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// By whom a request is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// A reader, while others read.
    ByReader,
    /// The only reader that was left.
    ByLast,
    /// Without readers.
    Directly,
    /// A daemon before this one had taken it.
    Again,
}

/// The state that the readers share.
struct Shared {
    device: Arc<Device>,
    negotiated: Negotiated,
    no_open: bool,
    /// Readers that read, or are about to.
    reading: AtomicUsize,
    /// Memory that readers do not use.
    free: Arc<Free>,
    tasks: Arc<Tasks>,
    interrupts: Arc<Interrupts>,
    stopping: AtomicBool,
    has_lacked_memory: AtomicBool,
    running: Mutex<usize>,
    ended: Condvar,
}

impl Session {
    /// Agrees with the kernel on how to talk and starts the readers. `descriptor` is that of `/dev/fuse` after a mount,
    /// from `Mount::descriptor` or from wherever it was mounted.
    ///
    /// # Errors
    /// EPROTO when the kernel speaks a version older than 7.31; EINVAL for no readers; else what reading and writing the
    /// descriptor or starting a thread says. The mount is then left without a session.
    pub fn start<H: Handler>(descriptor: Arc<OwnedFd>, options: &SessionOptions, handler: Arc<H>) -> io::Result<Self> {
        let negotiated = agree(&descriptor, options)?;
        let session =
            Self::prepare(Device::new(Kernel::Device(descriptor), None, options.access), negotiated, options)?;
        session.start_readers(options.readers, &handler)?;
        Ok(session)
    }

    /// Goes on where another session on the same connection ended, or begins where the handshake was made by `agree`.
    /// With `kept` requests are kept there while they are in flight, and those found there are handled by a thread beside the caller; without, the kernel is asked for them (`Negotiated::can_resend`). The
    /// other session must have ended.
    ///
    /// # Errors
    /// EINVAL for no readers or more than `KERNEL_READERS_MAX`; else what the descriptor, the memory or starting a thread
    /// says.
    pub fn resume<H: Handler>(
        descriptor: Arc<OwnedFd>,
        negotiated: Negotiated,
        options: &SessionOptions,
        kept: Option<KeptRequests>,
        handler: Arc<H>,
    ) -> io::Result<Self> {
        let session =
            Self::prepare(Device::new(Kernel::Device(descriptor), kept, options.access), negotiated, options)?;
        let Some(kept) = &session.shared.device.kept else {
            // Before the first reader: what it has taken would come a second time, under the same number.
            if negotiated.can_resend() {
                session.notifier.resend()?;
            }
            session.start_readers(options.readers, &handler)?;
            return Ok(session);
        };
        let (large, found) = (kept.large()?, kept.found());
        tracing::debug!(large = large.len(), others = found.len(), "requests of the daemon before are answered");
        // First the readers, however many were found: a request may wait for what the kernel sends next.
        session.start_readers(options.readers, &handler)?;
        session.answer_kept(large, found, handler)?;
        Ok(session)
    }

    /// A session with a kernel within the process, which has no readers: each request is handed to `take`.
    ///
    /// # Errors
    /// See `start`.
    pub fn within(
        kernel: Arc<dyn ProcessKernel>,
        negotiated: Negotiated,
        options: &SessionOptions,
    ) -> io::Result<Self> {
        Self::prepare(Device::new(Kernel::Process(kernel), None, options.access), negotiated, options)
    }

    /// Takes one request (`abi`), as a reader would.
    pub fn take(&self, request: &[u8], handler: &Arc<impl Handler>) {
        self.shared.take(&Read { bytes: request, slot: None, space: None }, handler, Taken::Directly);
    }

    fn prepare(device: Device, negotiated: Negotiated, options: &SessionOptions) -> io::Result<Self> {
        if options.readers == 0 || options.readers > threads::KERNEL_READERS_MAX {
            return Err(Errno::EINVAL.into());
        }
        wake::prepare()?;
        let device = Arc::new(device);
        Ok(Self {
            notifier: Notifier::new(&device, negotiated.minor),
            shared: Arc::new(Shared {
                device,
                negotiated,
                no_open: options.no_open,
                reading: AtomicUsize::new(0),
                free: Arc::default(),
                tasks: Arc::default(),
                interrupts: Arc::default(),
                stopping: AtomicBool::new(false),
                has_lacked_memory: AtomicBool::new(false),
                running: Mutex::new(0),
                ended: Condvar::new(),
            }),
            threads: Mutex::default(),
        })
    }

    fn start_readers<H: Handler>(&self, count: usize, handler: &Arc<H>) -> io::Result<()> {
        (0..count).try_for_each(|index| self.spawn_reader(index, Arc::clone(handler)))
    }

    /// Answers what the session before had taken: what it had moved to slots, and what it could not.
    fn answer_kept<H: Handler>(
        &self,
        large: Vec<Intake>,
        found: Vec<(Slot, Vec<u8>)>,
        handler: Arc<H>,
    ) -> io::Result<()> {
        if large.is_empty() && found.is_empty() {
            return Ok(());
        }
        let running = Running::new(&self.shared);
        let thread = thread::Builder::new().name("fuse-kept".to_owned()).spawn(move || {
            wake::accept();
            for intake in large {
                let len = intake.found().len();
                let space = Space::found(intake);
                let read = Read { bytes: &space.bytes()[..len], slot: None, space: Some(&space) };
                running.shared.take(&read, &handler, Taken::Again);
            }
            for (slot, bytes) in &found {
                running.shared.take(&Read { bytes, slot: Some(*slot), space: None }, &handler, Taken::Again);
            }
            drop(handler);
        })?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    fn spawn_reader<H: Handler>(&self, index: usize, handler: Arc<H>) -> io::Result<()> {
        let running = Running::new(&self.shared);
        let mut buffer = Buffer::new(&self.shared.device, &self.shared.free)?;
        // It counts from now on, so that the first of several is not taken for the last.
        self.shared.reading.fetch_add(1, Ordering::SeqCst);
        let thread = thread::Builder::new().name(format!("fuse-{index}")).spawn(move || {
            wake::accept();
            running.shared.read_until_end(&mut buffer, &handler);
            drop(handler);
        })?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Has notifications that take back pages or names written by a process of their own, which `program` is to start: it calls
    /// [`serve_invalidations`](crate::serve_invalidations). It is started when one is to be written. So this process can end while the kernel
    /// lets one wait.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn invalidate_by(&self, program: impl Fn() -> Command + Send + Sync + 'static) -> io::Result<()> {
        self.notifier.set_invalidator(Invalidator::new(Box::new(program)), WaitingThreads::start()?);
        Ok(())
    }

    /// Sends notifications to the kernel.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// The terms agreed with the kernel.
    #[must_use]
    pub fn negotiated(&self) -> &Negotiated {
        &self.shared.negotiated
    }

    /// How many messages of each kind came, INIT not counted.
    #[must_use]
    pub fn message_counts(&self) -> &MessageCounts {
        &self.shared.device.counts
    }

    /// How long requests take, and those in flight: a request for a lock is `patient`.
    #[must_use]
    pub fn latencies(&self) -> &Arc<Register> {
        &self.shared.device.latencies
    }

    /// Waits until every reader has ended: after unmounting, or after `stop` in another thread.
    pub fn wait(&self) {
        let mut running = self.shared.running();
        while *running > 0 {
            running = self.shared.ended.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether every reader has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        *self.shared.running() == 0
    }
}

/// Counts one reader, however it ends.
struct Running {
    shared: Arc<Shared>,
}

impl Running {
    fn new(shared: &Arc<Shared>) -> Self {
        *shared.running() += 1;
        Self { shared: Arc::clone(shared) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.shared.running() -= 1;
        self.shared.ended.notify_all();
    }
}

impl Shared {
    fn running(&self) -> std::sync::MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_until_end<H: Handler>(self: &Arc<Self>, buffer: &mut Buffer, handler: &Arc<H>) {
        let kept = self.device.kept.as_ref();
        while !self.stopping.load(Ordering::SeqCst) && buffer.reserve(kept) {
            let bytes = match buffer.bytes(&self.device) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.await_memory(&error);
                    continue;
                }
            };
            match self.device.receive(bytes) {
                Ok(Received::Request(len)) => {
                    let read = buffer.keep(kept, len);
                    if self.device.leaves(false) {
                        break;
                    }
                    let is_last = self.reading.fetch_sub(1, Ordering::SeqCst) == 1;
                    let taken = if is_last { Taken::ByLast } else { Taken::ByReader };
                    self.take(&read, handler, taken);
                    buffer.clear();
                    self.reading.fetch_add(1, Ordering::SeqCst);
                }
                Ok(Received::Nothing) => {}
                Ok(Received::Ended) => break,
                Err(failed) => {
                    tracing::error!(%failed, "reading from the FUSE device failed; the reader ends");
                    break;
                }
            }
        }
        self.reading.fetch_sub(1, Ordering::SeqCst);
    }

    /// A reader has no memory for the next request. It waits until there may be some, as one that does not read; its requests wait in the
    /// kernel.
    fn await_memory(&self, error: &io::Error) {
        if !self.has_lacked_memory.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "no memory for the kernel's requests: they wait until there is some; told once");
        }
        self.reading.fetch_sub(1, Ordering::SeqCst);
        match &self.device.kept {
            Some(kept) => kept.await_intake(limits::MEMORY_RETRY),
            None => thread::sleep(limits::MEMORY_RETRY),
        }
        self.reading.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a request: it is handled here, or a task goes on with it.
    fn take<H: Handler>(self: &Arc<Self>, read: &Read<'_>, handler: &Arc<H>, taken: Taken) {
        let code = read.bytes.get(4..8).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes);
        self.device.counts.count(code);
        let request = match request::decode(read.bytes) {
            Ok(request) => request,
            Err(malformed) => return self.refuse(&malformed),
        };
        let unique = request.unique;
        let reply = Reply::new(Arc::clone(&self.device), (unique, request.node), code, request.operation.wants_reply());
        let kept_space = read.space.filter(|_| self.device.kept.is_some());
        let Some((request, reply)) = self.answer_own(request, reply.kept_in(read.slot, kept_space)) else { return };
        if let Operation::Interrupt { unique } = request.operation
            && self.interrupts.interrupt(unique)
        {
            return reply.none();
        }
        let waits_for_lock =
            matches!(&request.operation, Operation::Change(Change::SetLockWaiting(lock)) if !lock.is_unlock());
        let is_for_task = taken == Taken::ByLast && handler.may_block(&request);
        let reply = if is_for_task { Some(reply) } else { handler.handle(request, reply) };
        let Some(reply) = reply else {
            self.interrupts.forget(unique);
            if taken == Taken::Again {
                self.tell_again(unique, handler);
            }
            return;
        };
        let bytes = read.space.map_or(read.bytes.len(), |space| space.taken_by(read.bytes.len()));
        let Some(admitted) = self.admit(code, Needs { bytes, waits_for_lock }, taken) else {
            self.interrupts.forget(unique);
            // Of requests that it must answer the kernel tells once.
            tracing::error!(code, "too many requests wait at the same time: one more fails");
            return reply.error(if code == opcode::SETLKW { Errno::ENOLCK } else { Errno::ENOMEM });
        };
        let is_again = taken == Taken::Again || unique & abi::UNIQUE_RESEND != 0;
        let request = OwnedRequest::new(read.bytes, read.space, (unique, is_again), &self.interrupts, admitted);
        self.tasks.spawn(Arc::clone(handler).task(request, reply), taken != Taken::ByLast);
    }

    /// Tells the handler that a request which it has from the session before was interrupted: whether it was is not known, and
    /// the kernel tells of that only once.
    fn tell_again<H: Handler>(&self, unique: u64, handler: &Arc<H>) {
        let operation = Operation::Interrupt { unique };
        let interrupt = Request { unique: 0, node: 0, uid: 0, gid: 0, pid: 0, operation };
        // Of no opcode, so that the kernel, which asked nothing, is answered nothing.
        let _ = handler.handle(interrupt, Reply::new(Arc::clone(&self.device), (0, 0), 0, false));
    }

    /// Room for one more task. The last reader does not wait for it, unless others have begun to read meanwhile.
    fn admit(&self, code: u32, needs: Needs, taken: Taken) -> Option<Admitted> {
        // The kernel tells of a closed file only once, and those that were found had been admitted before.
        if code == opcode::RELEASE || matches!(taken, Taken::Again | Taken::Directly) {
            return self.tasks.admit(needs, Admission::Always);
        }
        loop {
            if let Some(admitted) = self.tasks.admit(needs, Admission::Usual) {
                return Some(admitted);
            }
            let is_waited_for = self.reading.load(Ordering::SeqCst) > 0 && !self.stopping.load(Ordering::SeqCst);
            if !is_waited_for || self.tasks.refuses(needs) {
                return self.tasks.admit(needs, Admission::Reserve);
            }
            self.tasks.await_room(needs);
        }
    }

    /// Answers what is not for the handler; else gives it back.
    fn answer_own<'a>(&self, request: Request<'a>, reply: Reply) -> Option<(Request<'a>, Reply)> {
        match request.operation {
            Operation::Open { .. } if self.no_open => match self.negotiated.no_open() {
                true => reply.error(Errno::ENOSYS),
                false => reply.open(0, open_flag::KEEP_CACHE),
            },
            Operation::Opendir { .. } if self.no_open => match self.negotiated.no_opendir() {
                true => reply.error(Errno::ENOSYS),
                false => reply.open(0, open_flag::KEEP_CACHE | open_flag::CACHE_DIR),
            },
            Operation::Release { .. } | Operation::Releasedir { .. } if self.no_open => reply.ok(),
            Operation::Destroy => reply.ok(),
            Operation::NotifyReply => reply.none(),
            // A second INIT is against the protocol.
            Operation::Init { .. } => reply.error(Errno::EIO),
            _ => return Some((request, reply)),
        }
        None
    }

    fn refuse(&self, malformed: &Malformed) {
        tracing::error!(%malformed, "the kernel sent what is not a request");
        if let Some(unique) = malformed.unique {
            Reply::new(Arc::clone(&self.device), (unique, 0), malformed.opcode.unwrap_or(0), true).error(Errno::EIO);
        }
    }
}
