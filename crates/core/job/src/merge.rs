//! A node's knowledge of all below it, from the reports it has.
//!
//! A report stands for a whole subtree. Where there is none, the nodes below are looked for one level further down: they
//! report past a parent that they cannot reach. Only those places are visited, so the work goes with the number of
//! reports and not with that of the nodes.

use std::collections::{BTreeMap, BTreeSet};

use forebay_overlay::Tree;
use forebay_types::NodeRank;
use forebay_wire::{Missing, Report, Slowest, Trouble};

/// The inputs of a merge.
pub(crate) struct Below<'a> {
    /// This node, which is ready.
    pub rank: NodeRank,
    /// The tree that reports go up.
    pub tree: &'a Tree,
    /// How long this node took.
    pub slowest: Slowest,
    /// The last report of each node that made one.
    pub reports: &'a BTreeMap<NodeRank, Report>,
    /// This node's errors about nodes that it cannot reach.
    pub troubles: Vec<Trouble>,
}

/// The report on `top` and all below it.
pub(crate) fn merged(below: Below<'_>, top: NodeRank) -> Report {
    let above_reports = below.above_reports();
    let mut merge = Merge { above_reports, todo: vec![top], report: Report::default(), below };
    for trouble in std::mem::take(&mut merge.below.troubles) {
        merge.report.add_trouble(trouble);
    }
    let mut seen = BTreeSet::new();
    while let Some(rank) = merge.todo.pop() {
        // Nodes that contradict each other must not send this one round in circles.
        if seen.insert(rank) {
            merge.add(rank);
        }
    }
    merge.report.missing.sort_unstable();
    merge.report
}

impl Below<'_> {
    /// The nodes above those that have reported, this one among them.
    fn above_reports(&self) -> BTreeSet<NodeRank> {
        let mut above = BTreeSet::new();
        for rank in self.reports.keys().copied().chain([self.rank]) {
            let mut next = self.tree.parent(rank);
            while let Some(rank) = next.filter(|rank| above.insert(*rank)) {
                next = self.tree.parent(rank);
            }
        }
        above
    }
}

struct Merge<'a> {
    below: Below<'a>,
    above_reports: BTreeSet<NodeRank>,
    todo: Vec<NodeRank>,
    report: Report,
}

impl Merge<'_> {
    /// Adds what is known of a node and all below it.
    fn add(&mut self, rank: NodeRank) {
        if rank == self.below.rank {
            self.report.ready_count = self.report.ready_count.saturating_add(1);
            self.report.slowest = self.report.slowest.max(Some(self.below.slowest));
            self.todo.extend(self.below.tree.children(rank));
        } else if let Some(report) = self.below.reports.get(&rank) {
            self.add_report(report);
        } else if self.above_reports.contains(&rank) {
            self.report.add_missing(Missing { rank, with_all_below: false });
            self.todo.extend(self.below.tree.children(rank));
        } else {
            self.report.add_missing(Missing { rank, with_all_below: true });
        }
    }

    fn add_report(&mut self, report: &Report) {
        self.report.ready_count = self.report.ready_count.saturating_add(report.ready_count);
        self.report.slowest = self.report.slowest.max(report.slowest);
        self.report.is_cut |= report.is_cut;
        report.troubles.iter().for_each(|trouble| self.report.add_trouble(trouble.clone()));
        for missing in &report.missing {
            let has_reported = self.below.reports.contains_key(&missing.rank);
            match missing.with_all_below {
                // It, or a node below it, has told this node itself.
                true if has_reported || self.above_reports.contains(&missing.rank) => self.todo.push(missing.rank),
                false if has_reported => self.report.ready_count = self.report.ready_count.saturating_add(1),
                _ => self.report.add_missing(*missing),
            }
        }
    }
}
