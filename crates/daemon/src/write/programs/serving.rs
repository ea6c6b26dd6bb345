//! Taking the kernel's requests on the burst mount.
//!
//! A write that waits for nothing is made on the thread that has read it, from its buffer. Every other request is a task: it begins on that
//! thread, and where it has nothing to wait for, it also ends there.

use std::sync::Arc;

use forebay_fuse::{Change as Asked, Handler, Operation as Op, OwnedRequest, Reply, Request, Task};
use forebay_types::Errno;
use forebay_write::AskedFor;

use super::extended;
use super::kernel::{Kernel, answer_entry, entry};
use super::locks::Closing;
use super::requests::{Number, answer, caller};
use super::seeking::seek;
use crate::write::kernel_ids::{file_of, may_write};

impl Handler for Kernel {
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply> {
        match &request.operation {
            Op::Forget { .. } | Op::BatchForget(_) | Op::Interrupt { .. } => reply.none(),
            Op::Change(Asked::Write { data, .. })
                if self.joined.serves_writes_at_once() && self.write_at_once(&request) =>
            {
                reply.written(data.len() as u32);
            }
            _ => return Some(reply),
        }
        None
    }

    fn may_block(&self, request: &Request<'_>) -> bool {
        !matches!(request.operation, Op::Forget { .. } | Op::BatchForget(_) | Op::Interrupt { .. })
    }

    fn task(self: Arc<Self>, owned: OwnedRequest, reply: Reply) -> Task {
        let request = owned.request();
        // The leader remembers the outcomes of all changes since it came, and requests for a lock that a close ends wait for that.
        let number = self.under_way.begin(&request);
        let is_close = matches!(request.operation, Op::Release { .. });
        let closing = is_close.then(|| self.locking.closing(file_of(request.node)));
        let nodes = Arc::clone(&self.reader.nodes);
        nodes.calls.in_context(Box::pin(async move { self.serve(owned, (number, closing), reply).await }))
    }
}

impl Kernel {
    async fn serve(&self, owned: OwnedRequest, (number, closing): (Number, Option<Closing>), reply: Reply) {
        let request = owned.request();
        // A task has it from the beginning if the last reader has read it.
        if let Op::Change(Asked::Write { data, .. }) = &request.operation
            && self.is_written_at_once(&request)
        {
            return reply.written(data.len() as u32);
        }
        if let Err(errno) = self.admit(&request.operation).await {
            return reply.error(errno);
        }
        match &request.operation {
            Op::Release { flock_owner, .. } => {
                let close = self.close_retries.begin(&request, number, *flock_owner);
                drop(owned);
                self.close_retries.end(close, closing, reply).await;
            }
            Op::Change(Asked::Write { .. }) => self.write(owned, reply).await,
            Op::Change(Asked::SetLockWaiting(lock)) => answer(self.lock_waiting(&owned, lock).await, reply),
            Op::Change(asked) => self.change(&request, asked, reply).await,
            _ => self.look(&request, reply).await,
        }
    }

    /// Whether the request is a write that waits for nothing, and has been made.
    fn is_written_at_once(&self, request: &Request<'_>) -> bool {
        self.joined.serves_writes_at_once() && self.write_at_once(request)
    }

