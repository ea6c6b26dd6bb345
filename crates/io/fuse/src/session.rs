//! A session: the readers that take the kernel's requests off the descriptor and hand them to the handler.
//!
//! Each reader is a thread that reads one request, calls the handler, and reads the next; it holds no lock while
//! handling, and the handler may answer later from anywhere. The session itself answers what every file system would
//! answer the same way: INIT, DESTROY, with no-open OPEN and OPENDIR, and bytes that are not a request.
//!
//! Requests that may wait for another node leave some readers free for the others (`spare`).
//!
//! A session can be resumed on the connection of one that died: what was agreed then holds, and requests that the dead
//! one had taken come again, from the kernel or from where they were kept.
//! Unmounting ends the readers; `stop` ends them also while files are still open on a mount that was detached.

mod ending;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use forebay_types::{Errno, threads};

use crate::abi::open_flag;
use crate::buffer::Buffer;
use crate::change::Change;
use crate::counts::MessageCounts;
use crate::device::{Device, Kernel, ProcessKernel, Received};
use crate::handler::Handler;
use crate::handshake::agree;
use crate::init::Negotiated;
use crate::kept_requests::{Intake, KeptRequests, Slot};
use crate::notify::Notifier;
use crate::options::SessionOptions;
use crate::reply::Reply;
use crate::request::{self, Malformed, Operation, Request};
use crate::spare::{Handed, Spares};
use crate::wake;

/// A running session. Dropping it stops it; it does not unmount.
pub struct Session {
    shared: Arc<Shared>,
    notifier: Notifier,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The state that the readers share.
struct Shared {
    device: Arc<Device>,
    negotiated: Negotiated,
    no_open: bool,
    readers: usize,
    /// Readers that handle a request.
    busy: AtomicUsize,
    /// Readers that wait for one, or are about to.
    waiting: AtomicUsize,
    spares: Arc<Spares>,
    stopping: AtomicBool,
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
    /// With `kept` requests are kept there while they are in flight, and those found there are answered by a thread, since a
    /// handler may wait for what the caller does next; without, the kernel is asked for them (`Negotiated::can_resend`). The
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
        // Readers read into intakes that hold nothing.
        let free = (0..kept.intakes()?).filter(|index| large.iter().all(|(holds, _)| holds != index));
        for index in free.take(options.readers) {
            session.spawn_reader(index, Arc::clone(&handler))?;
        }
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
    pub fn take(&self, request: &[u8], handler: &impl Handler) {
        self.shared.take(request, None, handler, None);
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
                readers: options.readers,
                busy: AtomicUsize::new(0),
                waiting: AtomicUsize::new(0),
                spares: Arc::default(),
                stopping: AtomicBool::new(false),
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
        large: Vec<(usize, Intake)>,
        found: Vec<(Slot, Vec<u8>)>,
        handler: Arc<H>,
    ) -> io::Result<()> {
        if large.is_empty() && found.is_empty() {
            return Ok(());
        }
        let running = Running::new(&self.shared);
        let thread = thread::Builder::new().name("fuse-kept".to_owned()).spawn(move || {
            wake::accept();
            for (_, mut intake) in large {
                running.shared.take(intake.found(), None, &*handler, None);
                intake.clear();
            }
            found.iter().for_each(|(slot, bytes)| running.shared.take_again(bytes, *slot, &handler));
            drop(handler);
        })?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    fn spawn_reader<H: Handler>(&self, index: usize, handler: Arc<H>) -> io::Result<()> {
        let running = Running::new(&self.shared);
        let mut buffer = Buffer::of(&self.shared.device, index)?;
        let thread = thread::Builder::new().name(format!("fuse-{index}")).spawn(move || {
            wake::accept();
            running.shared.read_until_end(&mut buffer, &handler);
            drop(handler);
        })?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
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

/// Counts one reader, or a request that a spare thread has in its place, however it ends.
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
        while let Some(received) = self.receive(buffer) {
            match received {
                Ok(Received::Request(len)) => {
                    let (request, slot) = buffer.keep(kept, len);
                    if self.device.leaves(false) {
                        return;
                    }
                    let busy = self.busy.fetch_add(1, Ordering::Relaxed) + 1;
                    let is_scarce = busy + threads::KERNEL_READERS_FREE > self.readers;
                    self.take(request, slot, &**handler, is_scarce.then_some((handler, false)));
                    self.busy.fetch_sub(1, Ordering::Relaxed);
                    buffer.clear();
                }
                Ok(Received::Nothing) => {}
                Ok(Received::Ended) => return self.spares.close(),
                Err(failed) => {
                    tracing::error!(%failed, "reading from the FUSE device failed; the reader ends");
                    return;
                }
            }
        }
    }

    /// The next request, unless the session ends.
    fn receive(&self, buffer: &mut Buffer) -> Option<io::Result<Received>> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let goes_on = !self.stopping.load(Ordering::SeqCst) && buffer.reserve(self.device.kept.as_ref());
        let received = goes_on.then(|| self.device.receive(buffer.bytes()));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        received
    }

