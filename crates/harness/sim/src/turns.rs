//! The backing file system is asked by the daemon's own I/O scheduler (`forebay_schedule`), at each node.
//! What begins is compared with what all programs of the job wait for at that time.

use std::time::Duration;

use forebay_cache::Key;
use forebay_node::Source;
use forebay_types::{Priority, Time};
use forebay_wire::ReadMessage;

use crate::NodeIndex;
use crate::event::Event;
use crate::job::Job;
use crate::tables::{Call, Caller};
use crate::world::LATENCY_MAX_US;

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

    /// A node asks the backing file system when its scheduler says so.
    pub(crate) fn queue_backing(&mut self, by: Caller, request: ReadMessage, priority: Priority) {
        self.nodes[by.node].scheduler.submit(by.call.0, priority, (by.call, request));
        self.begin_operations(by.node);
    }

    /// An operation of a node is over.
    pub(crate) fn end_operation(&mut self, by: Caller, priority: Priority) {
        if self.nodes[by.node].life == by.life {
            self.nodes[by.node].scheduler.end(priority);
            self.begin_operations(by.node);
        }
    }

    fn begin_operations(&mut self, node: NodeIndex) {
        let life = self.nodes[node].life;
        while let Some(((call, request), priority)) = self.nodes[node].scheduler.begin() {
            self.note_turn(&request, priority);
            self.world.soon(Event::Backing { by: Caller { node, life, call }, request, priority });
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
            Source::Backing => {
                if self.nodes[by.node].scheduler.promote(by.call.0) {
                    self.begin_operations(by.node);
                }
            }
            Source::Peer(to) => {
                let to = to.0 as usize;
                let from = Caller { call: call.with, ..by };
                self.world.send_behind(by.node, to, Event::PeerPromote { to, from });
            }
        }
    }

    /// Takes a question back that waits for its turn.
    pub(crate) fn withdraw_turn(&mut self, by: Caller) {
        self.nodes[by.node].scheduler.withdraw(by.call.0);
    }
}
