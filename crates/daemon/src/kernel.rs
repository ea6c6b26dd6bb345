//! The kernel's requests and the daemon's answers.
//!
//! A hit is answered on the reader's thread, straight from the cache's buffers. What must wait is parked under the
//! kernel's number of the request, where an interrupt finds it, and is answered by whoever brings the last byte.

use std::sync::Arc;
use std::time::Duration;

use forebay_body::Body;
use forebay_fuse::{Handler, Operation, Reply, Request};
use forebay_node::{InodeId, KernelAnswer, KernelRequest, KernelTicket, Part};
use forebay_types::{Errno, Extent};

use crate::entry::{EntryTtl, for_kernel};
use crate::service::{Core, Service};
use crate::waiting::{About, Parked, Position};
use crate::{directory, interrupts, ioctl};

/// How long after a loss its bytes are asked for again.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Takes the kernel's requests.
pub(super) struct KernelHandler {
    service: Arc<Service>,
}

impl KernelHandler {
    pub fn new(service: Arc<Service>) -> Self {
        Self { service }
    }

    fn ask(&self, asked: &Request<'_>, reply: Reply, request: KernelRequest<'_>) {
        let about = match request {
            KernelRequest::Read { inode, extent } => About::Read(inode, extent),
            _ => About::Other,
        };
        self.ask_parked(asked, reply, about, request);
    }

    fn read_directory(&self, request: &Request<'_>, reply: Reply, (offset, size): (u64, u32), plus: bool) {
        let position = Position { inode: InodeId(request.node), offset, size, plus };
        let kernel_request = KernelRequest::Directory { inode: position.inode };
        self.ask_parked(request, reply, About::Directory(position), kernel_request);
    }

    fn forget(&self, forgets: impl Iterator<Item = (u64, u64)>) {
        let mut core = self.service.core();
        forgets.for_each(|(node, count)| core.handle_forget(InodeId(node), count));
    }

    fn ask_parked(&self, asked: &Request<'_>, reply: Reply, about: About, request: KernelRequest<'_>) {
        let now = self.service.now();
        let ticket = KernelTicket(asked.unique);
        let is_walker = self.service.prefill().walker_pid() == Some(asked.pid);
        let deadline = now.after(self.service.options.deadline);
        let parked = Parked { reply, tid: asked.pid, signalled: None, deadline, about };
        decide(&self.service, ticket, parked, |core| match is_walker {
            true => core.handle_walker(now, ticket, request),
            false => core.handle_kernel(now, ticket, request),
        });
    }
}

/// Lets the core answer a request now, or parks it until there is an answer.
fn decide(
    service: &Arc<Service>,
    ticket: KernelTicket,
    parked: Parked,
    handle: impl FnOnce(&mut Core) -> Option<KernelAnswer<Arc<Body>>>,
) {
    let mut parked = Some(parked);
    let answer = service.with_core(|core| {
        let answer = handle(core);
        if answer.is_none()
            && let Some(parked) = parked.take()
        {
            service.waiting().park(ticket, parked);
        }
        Some((answer?, service.entry_ttl(core)))
    });
    if let (Some((answer, ttl)), Some(parked)) = (answer, parked) {
        answer_now(service, ticket, parked, answer, &ttl);
    }
}

