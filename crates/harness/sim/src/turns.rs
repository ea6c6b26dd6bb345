//! Turns at the backing file system: each node asks it a few things at a time, and first what programs wait for. Simpler than
//! the daemon's: what is asked ahead has no turns of its own, and waits as long as it must.
//! Each turn is compared with what all programs of the job wait for at that time.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_cache::Key;
use forebay_node::AttemptId;
use forebay_node::Source;
use forebay_types::{Priority, Time};
use forebay_wire::ReadMessage;

use crate::NodeIndex;
use crate::event::Event;
use crate::job::{Caller, Job};
use crate::shell::Call;
use crate::world::LATENCY_MAX_US;

/// What waits for its turn at one life of a node.
#[derive(Default)]
pub(crate) struct Turns {
    demand: VecDeque<(AttemptId, ReadMessage)>,
    ahead: VecDeque<(AttemptId, ReadMessage)>,
    under_way: usize,
}

/// What is known of all turns.
#[derive(Default)]
pub(crate) struct TurnsTaken {
    /// Turns that began for a program.
    demand_count: u64,
    /// Turns that began for what was asked ahead, although a program had waited for it for long enough to be heard of.
    unheard: Vec<String>,
}

impl Turns {
    fn promote(&mut self, call: AttemptId) {
        let at = self.ahead.iter().position(|(waiting, _)| *waiting == call);
        self.demand.extend(at.and_then(|at| self.ahead.remove(at)));
    }

    fn withdraw(&mut self, call: AttemptId) {
        self.demand.retain(|(waiting, _)| *waiting != call);
        self.ahead.retain(|(waiting, _)| *waiting != call);
    }
}

impl Job<'_> {
    /// Questions of programs that the backing file system was asked.
    #[must_use]
    pub fn demand_turns(&self) -> u64 {
        self.turns.demand_count
    }

    /// Questions for which a program waited, and whose turn was given as to what nobody waits for.
    #[must_use]
    pub fn unheard(&self) -> &[String] {
        &self.turns.unheard
    }

    /// A node asks the backing file system when its turn has come.
    pub(crate) fn queue_backing(&mut self, by: Caller, request: ReadMessage, priority: Priority) {
        let turns = &mut self.nodes[by.node].turns;
        let queue = if priority == Priority::Demand { &mut turns.demand } else { &mut turns.ahead };
        queue.push_back((by.call, request));
        self.begin_turns(by.node);
    }

    /// A turn of a node is over.
    pub(crate) fn end_turn(&mut self, by: Caller) {
        if self.nodes[by.node].life == by.life {
            self.nodes[by.node].turns.under_way -= 1;
            self.begin_turns(by.node);
        }
    }

    fn begin_turns(&mut self, node: NodeIndex) {
        let life = self.nodes[node].life;
        loop {
            let turns = &mut self.nodes[node].turns;
            if turns.under_way >= self.setup.turns {
                return;
            }
            let (priority, next) = match turns.demand.pop_front() {
                Some(next) => (Priority::Demand, next),
                None => match turns.ahead.pop_front() {
                    Some(next) => (Priority::Prefetch, next),
                    None => return,
                },
            };
            turns.under_way += 1;
            let (call, request) = next;
            self.note_turn(&request, priority);
            self.world.soon(Event::Backing { by: Caller { node, life, call }, request });
        }
    }

    fn note_turn(&mut self, request: &ReadMessage, priority: Priority) {
        if priority == Priority::Demand {
            self.turns.demand_count += 1;
            return;
        }
        let depth_max = self.forest.trees().map(|tree| tree.depth_max()).max().unwrap_or(0);
        let heard_within = Duration::from_micros(2 * LATENCY_MAX_US * u64::from(depth_max));
        let (key, now) = (Key::of(request), self.world.now);
        let is_wanted = |call: &&Call| {
            let is_heard = |since: Time| since.after(heard_within) < now;
            call.body.is_none() && call.wanted_since.is_some_and(is_heard) && Key::of(&call.request) == key
        };
        if let Some(call) = self.calls.values().find(is_wanted) {
            self.turns.unheard.push(format!("{request:?}, wanted since {:?}, at {now:?}", call.wanted_since));
        }
    }

    /// A program waits for what was asked ahead: whoever was asked is told.
    pub(crate) fn promote(&mut self, by: Caller, source: Source) {
        let Some(call) = self.calls.get_mut(&by) else { return };
        call.wanted_since = Some(self.world.now);
        match source {
            Source::Backing => self.nodes[by.node].turns.promote(by.call),
            Source::Peer(to) => {
                let to = to.0 as usize;
                self.world.send_behind(by.node, to, Event::PeerPromote { to, from: by });
            }
        }
    }

    /// Takes a question back that waits for its turn.
    pub(crate) fn withdraw_turn(&mut self, by: Caller) {
        self.nodes[by.node].turns.withdraw(by.call);
    }
}
