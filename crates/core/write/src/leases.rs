//! The leases by which nodes answer about files themselves.
//!
//! A node that asks the leader about a file or a directory may believe the answer for `LEASE_TTL` from when it asked. Until then,
//! the owner invalidates the answer at that node before it answers a change of the file. If the node cannot be told, the change waits
//! until the lease has ended. So a change is seen everywhere when it returns, and no answer is requested twice.
//!
//! The leader's next daemon does not know the leases: it takes every node as having leases of all files.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_types::{FileId, Map, NodeRank, Time};
use forebay_wire::write::{Done, Operation};

use crate::limits::LEASES_MAX;
use crate::timing::LEASE_TTL_HELD;

/// All of a tree.
#[derive(Default)]
pub struct Leases {
    by_file: Map<FileId, Vec<Lease>>,
    count: usize,
    /// Of nodes that may have been told of anything.
    of_everything: Vec<Lease>,
    /// Leases that were granted so far.
    granted: u64,
    /// The invalidations under way.
    telling: Vec<Invalidation>,
}

#[derive(Clone, Copy)]
struct Lease {
    node: NodeRank,
    until: Time,
    /// Which it was.
    number: u64,
}

/// The files that a node is to forget.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalidation {
    /// Which node.
    pub node: NodeRank,
    /// Which files; none means all.
    pub files: Vec<FileId>,
    /// The last lease that is meant.
    number: u64,
}

impl Leases {
    /// Those that daemons before this one may have granted to `nodes`, each for so long at most.
    #[must_use]
    pub fn unknown(now: Time, nodes: impl IntoIterator<Item = (NodeRank, Duration)>) -> Self {
        let of_everything = nodes.into_iter().map(|(node, left)| Lease { node, until: now.after(left), number: 0 });
        Self { of_everything: of_everything.collect(), ..Self::default() }
    }

    /// A node is about to be told of `file`.
    pub fn grant(&mut self, now: Time, node: NodeRank, file: FileId) {
        if self.count >= LEASES_MAX {
            self.make_room(now);
        }
        self.granted += 1;
        let lease = Lease { node, until: now.after(LEASE_TTL_HELD), number: self.granted };
        let leases = self.by_file.entry(file).or_default();
        match leases.iter_mut().find(|held| held.node == node) {
            Some(held) => *held = lease,
            None => {
                leases.push(lease);
                self.count += 1;
            }
        }
    }

    /// A node has had a change carried out: it knows what it has made, and goes on knowing where.
    pub fn note(&mut self, now: Time, node: NodeRank, operation: &Operation, done: &Done) {
        match (operation, done) {
            (Operation::Create { place, file, .. }, Done::File(state)) => {
                self.extend(now, node, place.directory);
                if state.file == *file {
                    self.grant(now, node, *file);
                }
            }
            (Operation::Link { place, .. } | Operation::Unlink { place } | Operation::RemoveDirectory { place }, _) => {
                self.extend(now, node, place.directory)
            }
            _ => {}
        }
    }

    /// A node that was told of `file`, and has heard of all changes since, may go on believing it.
    fn extend(&mut self, now: Time, node: NodeRank, file: FileId) {
        let held = self.by_file.get_mut(&file).and_then(|leases| leases.iter_mut().find(|held| held.node == node));
        if let Some(held) = held.filter(|held| held.until > now) {
            held.until = now.after(LEASE_TTL_HELD);
        }
    }

    /// The nodes to be told before a change of `files` by `changer` is answered, including those that are being told because of
    /// another change. `changer` knows its own change, unless it has not heard yet of earlier changes by others.
    #[must_use]
    pub fn to_tell(&mut self, now: Time, changer: NodeRank, files: &[FileId]) -> Vec<Invalidation> {
        let mut nodes: BTreeMap<NodeRank, Invalidation> = BTreeMap::new();
        let is_late = |told: &Invalidation| told.node == changer && told.files.iter().any(|file| files.contains(file));
        let is_late = self.telling.iter().any(is_late);
        let is_meant = |lease: &&Lease| (lease.node != changer || is_late) && lease.until > now;
        for file in files {
            for lease in self.by_file.get(file).into_iter().flatten().filter(is_meant) {
                let told = Invalidation { node: lease.node, files: vec![], number: self.granted };
                nodes.entry(lease.node).or_insert(told).files.push(*file);
            }
        }
        for lease in self.of_everything.iter().filter(is_meant).filter(|_| !files.is_empty()) {
            nodes.insert(lease.node, Invalidation { node: lease.node, files: vec![], number: self.granted });
        }
        let nodes: Vec<Invalidation> = nodes.into_values().collect();
        self.telling.extend(nodes.iter().cloned());
        nodes
    }

    /// When the leases of a node that does not answer end. Later leases of the same files count too.
    #[must_use]
    pub fn ends(&self, told: &Invalidation) -> Time {
        let of_files = told.files.iter().filter_map(|file| self.by_file.get(file)).flatten();
        let leases = of_files.chain(&self.of_everything).filter(|lease| lease.node == told.node);
        leases.map(|lease| lease.until).max().unwrap_or_default()
    }

    /// A node has forgotten what it was to forget.
    pub fn forgotten(&mut self, told: &Invalidation) {
        if let Some(at) = self.telling.iter().position(|other| other == told) {
            self.telling.swap_remove(at);
        }
        let is_over = |lease: &Lease| lease.node == told.node && lease.number <= told.number;
        for file in &told.files {
            if let Some(leases) = self.by_file.get_mut(file) {
                let before = leases.len();
                leases.retain(|lease| !is_over(lease));
                self.count -= before - leases.len();
                if leases.is_empty() {
                    self.by_file.remove(file);
                }
            }
        }
        if told.files.is_empty() {
            self.of_everything.retain(|lease| !is_over(lease));
        }
    }

    /// Leases that are over go; if they are too few, nodes are taken as told of everything.
    fn make_room(&mut self, now: Time) {
        for leases in self.by_file.values_mut() {
            leases.retain(|lease| lease.until > now);
        }
        self.by_file.retain(|_, leases| !leases.is_empty());
        self.of_everything.retain(|lease| lease.until > now);
        self.count = self.by_file.values().map(Vec::len).sum();
        if self.count > LEASES_MAX / 2 {
            for lease in std::mem::take(&mut self.by_file).into_values().flatten() {
                match self.of_everything.iter_mut().find(|held| held.node == lease.node) {
                    Some(held) => {
                        (held.until, held.number) = (held.until.max(lease.until), held.number.max(lease.number))
                    }
                    None => self.of_everything.push(lease),
                }
            }
            self.count = 0;
        }
    }
}