impl Handler for KernelHandler {
    fn handle(&self, request: Request<'_>, reply: Reply) {
        let inode = InodeId(request.node);
        match &request.operation {
            // First, and before any lock: Python asks it of every file it opens (isatty).
            Operation::Ioctl { is_dir: false, .. } => reply.error(Errno::ENOTTY),
            Operation::Ioctl { command, input, output_bytes, .. } => {
                ioctl::answer(&self.service, inode, *command, input, *output_bytes, reply);
            }
            Operation::Lookup { name } => self.ask(&request, reply, KernelRequest::Lookup { parent: inode, name }),
            Operation::Read { offset, size, .. } => {
                let extent = Extent { offset_bytes: *offset, len_bytes: u64::from(*size) };
                self.ask(&request, reply, KernelRequest::Read { inode, extent });
            }
            Operation::Getattr { .. } => self.ask(&request, reply, KernelRequest::Attributes { inode }),
            Operation::Readlink => self.ask(&request, reply, KernelRequest::Readlink { inode }),
            Operation::Readdir { offset, size, .. } => self.read_directory(&request, reply, (*offset, *size), false),
            Operation::Readdirplus { offset, size, .. } => self.read_directory(&request, reply, (*offset, *size), true),
            Operation::Statfs => self.ask(&request, reply, KernelRequest::FileSystem { inode }),
            Operation::Forget { count } => {
                self.forget(std::iter::once((request.node, *count)));
                reply.none();
            }
            Operation::BatchForget(forgets) => {
                self.forget(forgets.clone());
                reply.none();
            }
            Operation::Interrupt { unique } => interrupts::handle(&self.service, KernelTicket(*unique), reply),
            operation => {
                let errno = operation.default_error();
                reply.error(errno);
            }
        }
    }
}

/// Answers a parked request; nothing to do when it was interrupted meanwhile.
pub(super) fn answer_parked(
    service: &Arc<Service>,
    ticket: KernelTicket,
    answer: KernelAnswer<Arc<Body>>,
    ttl: &EntryTtl,
) {
    if let Some(parked) = service.waiting().take(ticket) {
        answer_now(service, ticket, parked, answer, ttl);
    }
}

fn answer_now(
    service: &Arc<Service>,
    ticket: KernelTicket,
    parked: Parked,
    answer: KernelAnswer<Arc<Body>>,
    ttl: &EntryTtl,
) {
    let reply = match answer {
        KernelAnswer::Read(parts) => return answer_read(service, ticket, parked, parts),
        KernelAnswer::Directory(listing) => match parked.about {
            About::Directory(position) => return directory::answer(service, position, &listing, ttl, parked.reply),
            _ => return parked.reply.error(Errno::EIO),
        },
        _ => parked.reply,
    };
    match answer {
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
fn answer_read(service: &Arc<Service>, ticket: KernelTicket, parked: Parked, parts: Vec<Part<Arc<Body>>>) {
    let lacking = parts.iter().find(|part| part.body.filled_bytes() < part.offset_bytes + part.len_bytes);
    let Some(Part { body, offset_bytes, len_bytes }) = lacking else {
        let slices: Vec<_> =
            parts.iter().flat_map(|part| part.body.slices(part.offset_bytes, part.len_bytes)).collect();
        return parked.reply.gather(&slices);
    };
    let (body, end) = (Arc::clone(body), offset_bytes + len_bytes);
    service.waiting().park(ticket, parked);
    let service = Arc::clone(service);
    body.when_filled(end, move |outcome| {
        let Some(parked) = service.waiting().take(ticket) else {
            return;
        };
        match outcome {
            Ok(()) => answer_read(&service, ticket, parked, parts),
            Err(Errno::WAY_LOST) => read_again(&service, ticket, parked),
            Err(errno) => parked.reply.error(errno),
        }
    });
}

/// Asks for a read's bytes again, as the rest of them got lost on its way. A moment later: the core must have heard of
/// the loss before, or it would hand out the same broken body.
fn read_again(service: &Arc<Service>, ticket: KernelTicket, parked: Parked) {
    let About::Read(inode, extent) = parked.about else {
        return parked.reply.error(Errno::EIO);
    };
    let deadline = parked.deadline;
    service.waiting().park(ticket, parked);
    let at = Arc::clone(service);
    service.runtime.spawn(async move {
        tokio::time::sleep(AGAIN_AFTER).await;
        let now = at.now();
        if let Some(parked) = at.waiting().take(ticket) {
            decide(&at, ticket, parked, |core| core.handle_read_again(now, deadline, ticket, inode, extent));
        }
    });
}
