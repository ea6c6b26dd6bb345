//! What a fault does to a job.

use forebay_node::{Answered, Source};
use forebay_types::{Errno, NodeRank};

use crate::NodeIndex;
use crate::body::State;
use crate::event::Event;
use crate::faults::Fault;
use crate::job::{Job, Node};
use crate::tables::{Body, Caller};

impl Job<'_> {
    pub(crate) fn go_wrong(&mut self, fault: Fault) {
        self.note(|| format!("FAULT {fault:?}"));
        self.was_broken |= fault.breaks_the_overlay();
        let node = match fault {
            Fault::Crash(node) | Fault::Restart(node) | Fault::Pause(node) | Fault::Resume(node) => Some(node),
            _ => None,
        };
        self.bring_about(fault);
        node.into_iter().for_each(|node| self.note_timeout(node));
    }

    fn bring_about(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(node) => self.crash(node),
            Fault::Restart(node) => {
                if self.nodes[node].core.is_none() {
                    // It may have been stopped when it was dead already; what has come since is for the new one.
                    self.resume(node);
                    let life = self.nodes[node].life;
                    let Node { paused, timeout, .. } = self.nodes[node];
                    self.nodes[node] = Node { paused, timeout, ..self.new_node(node, life) };
                }
            }
            Fault::Pause(node) => {
                if !self.nodes[node].is_paused {
                    self.nodes[node].is_paused = true;
                    self.nodes[node].paused_since = self.world.now;
                }
            }
            Fault::Resume(node) => self.resume(node),
            Fault::Slow(node, by) => self.world.slow_down(node, by),
            Fault::Cut(from, to) => self.world.cut(from, to),
            Fault::Mend(from, to) => self.world.mend(from, to),
            Fault::Partition(first) => self.world.divide(Some(first)),
            Fault::Join => self.world.divide(None),
            Fault::Change(number) => self.model.file(number).into_iter().for_each(|file| self.versions.change(file)),
            Fault::Refresh(number) => self.begin_refresh(self.model.subtrees(number)),
            Fault::BackingHangs(lasts) => self.backing_hangs_until = self.world.now.after(lasts),
            Fault::BackingFails(percent, lasts) => {
                self.has_backing_failed = true;
                self.backing_fails = (percent, self.world.now.after(lasts));
            }
        }
    }

    fn resume(&mut self, node: NodeIndex) {
        let place = &mut self.nodes[node];
        if std::mem::take(&mut place.is_paused) {
            place.paused += self.world.now.since(place.paused_since);
            for event in std::mem::take(&mut place.inbox) {
                self.world.soon(event);
            }
        }
    }

    /// A node's daemon dies: its programs with it, its connections are reset.
    fn crash(&mut self, node: NodeIndex) {
        self.resume(node);
        let life = self.nodes[node].life;
        if self.nodes[node].core.take().is_none() {
            return;
        }
        self.nodes[node].life += 1;
        self.programs
            .iter_mut()
            .filter(|program| program.node == node)
            .for_each(|program| program.ended |= program.requests > 0);
        self.tickets.retain(|_, (at, _)| *at != node);
        self.calls.retain(|caller, _| (caller.node, caller.life) != (node, life));
        let asked: Vec<Caller> = self
            .calls
            .iter()
            .filter(|(_, call)| call.source == Source::Peer(NodeRank(node as u32)) && call.body.is_none())
            .map(|(caller, _)| *caller)
            .collect();
        for caller in asked {
            self.world.send(node, caller.node, Event::Answer { to: vec![caller], answered: Answered::Lost });
        }
        for body in 0..self.bodies.len() {
            let Body { at, from, state, .. } = self.bodies[body];
            if state != State::Growing {
                continue;
            }
            if at.node == node {
                self.bodies[body].state = State::Failed(Errno::WAY_LOST);
            } else if from == Some(node) {
                let lost = Event::BodyEnd { body, state: State::Failed(Errno::WAY_LOST) };
                self.world.send(node, at.node, lost);
            }
        }
    }
}
