//! Refreshes of the whole job, as whoever leads them carries them: each step taken by all that can be reached before the
//! next.

use std::collections::BTreeSet;

use forebay_types::{ViewPath, limits};
use forebay_wire::RefreshStep;

use crate::NodeIndex;
use crate::event::Event;
use crate::job::Job;
use crate::model::Versions;

/// A refresh under way.
pub(crate) struct Refresh {
    number: u64,
    leader: NodeIndex,
    step: RefreshStep,
    /// Those that have not taken the step yet.
    waits_for: BTreeSet<NodeIndex>,
    /// Those that have taken all steps so far.
    with: BTreeSet<NodeIndex>,
    /// The files when the second step began: nobody who took all steps may be behind them.
    seen: Versions,
}

impl Job<'_> {
    pub(crate) fn begin_refresh(&mut self) {
        let leader = (0..self.nodes.len()).find(|node| self.runs(*node));
        let (Some(leader), None) = (leader, &self.refresh) else { return };
        self.epoch += 1;
        let with = (0..self.nodes.len()).collect();
        let (number, step, seen) = (self.epoch, RefreshStep::Quiet, Versions::default());
        self.refresh = Some(Refresh { number, leader, step, waits_for: BTreeSet::new(), with, seen });
        self.begin_step();
    }

    fn runs(&self, node: NodeIndex) -> bool {
        self.nodes[node].core.is_some() && !self.nodes[node].is_paused
    }

    fn begin_step(&mut self) {
        let now = self.world.now;
        let Some(refresh) = &mut self.refresh else { return };
        let (number, step, leader) = (refresh.number, refresh.step, refresh.leader);
        if step == RefreshStep::Hold {
            refresh.seen = self.versions.clone();
        }
        refresh.waits_for = refresh.with.clone();
        let with = refresh.with.clone();
        self.note(|| format!("refresh {number}: {step:?} at {with:?}"));
        for to in with {
            self.world.send(leader, to, Event::Step { to, number, step });
        }
        self.world.at(now.after(limits::PING_DEADLINE), Event::StepOver { number, step });
    }

    pub(crate) fn take_step(&mut self, to: NodeIndex, number: u64, step: RefreshStep) {
        let took = match step {
            // The kernel, which is told to forget, is not here.
            RefreshStep::Quiet => Some(true),
            RefreshStep::Hold => self.with_core(to, |core, now| core.handle_hold(now, number, vec![ViewPath::root()])),
            RefreshStep::Release => self.with_core(to, |core, now| {
                core.handle_release(now, number);
                core.epoch() == number
            }),
        };
        let refresh = self.refresh.as_ref().filter(|refresh| refresh.number == number && refresh.step == step);
        let Some(leader) = refresh.filter(|_| took == Some(true)).map(|refresh| refresh.leader) else { return };
        if step == RefreshStep::Release {
            self.nodes[to].floor = self.refresh.as_ref().map(|refresh| refresh.seen.clone()).unwrap_or_default();
        }
        self.world.send(to, leader, Event::Taken { number, step, by: to });
    }

    pub(crate) fn has_taken(&mut self, number: u64, step: RefreshStep, by: NodeIndex) {
        let Some(refresh) = &mut self.refresh else { return };
        if (refresh.number, refresh.step) == (number, step)
            && refresh.waits_for.remove(&by)
            && refresh.waits_for.is_empty()
        {
            self.next_step();
        }
    }

    /// Whoever has not taken the step by now has not heard of the refresh.
    pub(crate) fn step_over(&mut self, number: u64, step: RefreshStep) {
        let Some(refresh) = &mut self.refresh else { return };
        if (refresh.number, refresh.step) != (number, step) {
            return;
        }
        let missing = std::mem::take(&mut refresh.waits_for);
        refresh.with.retain(|node| !missing.contains(node));
        let leader = refresh.leader;
        if self.runs(leader) { self.next_step() } else { self.refresh = None }
    }

    fn next_step(&mut self) {
        let Some(refresh) = &mut self.refresh else { return };
        refresh.step = match refresh.step {
            RefreshStep::Quiet => RefreshStep::Hold,
            RefreshStep::Hold => RefreshStep::Release,
            RefreshStep::Release => return self.refresh = None,
        };
        self.begin_step();
    }
}
