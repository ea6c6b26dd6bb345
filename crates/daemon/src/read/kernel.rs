//! The kernel's requests and the daemon's answers.
//!
//! A hit is answered on the reader's thread, straight from the cache's buffers. A request that must wait is parked
//! under its kernel number, where an interrupt finds it, and is answered by whoever brings the last byte.

use std::sync::Arc;
use std::time::Duration;

use forebay_body::Body;
use forebay_fuse::{Handler, Operation, ROOT_NODE, Reply, Request};
use forebay_read::{InodeId, KernelAnswer, KernelRequest, KernelTicket, Part};
use forebay_types::{Errno, Extent, Time};

use super::core::{Core, ReadCore};
use super::directory;
use super::entry_ttl::EntryTtl;
use super::frequent::{Frequent, NameSort};
use super::interrupts::Interrupts;
use super::ioctl::Ioctls;
use super::kernel_entry::for_kernel;
use super::prefill::Prefill;
use super::waiting::{About, Parked, Position, WaitingRequests};
use crate::shared::node::Node;

/// How long after a loss its bytes are asked for again.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How long after its deadline a request is answered by the shell: the core, which does it in time, knows nothing of those
/// whose bytes were on their way already.
const DEADLINE_GRACE: Duration = Duration::from_millis(500);

/// The kernel's requests of one view.
pub struct Kernel {
    node: Arc<Node>,
    core: Arc<Core>,
    prefill: Arc<Prefill>,
    ioctls: Ioctls,
    waiting: Arc<WaitingRequests>,
    interrupts: Interrupts,
    /// Directories of absent names, by lookups, and files, by bytes that programs read.
    pub absent: Frequent,
    pub read: Frequent,
}

impl Kernel {
    pub fn new(node: &Arc<Node>, core: &Arc<Core>, prefill: &Arc<Prefill>, ioctls: Ioctls) -> Arc<Self> {
        let waiting = Arc::default();
        Arc::new(Self {
            interrupts: Interrupts::new(node, core, &waiting),
            waiting,
            node: Arc::clone(node),
            core: Arc::clone(core),
            prefill: Arc::clone(prefill),
            ioctls,
            absent: Frequent::default(),
            read: Frequent::default(),
        })
    }

    fn ask(self: &Arc<Self>, asked: &Request<'_>, reply: Reply, request: KernelRequest<'_>) {
        let about = match request {
            KernelRequest::Read { inode, extent } => About::Read(inode, extent),
            KernelRequest::Lookup { parent, name } => About::Name(parent, NameSort::of(name)),
            _ => About::Other,
        };
        self.ask_parked(asked, reply, about, request);
    }

    fn read_directory(self: &Arc<Self>, request: &Request<'_>, reply: Reply, (offset, size): (u64, u32), plus: bool) {
        let position = Position { inode: InodeId(request.node), offset, size, plus };
        let kernel_request = KernelRequest::Directory { inode: position.inode };
        self.ask_parked(request, reply, About::Directory(position), kernel_request);
    }

    fn forget(&self, forgets: impl Iterator<Item = (u64, u64)>) {
        let mut core = self.core.lock();
        forgets.for_each(|(node, count)| core.handle_forget(InodeId(node), count));
    }

    fn ask_parked(self: &Arc<Self>, asked: &Request<'_>, reply: Reply, about: About, request: KernelRequest<'_>) {
        let ticket = KernelTicket(asked.unique);
        let is_walker = self.prefill.walker_pid() == Some(asked.pid);
        let deadline = self.node.now().after(self.node.options.deadline);
        let parked = Parked { reply, tid: asked.pid, signalled: None, deadline, about };
        self.decide(ticket, parked, |core, now| match is_walker {
            true => core.handle_walker(now, ticket, request),
            false => core.handle_kernel(now, ticket, request),
        });
    }

    /// Lets the core answer a request now, or parks it until there is an answer.
    fn decide(
        self: &Arc<Self>,
        ticket: KernelTicket,
        parked: Parked,
        handle: impl FnOnce(&mut ReadCore, Time) -> Option<KernelAnswer<Arc<Body>>>,
    ) {
        let mut parked = Some(parked);
        let answer = self.core.decide(|core, now| {
            let answer = handle(core, now);
            if answer.is_none()
                && let Some(parked) = parked.take()
            {
                self.waiting.park(ticket, parked);
            }
            Some((answer?, self.core.entry_ttl(core)))
        });
        if let (Some((answer, ttl)), Some(parked)) = (answer, parked) {
            self.answer_now(ticket, parked, answer, &ttl);
        }
    }

    /// Ends the requests of programs that are killed, for as long as the daemon runs.
    pub async fn watch_interrupts(&self) {
        self.interrupts.watch().await;
    }

    /// Answers a parked request; nothing to do when it was interrupted meanwhile.
    pub fn answer_parked(self: &Arc<Self>, ticket: KernelTicket, answer: KernelAnswer<Arc<Body>>, ttl: &EntryTtl) {
        if let Some(parked) = self.waiting.take(ticket) {
            self.answer_now(ticket, parked, answer, ttl);
        }
    }

    /// Answers the requests whose time has been over for a while.
    pub fn give_up_late(&self) {
        let late = self.waiting.take_late(self.node.now(), DEADLINE_GRACE);
        late.into_iter().for_each(|parked| parked.reply.error(Errno::ETIMEDOUT));
    }

