//! Locks of programs on files: `fcntl` ranges and `flock`, over all nodes.
//!
//! A holder may lock a range that it has locked already, which changes the kind of that range. The kinds of `flock` and `fcntl` do not
//! see each other. This module never waits: if a lock conflicts, the caller learns so and asks again.

use std::collections::BTreeMap;

use forebay_types::{Errno, FileId, NodeRank};
use forebay_wire::write::{HeldLock, LockKind, LockRequest};
use serde::{Deserialize, Serialize};

use crate::limits;

/// All of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Locks {
    /// In no order; ranges of one holder do not overlap.
    by_file: BTreeMap<(FileId, bool), Vec<HeldLock>>,
}

impl Locks {
    /// Gives a range of a file to a holder on `node`, or takes it from it.
    ///
    /// # Errors
    /// EAGAIN when another holder has it; ENOLCK when the file has too many.
    pub fn set(&mut self, node: NodeRank, file: FileId, request: &LockRequest) -> Result<(), Errno> {
        if self.conflict(node, file, request).is_some() {
            return Err(Errno::EAGAIN);
        }
        let held = self.by_file.entry((file, request.is_flock)).or_default();
        let mut kept = vec![];
        for lock in held.iter() {
            match is_of(lock, node, request.owner) {
                true => kept.extend(without(*lock, request.start, request.end)),
                false => kept.push(*lock),
            }
        }
        if let Some(kind) = request.kind {
            let LockRequest { owner, start, end, pid, handle, .. } = *request;
            kept.push(HeldLock { node, owner, start, end, kind, pid, handle });
        }
        if kept.len() > limits::LOCKS_MAX {
            return Err(Errno::ENOLCK);
        }
        *held = kept;
        if held.is_empty() {
            self.by_file.remove(&(file, request.is_flock));
        }
        Ok(())
    }

    /// Whether anybody has a lock of a file, or is to be told that it lost one.
    pub fn has_any(&self, file: FileId) -> bool {
        [false, true].iter().any(|is_flock| self.by_file.contains_key(&(file, *is_flock)))
    }

    /// The first lock of another holder that conflicts.
    #[must_use]
    pub fn conflict(&self, node: NodeRank, file: FileId, request: &LockRequest) -> Option<HeldLock> {
        let kind = request.kind?;
        let is_in_the_way = |held: &&HeldLock| {
            !is_of(held, node, request.owner)
                && held.start <= request.end
                && request.start <= held.end
                && (held.kind == LockKind::Exclusive || kind == LockKind::Exclusive)
        };
        let held = self.by_file.get(&(file, request.is_flock))?;
        held.iter().filter(is_in_the_way).min_by_key(|held| held.start).copied()
    }

    /// A node has no programs any more.
    pub fn release_node(&mut self, node: NodeRank) {
        for held in self.by_file.values_mut() {
            held.retain(|lock| lock.node != node);
        }
        self.by_file.retain(|_, held| !held.is_empty());
    }

    /// A node has closed an open of a file. Locks of processes that were set through it have ended before, so what is left are those of the
    /// open file description.
    pub fn release_open(&mut self, node: NodeRank, file: FileId, handle: u64) {
        for key in [(file, false), (file, true)] {
            let Some(held) = self.by_file.get_mut(&key).filter(|_| handle != 0) else { continue };
            held.retain(|lock| (lock.node, lock.handle) != (node, handle));
            if held.is_empty() {
                self.by_file.remove(&key);
            }
        }
    }

    /// Checks them: for fuzzing.
    ///
    /// # Panics
    /// When something does not hold.
    pub(crate) fn assert_sound(&self) {
        for held in self.by_file.values() {
            assert!(!held.is_empty() && held.len() <= limits::LOCKS_MAX);
            assert!(held.iter().all(|lock| lock.start <= lock.end), "{held:?}");
            let overlaps = |one: &HeldLock, other: &HeldLock| one.start <= other.end && other.start <= one.end;
            for (index, one) in held.iter().enumerate() {
                let mut own = held[..index].iter().filter(|other| is_of(other, one.node, one.owner));
                assert!(!own.any(|other| overlaps(one, other)), "{held:?}");
            }
        }
    }

    /// A file is gone.
    pub fn release_file(&mut self, file: FileId) {
        self.by_file.remove(&(file, false));
        self.by_file.remove(&(file, true));
    }
}

fn is_of(lock: &HeldLock, node: NodeRank, owner: u64) -> bool {
    (lock.node, lock.owner) == (node, owner)
}

