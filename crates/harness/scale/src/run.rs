//! The events of a job, one after the other.

use forebay_types::Time;

use super::job::{Event, Job};
use super::network::NodeIndex;
use super::servers::{Nanos, SECOND};

/// A start-up that takes longer does not end: each of its requests is answered within the deadline.
const ENDS_WITHIN: Nanos = 4 * 3600 * SECOND;

impl Job<'_> {
    /// Runs until every program has ended or was lost with its node, or it is clear that one waits for ever.
    pub fn run(&mut self) {
        while self.running > 0 && self.queue.now() < ENDS_WITHIN {
            self.carry_out_decided();
            let Some(event) = self.queue.next() else { return };
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        if event.place().is_some_and(|node| self.nodes[node as usize].is_lost) {
            return;
        }
        match event {
            Event::Launch { node, left } => self.launch_daemon(node, left),
            Event::Start { node, left } => self.start_program(node, left),
            Event::Compute { node, work } => self.compute(node, work),
            Event::Next(node) => self.go_on(node),
            Event::Again(node) => self.read_again(node),
            Event::Ask { to, from, call, request } => self.be_asked(to, from, call, request),
            Event::Told { to, call, answered } => {
                self.decide(to, |core, now| core.handle_answer(now, call, answered));
            }
            Event::Answer { to, call, answered, bytes } => {
                let work = self.cost_of_message(1, bytes);
                self.be_answered(to, call, work, &answered);
            }
            Event::Cross { from, piece } => self.cross(from, piece),
            Event::Arrive(piece) => {
                let now = self.queue.now();
                let done = self.network.arrive(piece.to, now, u64::from(piece.bytes) * u64::from(piece.weight));
                if done > now { self.queue.at(done, Event::Piece(piece)) } else { self.take_piece(piece) }
            }
            Event::Piece(piece) => self.take_piece(piece),
            Event::Lost { to, call } => self.lose_body(to, call),
            Event::Cancel { to, from, call } => self.be_cancelled(to, from, call),
            Event::Ping { to, from, epoch } => self.be_pinged(to, from, epoch),
            Event::Pong { to, peer, epoch } => self.hear_of(to, peer, Some(epoch)),
            Event::Silent { to, peer, number } => {
                if self.nodes[to as usize].pinged.contains(&(peer, number)) {
                    self.hear_of(to, peer, None);
                }
            }
            Event::Listed { node, dir } => self.parcel_dir_listed(node, dir),
            Event::PackRead { node, index } => self.pack_read(node, index),
            Event::Made(body) => self.fill_from_backing(body, self.queue.now(), 0),
            Event::ParcelHere { node, index } => self.parcel_here(node, index),
            Event::Opened { node, index } => self.parcel_opened(node, index),
            Event::Walked { node, index } => self.names_walked(node, index),
            Event::Stored { node, index } => self.parcel_stored(node, index),
            Event::Timer(node) => self.pass_time(node),
            Event::Lose(index) => self.lose_nodes(index),
        }
    }

    fn carry_out_decided(&mut self) {
        while let Some((node, at, effect)) = self.decided.pop_front() {
            self.carry_out(node, at, effect);
        }
    }

    fn pass_time(&mut self, node: NodeIndex) {
        let now = self.queue.now();
        let place = &mut self.nodes[node as usize];
        if place.timer > now {
            // One that was put off: an earlier one has been asked for meanwhile, and has passed.
            return;
        }
        place.timer = Nanos::MAX;
        if place.core.poll_timeout().is_some_and(|Time(next)| next <= now) {
            self.decide(node, |core, now| core.run_timers(now));
        }
        self.note_timer(node);
    }

    fn lose_nodes(&mut self, index: usize) {
        for node in &self.losses[index].nodes {
            let place = &mut self.nodes[*node as usize];
            if !std::mem::replace(&mut place.is_lost, true) && place.program.ended.is_none() {
                self.running -= 1;
            }
        }
    }
}

impl Event {
    /// At which node it happens.
    fn place(&self) -> Option<NodeIndex> {
        match self {
            Self::Launch { node, .. }
            | Self::Start { node, .. }
            | Self::Compute { node, .. }
            | Self::Next(node)
            | Self::Again(node)
            | Self::Timer(node)
            | Self::Listed { node, .. }
            | Self::PackRead { node, .. }
            | Self::ParcelHere { node, .. }
            | Self::Opened { node, .. }
            | Self::Walked { node, .. }
            | Self::Stored { node, .. } => Some(*node),
            Self::Ask { to, .. }
            | Self::Told { to, .. }
            | Self::Answer { to, .. }
            | Self::Lost { to, .. }
            | Self::Cancel { to, .. }
            | Self::Ping { to, .. }
            | Self::Pong { to, .. }
            | Self::Silent { to, .. } => Some(*to),
            Self::Arrive(piece) | Self::Piece(piece) | Self::Made(piece) => Some(piece.to),
            // Pieces under way travel on; nodes are lost by name.
            Self::Cross { .. } | Self::Lose(_) => None,
        }
    }
}
