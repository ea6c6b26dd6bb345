//! Locks that programs set and give back.

use forebay_fuse::{Lock, OwnedRequest, Request};
use forebay_types::Errno;
use forebay_wire::write::{Caller, Operation};

use super::kernel::Kernel;
use super::locks::{Waiter, request_of};
use crate::write::kernel_ids::file_of;

impl Kernel {
    /// A program that gets a lock sees what was written under it, and one that gives it back shows what it has written.
    pub async fn lock(&self, request: &Request<'_>, lock: &Lock) -> Result<(), Errno> {
        let (file, asked) = (file_of(request.node), request_of(lock)?);
        self.committing.commit(file).await?;
        let operation = Operation::Lock { file, request: asked };
        let closed_before = self.locking.closed(file);
        let mut outcome = self.carry_out(request, operation.clone()).await.map(drop);
        if outcome == Err(Errno::EAGAIN) && self.locking.may_be_free(file, closed_before).await {
            // The first has had its answer.
            outcome = self.commits.carry_out_own(&Caller::default(), operation).await;
        }
        if outcome == Err(Errno::EAGAIN) { self.locking.convert(file, asked).await } else { outcome }?;
        self.locking.note(file, &asked);
        self.locking.wake();
        Ok(())
    }

    /// The same for a program that waits for it.
    pub async fn lock_waiting(&self, owned: &OwnedRequest, lock: &Lock) -> Result<(), Errno> {
        let request = owned.request();
        let (file, asked) = (file_of(request.node), request_of(lock)?);
        self.committing.commit(file).await?;
        let waiter = Waiter { interruption: owned.interruption(), is_again: owned.is_again(), tid: request.pid };
        self.locking.wait(file, asked, &waiter).await
    }
}