    /// Waits until programs are served. The kernel tells of a closed file only once, so that is taken in the end even if it is not known yet.
    async fn admit(&self, asked: &Op<'_>) -> Result<(), Errno> {
        match self.joined.until_served(&self.reader.nodes).await {
            Err(_) if self.joined.outcome().is_none() && matches!(asked, Op::Release { .. } | Op::Flush { .. }) => {
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Requests that change nothing in the tree.
    async fn look(&self, request: &Request<'_>, reply: Reply) {
        let file = file_of(request.node);
        match &request.operation {
            Op::Lookup { name } => answer_entry(self.look_up(request, name).await, reply),
            // The kernel names an open file before it reads on.
            Op::Getattr { handle } => {
                let purpose = if handle.is_some() { AskedFor::Reading } else { AskedFor::Other };
                self.get_attributes(file, purpose, reply).await;
            }
            Op::Readlink => match self.reader.tree.target(file).await {
                Ok(target) => reply.bytes(&target),
                Err(errno) => reply.error(errno),
            },
            Op::Open { flags } => self.open(request, *flags, reply).await,
            Op::Read { offset, size, .. } => match self.reader.read(&self.files, file, *offset, *size as usize).await {
                Ok((parts, state)) => {
                    self.cache.fill(&state);
                    reply.gather(&parts);
                }
                Err(errno) => reply.error(errno),
            },
            Op::Flush { lock_owner, handle } => {
                let flushed = self.committing.flush(request, may_write(*handle as u32)).await;
                answer(flushed.and(self.locking.release(file, *lock_owner, false).await), reply);
            }
            Op::Fsync { .. } => answer(self.committing.sync(request).await, reply),
            Op::Fsyncdir { .. } => answer(self.committing.sync_directory(file).await, reply),
            Op::Syncfs => answer(self.committing.make_durable(None).await, reply),
            Op::Opendir { .. } => reply.open(self.readings.open(), 0),
            Op::Releasedir { handle } => {
                self.readings.close(*handle);
                reply.ok();
            }
            Op::Readdir { handle, offset, size } => {
                self.read_directory(request.node, (*handle, *offset, *size), false, reply).await;
            }
            Op::Readdirplus { handle, offset, size } => {
                self.read_directory(request.node, (*handle, *offset, *size), true, reply).await;
            }
            _ => self.look_rarely(request, reply).await,
        }
    }

    /// Those that come rarely.
    async fn look_rarely(&self, request: &Request<'_>, reply: Reply) {
        let file = file_of(request.node);
        match &request.operation {
            Op::Access { mask } => {
                answer(self.reader.tree.check_access(&caller(request), file, *mask).await, reply);
            }
            Op::Lseek { offset, whence, .. } => {
                let is_mapped = self.files.find(file).is_some_and(|open| open.may_be_mapped());
                let may_be_mapped = is_mapped || self.cache.has_earlier();
                let found = match self.committing.commit(file).await {
                    Ok(()) => seek(&self.reader, may_be_mapped, file, *offset, *whence).await,
                    Err(errno) => Err(errno),
                };
                match found {
                    Ok(found) => reply.lseek(found),
                    Err(errno) => reply.error(errno),
                }
            }
            Op::Statfs => match self.reader.tree.file_system().await {
                Ok(sizes) => reply.statfs(&sizes),
                Err(errno) => reply.error(errno),
            },
            Op::Getxattr { .. } | Op::Listxattr { .. } => extended::answer(&self.reader.tree, request, reply).await,
            // The kernel does without it, and does not ask again: it copies ranges itself.
            Op::Other(_) => reply.error(Errno::ENOSYS),
            operation => {
                let errno = operation.default_error();
                reply.error(errno);
            }
        }
    }

    async fn change(&self, request: &Request<'_>, asked: &Asked<'_>, reply: Reply) {
        match asked {
            Asked::Create { name, mode, flags } => {
                self.answer_created(self.create(request, name, (*mode, *flags)).await, request, *flags, reply);
            }
            Asked::CreateUnnamed { mode, flags } => {
                self.answer_created(self.create_unnamed(request, (*mode, *flags)).await, request, *flags, reply);
            }
            Asked::SetAttributes(new) => self.answer_attributes(self.set_attributes(request, new).await, reply),
            Asked::Fallocate { offset, len, mode, .. } => {
                answer(self.allocate(request, *offset, *len, *mode).await, reply);
            }
            Asked::GetLock(lock) => match self.locking.in_the_way(file_of(request.node), lock).await {
                Ok(lock) => reply.lock(&lock),
                Err(errno) => reply.error(errno),
            },
            Asked::SetExtended { .. } | Asked::RemoveExtended { .. } => {
                let set = match extended::setting(request, asked) {
                    Ok(set) => self.carry_out(request, set).await.map(drop),
                    Err(errno) => Err(errno),
                };
                answer(set, reply);
            }
            Asked::SetLock(lock) => answer(self.lock(request, lock).await, reply),
            _ => match self.change_name(request, asked).await {
                Ok(Some(state)) => reply.entry(&entry(&state)),
                Ok(None) => reply.ok(),
                Err(errno) => reply.error(errno),
            },
        }
    }
}
