//! The kernel's requests and the daemon's answers.
//!
//! A hit is answered on the reader's thread, straight from the cache's buffers. What must wait is parked under the
//! kernel's number of the request, where an interrupt finds it, and is answered by whoever brings the last byte.

use std::sync::Arc;

use forebay_body::Body;
use forebay_fuse::{Handler, Operation, Reply, Request};
use forebay_node::{InodeId, KernelAnswer, KernelRequest, KernelTicket, Part};
use forebay_types::{Errno, Extent};

use super::entry::{FOR_EVER, for_kernel};
use super::service::Service;
use super::waiting::{Parked, Position};
use super::{directory, ioctl};

/// Takes the kernel's requests.
pub(super) struct KernelHandler {
    service: Arc<Service>,
}

impl KernelHandler {
    pub fn new(service: Arc<Service>) -> Self {
        Self { service }
    }

    fn ask(&self, unique: u64, reply: Reply, request: KernelRequest<'_>) {
        self.ask_parked(unique, Parked { reply, position: None }, request);
    }

    fn read_directory(&self, request: &Request<'_>, reply: Reply, (offset, size): (u64, u32), plus: bool) {
        let position = Position { inode: InodeId(request.node), offset, size, plus };
        let kernel_request = KernelRequest::Directory { inode: position.inode };
        self.ask_parked(request.unique, Parked { reply, position: Some(position) }, kernel_request);
    }

    fn forget(&self, forgets: impl Iterator<Item = (u64, u64)>) {
        let mut core = self.service.core();
        forgets.for_each(|(node, count)| core.handle_forget(InodeId(node), count));
    }

    fn ask_parked(&self, unique: u64, parked: Parked, request: KernelRequest<'_>) {
        let ticket = KernelTicket(unique);
        let now = self.service.now();
        let mut parked = Some(parked);
        let answer = self.service.with_core(|core| {
            let answer = core.handle_kernel(now, ticket, request);
            if answer.is_none()
                && let Some(parked) = parked.take()
            {
                self.service.park_kernel(ticket, parked);
            }
            answer
        });
        if let (Some(answer), Some(parked)) = (answer, parked) {
            answer_now(&self.service, ticket, parked, answer);
        }
    }
}

impl Handler for KernelHandler {
    fn handle(&self, request: Request<'_>, reply: Reply) {
        let inode = InodeId(request.node);
        let unique = request.unique;
        match &request.operation {
            // First, and before any lock: Python asks it of every file it opens (isatty).
            Operation::Ioctl { is_dir: false, .. } => reply.error(Errno::ENOTTY),
            Operation::Ioctl { command, input, output_bytes, .. } => {
                ioctl::answer(&self.service, inode, *command, input, *output_bytes, reply);
            }
            Operation::Lookup { name } => self.ask(unique, reply, KernelRequest::Lookup { parent: inode, name }),
            Operation::Read { offset, size, .. } => {
                let extent = Extent { offset_bytes: *offset, len_bytes: u64::from(*size) };
                self.ask(unique, reply, KernelRequest::Read { inode, extent });
            }
            Operation::Getattr { .. } => self.ask(unique, reply, KernelRequest::Attributes { inode }),
            Operation::Readlink => self.ask(unique, reply, KernelRequest::Readlink { inode }),
            Operation::Readdir { offset, size, .. } => self.read_directory(&request, reply, (*offset, *size), false),
            Operation::Readdirplus { offset, size, .. } => self.read_directory(&request, reply, (*offset, *size), true),
            Operation::Statfs => self.ask(unique, reply, KernelRequest::FileSystem { inode }),
            Operation::Forget { count } => {
                self.forget(std::iter::once((request.node, *count)));
                reply.none();
            }
            Operation::BatchForget(forgets) => {
                self.forget(forgets.clone());
                reply.none();
            }
            Operation::Interrupt { unique } => {
                interrupt(&self.service, KernelTicket(*unique));
                reply.none();
            }
            operation => {
                let errno = operation.default_error();
                reply.error(errno);
            }
        }
    }
}

/// Answers `EINTR` to a request that waits, wherever it waits.
fn interrupt(service: &Arc<Service>, ticket: KernelTicket) {
    if !service.with_core(|core| core.handle_interrupt(ticket))
        && let Some(parked) = service.take_kernel(ticket)
    {
        parked.reply.error(Errno::EINTR);
    }
}

/// Answers a parked request; nothing to do when it was interrupted meanwhile.
pub(super) fn answer_parked(service: &Arc<Service>, ticket: KernelTicket, answer: KernelAnswer<Arc<Body>>) {
    if let Some(parked) = service.take_kernel(ticket) {
        answer_now(service, ticket, parked, answer);
    }
}

fn answer_now(service: &Arc<Service>, ticket: KernelTicket, parked: Parked, answer: KernelAnswer<Arc<Body>>) {
    let Parked { reply, position } = parked;
    match answer {
        KernelAnswer::Entry(entry) => reply.entry(&for_kernel(entry)),
        KernelAnswer::Absent => reply.negative(FOR_EVER),
        KernelAnswer::Attributes(attributes) => reply.attributes(&attributes, FOR_EVER),
        KernelAnswer::Target(target) => reply.bytes(&target),
        KernelAnswer::Directory(listing) => match position {
            Some(position) => directory::answer(service, position, &listing, reply),
            None => reply.error(Errno::EIO),
        },
        KernelAnswer::Read(parts) => answer_read(service, ticket, reply, parts),
        KernelAnswer::FileSystem(sizes) => reply.statfs(&sizes),
        KernelAnswer::Failed(errno) => reply.error(errno),
    }
}

/// Answers a read when all its bytes are there: at once, or when the last piece arrives.
fn answer_read(service: &Arc<Service>, ticket: KernelTicket, reply: Reply, parts: Vec<Part<Arc<Body>>>) {
    let lacking = parts.iter().find(|part| part.body.filled_bytes() < part.offset_bytes + part.len_bytes);
    let Some(Part { body, offset_bytes, len_bytes }) = lacking else {
        let slices: Vec<_> =
            parts.iter().flat_map(|part| part.body.slices(part.offset_bytes, part.len_bytes)).collect();
        return reply.gather(&slices);
    };
    let (body, end) = (Arc::clone(body), offset_bytes + len_bytes);
    service.park_kernel(ticket, Parked { reply, position: None });
    let service = Arc::clone(service);
    body.when_filled(end, move |outcome| {
        let Some(Parked { reply, .. }) = service.take_kernel(ticket) else {
            return;
        };
        match outcome {
            Ok(()) => answer_read(&service, ticket, reply, parts),
            Err(errno) => reply.error(errno),
        }
    });
}
