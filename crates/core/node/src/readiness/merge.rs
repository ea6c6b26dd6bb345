//! What a node knows of all below it, from the reports it has.
//!
//! A report stands for a whole subtree. Where there is none, the nodes below are looked for one level further down: they
//! report past a parent that they cannot reach. Only those places are visited, so the work goes with the number of
//! reports and not with that of the nodes.

use std::collections::BTreeSet;

use forebay_types::NodeRank;
use forebay_wire::{Missing, Report};

use super::{Own, Readiness};

impl Readiness {
    /// What this node can say of `top` and all below it.
    pub(super) fn merged(&self, own: Own, top: NodeRank) -> Report {
        let mut merge = Merge {
            readiness: self,
            own,
            above_reports: self.above_reports(),
            todo: Vec::new(),
            report: Report::default(),
        };
        for trouble in self.ways.iter().filter_map(|way| way.trouble()) {
            merge.report.add_trouble(trouble.clone());
        }
        let mut seen = BTreeSet::new();
        merge.todo.push(top);
        while let Some(rank) = merge.todo.pop() {
            // Nodes that contradict each other must not send this one round in circles.
            if seen.insert(rank) {
                merge.add(rank);
            }
        }
        merge.report.missing.sort_unstable();
        merge.report
    }

    /// The nodes above those that have reported, this one among them.
    fn above_reports(&self) -> BTreeSet<NodeRank> {
        let tree = self.options.forest.first();
        let mut above = BTreeSet::new();
        for rank in self.reports.keys().copied().chain([self.options.rank]) {
            let mut next = tree.parent(rank);
            while let Some(rank) = next.filter(|rank| above.insert(*rank)) {
                next = tree.parent(rank);
            }
        }
        above
    }
}

struct Merge<'a> {
    readiness: &'a Readiness,
    own: Own,
    above_reports: BTreeSet<NodeRank>,
    todo: Vec<NodeRank>,
    report: Report,
}

impl Merge<'_> {
    /// Adds what is known of a node and all below it.
    fn add(&mut self, rank: NodeRank) {
        if rank == self.readiness.options.rank {
            self.report.ready_count += 1;
            self.report.slowest = self.report.slowest.max(Some(self.own.slowest));
            self.todo.extend(self.readiness.options.forest.first().children(rank));
        } else if let Some(report) = self.readiness.reports.get(&rank) {
            self.add_report(report);
        } else if self.above_reports.contains(&rank) {
            self.report.add_missing(Missing { rank, with_all_below: false });
            self.todo.extend(self.readiness.options.forest.first().children(rank));
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
            let has_reported = self.readiness.reports.contains_key(&missing.rank);
            match missing.with_all_below {
                // It, or somebody below it, has told this node itself.
                true if has_reported || self.above_reports.contains(&missing.rank) => self.todo.push(missing.rank),
                false if has_reported => self.report.ready_count = self.report.ready_count.saturating_add(1),
                _ => self.report.add_missing(*missing),
            }
        }
    }
}
