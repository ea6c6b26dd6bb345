//! Programs' requests as changes of the tree: who asks, under which number, and what may still come again; and how one about a name is answered.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_fuse::{Entry, Operation as Op, Reply, Request};
use forebay_types::{Errno, NodeRank, OperationId, Timestamp};
use forebay_wire::write::{Caller, Change, GROUPS_MAX, Operation};

use super::joined::Joined;

/// How much later than others a request may be begun, in numbers: the thread that has read it may have to wait for a processor.
/// Numbers go up by two, so that the owner keeps no more results than it may (`forebay_write::limits::RESULTS_MAX`).
const LATE_MAX: u64 = 1 << 15;

/// Who counts changes of a node, each for itself (`forebay_write::Results`).
#[derive(Clone, Copy)]
pub enum Line {
    /// The kernel, on the burst mount.
    Burst,
    /// The daemon.
    Commits,
    /// The kernel, on the private mount.
    Private,
}

impl Line {
    /// The number of its session on mounts that were made then.
    pub fn session(self, made_at_ms: u64) -> u64 {
        made_at_ms * 4 + self as u64
    }
}

/// The requests that are being carried out.
pub struct UnderWay {
    /// Of the mount, which outlives daemons.
    session: u64,
    numbers: Mutex<BTreeSet<u64>>,
}

/// A request that is being carried out.
pub struct Number {
    under_way: Arc<UnderWay>,
    number: u64,
}

impl UnderWay {
    /// Those of a mount.
    pub fn new(session: u64) -> Arc<Self> {
        Arc::new(Self { session, numbers: Mutex::default() })
    }

    /// A request begins.
    pub fn begin(self: &Arc<Self>, request: &Request<'_>) -> Number {
        self.lock().insert(request.id());
        Number { under_way: Arc::clone(self), number: request.id() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Number {
    /// The change that the request asks for.
    pub fn change(&self, node: NodeRank, now: Timestamp, caller: Caller, operation: Operation) -> Change {
        let oldest = self.under_way.lock().first().copied().unwrap_or(self.number).saturating_sub(LATE_MAX);
        let id = OperationId { node, session: self.under_way.session, serial: self.number };
        Change { id, oldest, caller, now, operation }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.under_way.lock().remove(&self.number);
    }
}

/// Who asks. Supplementary groups are those that the process has now; one that has ended has none.
pub fn caller(request: &Request<'_>) -> Caller {
    let groups = if request.uid == 0 { vec![] } else { groups(request.pid).unwrap_or_default() };
    Caller { uid: request.uid, gid: request.gid, groups }
}

fn groups(pid: u32) -> Option<Vec<u32>> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"))?;
    Some(line.split_whitespace().filter_map(|group| group.parse().ok()).take(GROUPS_MAX).collect())
}

/// Answers a request for what a name is of.
pub fn answer_entry(entry: Result<Entry, Errno>, reply: Reply) {
    match entry {
        Ok(entry) => reply.entry(&entry),
        Err(errno) => reply.error(errno),
    }
}

/// Answers a request that is told nothing but whether it was carried out.
pub fn answer(outcome: Result<(), Errno>, reply: Reply) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

/// Waits until programs are served. The kernel tells of a closed file only once, so that is taken in the end even if it is not known yet.
///
/// # Errors
/// As `Joined::wait`.
pub fn admit(joined: &Joined, asked: &Op<'_>) -> Result<(), Errno> {
    match joined.wait() {
        Err(_) if joined.outcome().is_none() && matches!(asked, Op::Release { .. } | Op::Flush { .. }) => Ok(()),
        outcome => outcome,
    }
}

/// Answers a request that comes while programs are not served.
pub fn unserved(asked: &Op<'_>, reply: Reply, errno: Errno) {
    match asked {
        Op::Interrupt { .. } | Op::Forget { .. } | Op::BatchForget(_) => reply.none(),
        _ => reply.error(errno),
    }
}
