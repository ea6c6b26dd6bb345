//! The kernel's requests.

use forebay_types::Errno;
use forebay_types::Time;
use forebay_wire::ListingEntry;

use super::state::ReadPath;
use crate::effect::{Entry, KernelAnswer, KernelRequest, KernelTicket};
use crate::inode_id::InodeId;
use crate::links::shown_attributes;
use crate::names::Known;
use crate::waiter::Reader;

impl<B: Clone> ReadPath<B> {
    /// Answers a request of the kernel at once, or `None`: the answer comes as an effect under `ticket`.
    pub fn handle_kernel(
        &mut self,
        now: Time,
        ticket: KernelTicket,
        request: KernelRequest,
    ) -> Option<KernelAnswer<B>> {
        self.now = now;
        match request {
            KernelRequest::Read { inode, extent } => self.read(now.after(self.options.deadline), ticket, inode, extent),
            _ => match self.operation_of(request) {
                Ok(operation) => self.attempt(now, ticket, operation, Known::default()),
                Err(errno) => Some(KernelAnswer::Failed(errno)),
            },
        }
    }

    /// Takes a request of the process that looks at the view for this node: as a program's, but it is no use.
    pub fn handle_walker(
        &mut self,
        now: Time,
        ticket: KernelTicket,
        request: KernelRequest,
    ) -> Option<KernelAnswer<B>> {
        self.recording.pause(true);
        let answer = self.handle_kernel(now, ticket, request);
        self.recording.pause(false);
        answer
    }

    /// The kernel's caller is being killed: answers `EINTR` if the request still waits here. `false` if it does not.
    pub fn handle_interrupt(&mut self, ticket: KernelTicket) -> bool {
        let waited = self.withdraw(Reader::Kernel(ticket));
        if waited {
            self.tell_kernel(ticket, KernelAnswer::Failed(Errno::EINTR));
        }
        waited
    }

    /// The kernel forgot `count` lookups of an inode.
    pub fn handle_forget(&mut self, inode: InodeId, count: u64) {
        self.inodes.forget(inode, count);
    }

    /// Counts a lookup of an entry that is about to be told to the kernel with a directory's contents. `None` when the
    /// listing came without attributes or the path would be too long: the kernel will look it up.
    pub fn remember_entry(&mut self, dir: InodeId, entry: &ListingEntry<'_>) -> Option<Entry> {
        let attributes = entry.attributes?;
        let path = self.inodes.get(dir)?.path.join(entry.name).ok()?;
        let attributes = shown_attributes(self.options.links.as_ref(), attributes, entry.target);
        Some(Entry { inode: self.inodes.remember(path, &attributes), attributes })
    }
}