    /// Takes a request. With `spare` a spare thread may handle it in place of this one, and tells the handler of an INTERRUPT afterwards if
    /// one may have come before.
    fn take<H: Handler>(
        self: &Arc<Self>,
        bytes: &[u8],
        slot: Option<Slot>,
        handler: &H,
        spare: Option<(&Arc<H>, bool)>,
    ) {
        let code = bytes.get(4..8).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes);
        self.device.counts.count(code);
        let request = match request::decode(bytes) {
            Ok(request) => request,
            Err(malformed) => return self.refuse(&malformed),
        };
        let reply = Reply::new(Arc::clone(&self.device), request.unique, code, request.operation.wants_reply());
        let Some((request, reply)) = self.answer_own(request, reply.kept_in(slot)) else { return };
        if let Operation::Interrupt { unique } = request.operation {
            self.spares.interrupt(unique);
        }
        // Without a slot, the request is kept in the reader's intake, which the next one takes.
        let is_kept = slot.is_some() || self.device.kept.is_none();
        match spare.filter(|_| is_kept && handler.may_wait(&request)) {
            Some((handler, was_interrupted)) => {
                let handed = HandedRequest {
                    running: Running::new(self),
                    noted: handler.hand_over(&request),
                    handler: Arc::clone(handler),
                    unique: request.unique,
                    bytes: bytes.to_vec(),
                    reply: Some(reply),
                };
                if let Err(mut handed) = self.spares.take(Box::new(handed), was_interrupted) {
                    handed.handle();
                }
            }
            // The one request that is interrupted while its handler has it: it may wait before it can be.
            None if matches!(request.operation, Operation::Change(Change::SetLockWaiting(_))) => {
                let unique = request.unique;
                self.spares.note_begin(unique);
                handler.handle(request, reply);
                if self.spares.note_end(unique) {
                    self.interrupt(unique, handler);
                }
            }
            None => handler.handle(request, reply),
        }
    }

    /// Takes a request that another session had taken. Whether it was interrupted meanwhile is not known, and the kernel
    /// tells of that only once.
    fn take_again<H: Handler>(self: &Arc<Self>, bytes: &[u8], slot: Slot, handler: &Arc<H>) {
        self.take(bytes, Some(slot), &**handler, Some((handler, true)));
        if let Ok(Request { unique, .. }) = request::decode(bytes) {
            self.interrupt(unique, &**handler);
        }
    }

    /// Tells the handler that a request was interrupted, of which the kernel has told before.
    fn interrupt<H: Handler>(self: &Arc<Self>, unique: u64, handler: &H) {
        let operation = Operation::Interrupt { unique };
        let interrupt = Request { unique: 0, node: 0, uid: 0, gid: 0, pid: 0, operation };
        // Of no opcode, so that the kernel, which asked nothing, is answered nothing.
        handler.handle(interrupt, Reply::new(Arc::clone(&self.device), 0, 0, false));
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
            Reply::new(Arc::clone(&self.device), unique, malformed.opcode.unwrap_or(0), true).error(Errno::EIO);
        }
    }
}

/// A request that a spare thread handles.
struct HandedRequest<H> {
    running: Running,
    handler: Arc<H>,
    /// The handler's note of the request.
    noted: Box<dyn Send>,
    unique: u64,
    bytes: Vec<u8>,
    reply: Option<Reply>,
}

impl<H: Handler> Handed for HandedRequest<H> {
    fn unique(&self) -> u64 {
        self.unique
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn handle(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        match request::decode(&self.bytes) {
            Ok(request) => self.handler.handle(request, reply),
            Err(_) => reply.error(Errno::EIO),
        }
        self.noted = Box::new(());
    }

    fn interrupt(&self) {
        self.running.shared.interrupt(self.unique, &*self.handler);
    }

    fn give_back(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply.error(Errno::EIO);
        }
    }
}
