//! Refreshes of subtrees, as whoever leads them carries them: each step taken by all that can be reached before the next.
//!
//! The leader takes one refresh after the other, as the daemon does. While nothing is broken, no step may miss a node: a
//! node that is named without a fault is wrong.

use std::collections::BTreeSet;

use forebay_types::{Epoch, ViewPath};
use forebay_wire::RefreshStep;

use crate::NodeIndex;
use crate::event::Event;
use crate::job::Job;
use crate::model::Versions;
use crate::tables::Refresh;

/// How long a step waits for the nodes that do not answer: as long as the daemon's leader asks whether they are there.
use forebay_dispatch::limits::PING_DEADLINE as STEP_PATIENCE;

/// Refreshes that may wait for the one under way; more are left out.
const WAITING_MAX: usize = 4;

impl Job<'_> {
    /// Refreshes that took all their steps, wherever they could be reached.
    #[must_use]
    pub fn refreshes_completed(&self) -> usize {
        self.refreshes.completed_count
    }

    pub(crate) fn begin_refresh(&mut self, paths: Vec<ViewPath>) {
        if self.refreshes.under_way.is_some() {
            if self.refreshes.waiting.len() < WAITING_MAX {
                self.refreshes.waiting.push_back(paths);
            }
            return;
        }
        let Some(leader) = (0..self.nodes.len()).find(|node| self.runs(*node)) else { return };
        self.epoch = Epoch(self.epoch.0 + 1);
        let with = (0..self.nodes.len()).collect();
        let (epoch, step, seen) = (self.epoch, RefreshStep::Quiet, Versions::default());
        let refresh = Refresh { epoch, leader, paths, step, waits_for: BTreeSet::new(), with, seen };
        self.refreshes.under_way = Some(refresh);
        self.begin_step();
    }

    fn runs(&self, node: NodeIndex) -> bool {
        self.nodes[node].core.is_some() && !self.nodes[node].is_paused
    }

    fn begin_step(&mut self) {
        let now = self.world.now;
        let Some(refresh) = &mut self.refreshes.under_way else { return };
        let (epoch, step, leader) = (refresh.epoch, refresh.step, refresh.leader);
        if step == RefreshStep::Hold {
            refresh.seen = self.versions.clone();
        }
        refresh.waits_for = refresh.with.clone();
        let (with, paths) = (refresh.with.clone(), refresh.paths.clone());
        self.note(|| format!("refresh {epoch} of {paths:?}: {step:?} at {with:?}"));
        let Some(known) = self.nodes[leader].core.as_ref().map(|core| core.epoch()) else { return self.end_refresh() };
        for to in with {
            self.world.send(leader, to, Event::Step { to, epoch, step, known });
        }
        self.world.at(now.after(STEP_PATIENCE), Event::StepOver { epoch, step });
    }

    /// The daemon asks a node whether it is there before each step, and tells it by that what it has completed itself
    /// (`known`): a node that was started meanwhile learns what it has missed.
    pub(crate) fn take_step(&mut self, to: NodeIndex, epoch: Epoch, step: RefreshStep, known: Epoch) {
        let is_it = |refresh: &&Refresh| refresh.epoch == epoch && refresh.step == step;
        let Some(refresh) = self.refreshes.under_way.as_ref().filter(is_it) else { return };
        let (leader, paths, seen) = (refresh.leader, refresh.paths.clone(), refresh.seen.clone());
        self.with_core(to, |core, now| core.handle_epoch(now, known));
        let took = self.with_core(to, |core, now| match step {
            // The kernel, which is told to forget, is not here.
            RefreshStep::Quiet => {
                core.handle_quiet(now, epoch, paths.clone());
                true
            }
            RefreshStep::Hold => core.handle_hold(now, epoch, paths.clone()),
            RefreshStep::Release => core.handle_release(now, epoch),
        });
        if took != Some(true) {
            return self.note(|| format!("node {to} does not take {step:?} of refresh {epoch}"));
        }
        if step == RefreshStep::Release {
            self.nodes[to].floor.raise(&seen, &paths);
        }
        self.world.send(to, leader, Event::Taken { epoch, step, by: to });
    }

    pub(crate) fn has_taken(&mut self, epoch: Epoch, step: RefreshStep, by: NodeIndex) {
        let Some(refresh) = &mut self.refreshes.under_way else { return };
        if (refresh.epoch, refresh.step) == (epoch, step)
            && refresh.waits_for.remove(&by)
            && refresh.waits_for.is_empty()
        {
            self.next_step();
        }
    }

    /// Whoever has not taken the step by now has not heard of the refresh.
    pub(crate) fn step_over(&mut self, epoch: Epoch, step: RefreshStep) {
        let Some(refresh) = &mut self.refreshes.under_way else { return };
        if (refresh.epoch, refresh.step) != (epoch, step) {
            return;
        }
        let missing = std::mem::take(&mut refresh.waits_for);
        refresh.with.retain(|node| !missing.contains(node));
        let leader = refresh.leader;
        if !self.was_broken {
            self.wrong.push(format!("refresh {epoch} names {missing:?} at {step:?}, and nothing is broken"));
        }
        if self.runs(leader) { self.next_step() } else { self.end_refresh() }
    }

    fn next_step(&mut self) {
        let Some(refresh) = &mut self.refreshes.under_way else { return };
        refresh.step = match refresh.step {
            RefreshStep::Quiet => RefreshStep::Hold,
            RefreshStep::Hold => RefreshStep::Release,
            RefreshStep::Release => {
                self.refreshes.completed_count += 1;
                return self.end_refresh();
            }
        };
        self.begin_step();
    }

    fn end_refresh(&mut self) {
        self.refreshes.under_way = None;
        if let Some(paths) = self.refreshes.waiting.pop_front() {
            self.begin_refresh(paths);
        }
    }
}