/// The rest of a lock without a range.
fn without(lock: HeldLock, start: u64, end: u64) -> impl Iterator<Item = HeldLock> {
    let before = (lock.start < start).then(|| HeldLock { end: lock.end.min(start.wrapping_sub(1)), ..lock });
    let after = (lock.end > end).then(|| HeldLock { start: lock.start.max(end.wrapping_add(1)), ..lock });
    before.into_iter().chain(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { creator: NodeRank(0), serial: 7 };

    fn request(owner: u64, start: u64, end: u64, kind: Option<LockKind>) -> LockRequest {
        LockRequest { owner, start, end, kind, pid: 1, is_flock: false, handle: 0 }
    }

    #[test]
    fn a_range_is_split_upgraded_and_given_back() {
        use LockKind::{Exclusive, Shared};
        let (mut locks, a, b) = (Locks::default(), NodeRank(0), NodeRank(1));
        let mut set = |node, owner, start, end, kind| locks.set(node, FILE, &request(owner, start, end, kind));
        set(a, 1, 0, 99, Some(Shared)).unwrap();
        set(b, 1, 0, 49, Some(Shared)).unwrap();
        assert_eq!(
            set(a, 1, 0, u64::MAX, Some(Exclusive)),
            Err(Errno::EAGAIN),
            "the other node's holder is another one"
        );
        set(a, 1, 50, 69, Some(Exclusive)).unwrap();
        assert_eq!(set(b, 1, 60, 60, Some(Shared)), Err(Errno::EAGAIN));
        set(b, 1, 70, 70, Some(Shared)).unwrap();
        set(a, 1, 60, 69, None).unwrap();
        set(b, 1, 60, 69, Some(Exclusive)).unwrap();
        let asked = request(9, 0, u64::MAX, Some(Shared));
        assert_eq!(locks.conflict(a, FILE, &asked).map(|held| (held.start, held.end)), Some((50, 59)));
        locks.release_node(a);
        assert_eq!(locks.conflict(a, FILE, &asked).map(|held| held.start), Some(60));
        locks.release_node(b);
        assert_eq!(locks, Locks::default());
    }

    #[test]
    fn a_closed_open_ends_its_own_locks_alone() {
        let (mut locks, a, b) = (Locks::default(), NodeRank(0), NodeRank(1));
        let through =
            |handle, start| LockRequest { handle, ..request(handle, start, start, Some(LockKind::Exclusive)) };
        for (node, handle, start) in [(a, 4, 0), (a, 6, 1), (b, 4, 2), (a, 0, 3)] {
            locks.set(node, FILE, &through(handle, start)).unwrap();
        }
        locks.release_open(a, FILE, 4);
        locks.release_open(a, FILE, 0);
        let is_free = |start| locks.conflict(a, FILE, &request(9, start, start, Some(LockKind::Shared))).is_none();
        assert_eq!([0, 1, 2, 3].map(is_free), [true, false, false, false]);
    }

    #[test]
    fn refused_changes_leave_the_tree_as_it_was() {
        let (mut locks, a, b) = (Locks::default(), NodeRank(0), NodeRank(1));
        locks.set(a, FILE, &request(1, 0, 9, Some(LockKind::Shared))).unwrap();
        for byte in 0..limits::LOCKS_MAX as u64 - 1 {
            locks.set(b, FILE, &request(1, 100 + 2 * byte, 100 + 2 * byte, Some(LockKind::Shared))).unwrap();
        }
        let before = locks.clone();
        for refused in [request(1, 5, 5, None), request(1, 5, 5, Some(LockKind::Exclusive))] {
            assert_eq!(locks.set(a, FILE, &refused), Err(Errno::ENOLCK));
            assert_eq!(locks, before);
        }
    }

    #[test]
    fn the_whole_of_a_file_is_a_range_too() {
        let (mut locks, node) = (Locks::default(), NodeRank(0));
        locks.set(node, FILE, &request(1, 0, u64::MAX, Some(LockKind::Exclusive))).unwrap();
        locks.set(node, FILE, &request(1, 10, 19, None)).unwrap();
        assert!(locks.set(node, FILE, &request(2, 9, 9, Some(LockKind::Shared))).is_err());
        locks.set(node, FILE, &request(2, 10, 19, Some(LockKind::Shared))).unwrap();
        locks.set(node, FILE, &request(1, 0, u64::MAX, None)).unwrap();
        locks.set(node, FILE, &request(2, 0, u64::MAX, None)).unwrap();
        assert_eq!(locks, Locks::default());
    }
}