    fn answer_now(
        self: &Arc<Self>,
        ticket: KernelTicket,
        parked: Parked,
        answer: KernelAnswer<Arc<Body>>,
        ttl: &EntryTtl,
    ) {
        let reply = match answer {
            KernelAnswer::Read(parts) => return self.answer_read(ticket, parked, parts),
            KernelAnswer::Directory(listing) => match parked.about {
                About::Directory(position) => {
                    return directory::answer(&self.core, ttl, position, &listing, parked.reply);
                }
                _ => return parked.reply.error(Errno::EIO),
            },
            _ => parked.reply,
        };
        if let (KernelAnswer::Absent, About::Name(directory, sort)) = (&answer, parked.about) {
            self.absent.note(directory, sort, 1);
        }
        // The kernel forgets absent names with the name of their directory (`view`), and the root has none.
        let is_in_root = matches!(parked.about, About::Name(InodeId(ROOT_NODE), _));
        match answer {
            KernelAnswer::Absent if is_in_root => reply.negative(Duration::ZERO),
            KernelAnswer::Entry(entry) => reply.entry(&for_kernel(entry, ttl)),
            KernelAnswer::Absent => reply.negative(ttl.get()),
            KernelAnswer::Attributes(attributes) => reply.attributes(&attributes, ttl.get()),
            KernelAnswer::Target(target) => reply.bytes(&target),
            KernelAnswer::FileSystem(sizes) => reply.statfs(&sizes),
            KernelAnswer::Failed(errno) => reply.error(errno),
            KernelAnswer::Directory(_) | KernelAnswer::Read(_) => reply.error(Errno::EIO),
        }
    }

    /// Answers a read when all its bytes are there: at once, or when the last piece arrives.
    fn answer_read(self: &Arc<Self>, ticket: KernelTicket, parked: Parked, parts: Vec<Part<Arc<Body>>>) {
        let lacking = parts.iter().find(|part| part.body.filled_bytes() < part.offset_bytes + part.len_bytes);
        let Some(Part { body, offset_bytes, len_bytes }) = lacking else {
            let slices: Vec<_> =
                parts.iter().flat_map(|part| part.body.slices(part.offset_bytes, part.len_bytes)).collect();
            if let About::Read(inode, _) = parked.about {
                self.read.note(inode, NameSort::Other, slices.iter().map(|slice| slice.len() as u64).sum());
            }
            return parked.reply.gather(&slices);
        };
        let (body, end) = (Arc::clone(body), offset_bytes + len_bytes);
        self.waiting.park(ticket, parked);
        let kernel = Arc::clone(self);
        body.when_filled(end, move |outcome| {
            let Some(parked) = kernel.waiting.take(ticket) else {
                return;
            };
            match outcome {
                Ok(()) => kernel.answer_read(ticket, parked, parts),
                Err(Errno::WAY_LOST) => kernel.read_again(ticket, parked),
                Err(errno) => parked.reply.error(errno),
            }
        });
    }

    /// Asks for a read's bytes again, as the rest of them got lost on its way. A moment later: the core must have heard of
    /// the loss before, or it would hand out the same broken body.
    fn read_again(self: &Arc<Self>, ticket: KernelTicket, parked: Parked) {
        let About::Read(inode, extent) = parked.about else {
            return parked.reply.error(Errno::EIO);
        };
        let deadline = parked.deadline;
        // The body may have ended at the deadline of somebody who asked before; this one goes by its own.
        if deadline <= self.node.now() {
            return parked.reply.error(Errno::ETIMEDOUT);
        }
        self.waiting.park(ticket, parked);
        let kernel = Arc::clone(self);
        self.node.spawn(async move {
            tokio::time::sleep(AGAIN_AFTER).await;
            if let Some(parked) = kernel.waiting.take(ticket) {
                kernel.decide(ticket, parked, |core, now| core.handle_read_again(now, deadline, ticket, inode, extent));
            }
        });
    }
}

/// Takes the requests of the view's session.
pub struct KernelHandler(pub Arc<Kernel>);

impl Handler for KernelHandler {
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply> {
        self.answer(request, reply);
        None
    }
}

impl KernelHandler {
    fn answer(&self, request: Request<'_>, reply: Reply) {
        let (kernel, inode) = (&self.0, InodeId(request.node));
        match &request.operation {
            // First, and before any lock: Python asks it of every file it opens (isatty).
            Operation::Ioctl { is_dir: false, .. } => reply.error(Errno::ENOTTY),
            Operation::Ioctl { command, input, output_bytes, .. } => {
                kernel.ioctls.answer((inode, request.uid), *command, input, *output_bytes, reply);
            }
            Operation::Lookup { name } => kernel.ask(&request, reply, KernelRequest::Lookup { parent: inode, name }),
            Operation::Read { offset, size, .. } => {
                let extent = Extent { offset_bytes: *offset, len_bytes: u64::from(*size) };
                kernel.ask(&request, reply, KernelRequest::Read { inode, extent });
            }
            Operation::Getattr { .. } => kernel.ask(&request, reply, KernelRequest::Attributes { inode }),
            Operation::Readlink => kernel.ask(&request, reply, KernelRequest::Readlink { inode }),
            Operation::Readdir { offset, size, .. } => kernel.read_directory(&request, reply, (*offset, *size), false),
            Operation::Readdirplus { offset, size, .. } => {
                kernel.read_directory(&request, reply, (*offset, *size), true)
            }
            Operation::Statfs => kernel.ask(&request, reply, KernelRequest::FileSystem { inode }),
            Operation::Forget { count } => {
                kernel.forget(std::iter::once((request.node, *count)));
                reply.none();
            }
            Operation::BatchForget(forgets) => {
                kernel.forget(forgets.clone());
                reply.none();
            }
            Operation::Interrupt { unique } => kernel.interrupts.handle(KernelTicket(*unique), reply),
            operation => {
                let errno = operation.default_error();
                reply.error(errno);
            }
        }
    }
}
