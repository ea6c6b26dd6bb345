//! What is remembered of a kernel request until its answer is known.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_fuse::Reply;
use forebay_node::{InodeId, KernelTicket};
use forebay_types::{Extent, Time};

/// A request that waits for its answer.
pub struct Parked {
    /// By which it is answered.
    pub reply: Reply,
    /// When it is answered whatever happens.
    pub deadline: Time,
    /// What is needed to answer it, beside the answer.
    pub about: About,
}

/// What a waiting request is about.
#[derive(Clone, Copy, Debug)]
pub enum About {
    /// A directory's entries from here on.
    Directory(Position),
    /// Bytes of a file; asked for again when they get lost on their way.
    Read(InodeId, Extent),
    /// Anything else.
    Other,
}

/// Where a reader of a directory stands and what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The directory.
    pub inode: InodeId,
    /// Behind which entry to go on.
    pub offset: u64,
    /// Bytes the answer may have.
    pub size: u32,
    /// With attributes.
    pub plus: bool,
}

/// The requests that wait.
#[derive(Default)]
pub struct WaitingRequests(Mutex<HashMap<KernelTicket, Parked>>);

impl WaitingRequests {
    /// Makes a place for an answer. With the core locked, where the core is to answer.
    pub fn park(&self, ticket: KernelTicket, parked: Parked) {
        self.table().insert(ticket, parked);
    }

    pub fn take(&self, ticket: KernelTicket) -> Option<Parked> {
        self.table().remove(&ticket)
    }

    /// Takes out the requests whose deadline was so long ago.
    pub fn take_late(&self, now: Time, grace: Duration) -> Vec<Parked> {
        let is_late = |parked: &mut Parked| parked.deadline.after(grace) <= now;
        self.table().extract_if(|_, parked| is_late(parked)).map(|(_, parked)| parked).collect()
    }

    /// A panic ends the process, so a poisoned lock is never seen.
    fn table(&self) -> MutexGuard<'_, HashMap<KernelTicket, Parked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
