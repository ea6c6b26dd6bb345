//! Programs' requests as changes of the tree: who asks, under which number, and what may still come again; and how one about a name is answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_fuse::{Reply, Request};
use forebay_types::{Errno, NodeRank, OperationId, Timestamp};
use forebay_wire::write::{Caller, Change, GROUPS_MAX, Operation};

/// How much later than others a request may be begun, in numbers: the thread that has read it may have to wait for a processor.
/// Numbers go up by two, so that the leader keeps no more results than it may (`forebay_write::limits::RESULTS_MAX`).
const LATE_MAX: u64 = 1 << 15;

/// Sources of a node's changes, each of which counts for itself (`forebay_write::Results`).
#[derive(Clone, Copy)]
pub enum Line {
    /// The kernel.
    Kernel,
    /// The daemon.
    Commits,
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
    /// Their numbers, and how many parts of the daemon carry each of them out.
    numbers: Mutex<BTreeMap<u64, u32>>,
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
        *self.lock().entry(request.id()).or_default() += 1;
        Number { under_way: Arc::clone(self), number: request.id() }
    }

    /// The least number.
    fn oldest(&self) -> Option<u64> {
        self.lock().first_key_value().map(|(number, _)| *number)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Number {
    /// The change that the request asks for.
    pub fn change(&self, node: NodeRank, now: Timestamp, caller: Caller, operation: Operation) -> Change {
        let oldest = self.under_way.oldest().unwrap_or(self.number).saturating_sub(LATE_MAX);
        let id = OperationId { node, session: self.under_way.session, serial: self.number };
        Change { id, oldest, caller, now, operation }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let mut numbers = self.under_way.lock();
        if let Some(count) = numbers.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                numbers.remove(&self.number);
            }
        }
    }
}

/// The caller of a request. Supplementary groups are those that the process has now; one that has ended has none.
pub fn caller(request: &Request<'_>) -> Caller {
    let groups = if request.uid == 0 { vec![] } else { groups(request.pid).unwrap_or_default() };
    Caller { uid: request.uid, gid: request.gid, groups }
}

fn groups(pid: u32) -> Option<Vec<u32>> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"))?;
    Some(line.split_whitespace().filter_map(|group| group.parse().ok()).take(GROUPS_MAX).collect())
}

/// Answers a request that is told nothing but whether it was carried out.
pub fn answer(outcome: Result<(), Errno>, reply: Reply) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

#[cfg(test)]
mod tests {
    use forebay_fuse::Operation as Op;

    use super::*;

    /// A close that is a task, and is then owed.
    #[test]
    fn a_request_is_under_way_until_all_parts_have_ended() {
        let under_way = UnderWay::new(1);
        let request = |unique| Request {
            unique,
            node: 1,
            uid: 0,
            gid: 0,
            pid: 0,
            operation: Op::Release { handle: 0, flock_owner: None },
        };
        let (waits, later) = (under_way.begin(&request(2)), under_way.begin(&request(4)));
        let is_owed = under_way.begin(&request(2));
        drop(waits);
        assert_eq!(under_way.oldest(), Some(2));
        drop(is_owed);
        assert_eq!(under_way.oldest(), Some(4));
        drop(later);
        assert_eq!(under_way.oldest(), None);
    }
}
