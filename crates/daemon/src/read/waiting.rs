//! The state of a kernel request until its answer is known.
//!
//! Code that goes on with a request takes it out and, if it has to wait again, parks it again. All that is known of it
//! goes with it, also a signal of its task: no trace is left of an answered request.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_fuse::Reply;
use forebay_read::{InodeId, KernelTicket};
use forebay_types::{Extent, Time};
use tokio::sync::Notify;

use super::frequent::NameSort;

/// A request that waits for its answer.
pub struct Parked {
    /// By which it is answered.
    pub reply: Reply,
    /// The thread that waits for it, in the daemon's pid namespace; 0 when it is none of it.
    pub tid: u32,
    /// When its task got a signal, or was last looked at since then.
    pub signalled: Option<Time>,
    /// When it is answered whatever happens.
    pub deadline: Time,
    /// The facts that its answer needs, beside the answer.
    pub about: About,
}

/// The subject of a waiting request.
#[derive(Clone, Copy, Debug)]
pub enum About {
    /// A directory's entries from here on.
    Directory(Position),
    /// Bytes of a file; asked for again when they get lost on their way.
    Read(InodeId, Extent),
    /// A name in a directory.
    Name(InodeId, NameSort),
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
pub struct WaitingRequests {
    table: Mutex<Table>,
    signal: Notify,
}

#[derive(Default)]
struct Table {
    parked: HashMap<KernelTicket, Parked>,
    /// Interrupts of requests that are not here: not yet, not at the moment, or no longer.
    overtaken: Vec<Reply>,
}

impl WaitingRequests {
    /// Makes a place for an answer.
    pub fn park(&self, ticket: KernelTicket, parked: Parked) {
        if parked.signalled.is_some() {
            self.signal.notify_one();
        }
        self.table().parked.insert(ticket, parked);
    }

    pub fn take(&self, ticket: KernelTicket) -> Option<Parked> {
        self.table().parked.remove(&ticket)
    }

    /// Takes out the requests whose deadline was so long ago.
    pub fn take_late(&self, now: Time, grace: Duration) -> Vec<Parked> {
        let is_late = |parked: &mut Parked| parked.deadline.after(grace) <= now;
        self.table().parked.extract_if(|_, parked| is_late(parked)).map(|(_, parked)| parked).collect()
    }

    /// The task of a request got a signal: the thread that waits, from now on among those that are looked at. `None` when
    /// the request is not here; `interrupt` is kept then.
    pub fn note_signal(&self, now: Time, ticket: KernelTicket, interrupt: Reply) -> Option<u32> {
        self.signal.notify_one();
        let mut table = self.table();
        if let Some(parked) = table.parked.get_mut(&ticket) {
            parked.signalled = Some(now);
            return Some(parked.tid);
        }
        if table.overtaken.len() < forebay_fuse::limits::KERNEL_REQUESTS_KEPT {
            table.overtaken.push(interrupt);
        }
        None
    }

    /// Takes out the interrupts of requests that were not here.
    pub fn take_overtaken(&self) -> Vec<Reply> {
        std::mem::take(&mut self.table().overtaken)
    }

    /// Those of which it is longest ago that they were looked at, `count` at most, with the threads that wait.
    pub fn signalled(&self, now: Time, count: usize) -> Vec<(KernelTicket, u32)> {
        let mut table = self.table();
        let mut found: Vec<(Time, KernelTicket, &mut Parked)> =
            table.parked.iter_mut().filter_map(|(ticket, parked)| Some((parked.signalled?, *ticket, parked))).collect();
        found.sort_unstable_by_key(|(looked_at, ticket, _)| (*looked_at, *ticket));
        let look = |(_, ticket, parked): (Time, KernelTicket, &mut Parked)| {
            parked.signalled = Some(now);
            (ticket, parked.tid)
        };
        found.into_iter().take(count).map(look).collect()
    }

    /// Until a task got a signal whose request waits.
    pub async fn until_signal(&self) {
        self.signal.notified().await;
    }

    /// A panic ends the process, so a poisoned lock is never seen.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
