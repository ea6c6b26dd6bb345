//! What happens in a job, one thing after the other.

use std::time::Duration;

use forebay_node::{Answered, KernelTicket, PeerTicket};
use forebay_types::{NodeRank, Time};

use crate::NodeIndex;
use crate::event::Event;
use crate::job::{DEADLINE, Job, Setup};
use crate::model::Model;
use crate::program::Program;
use crate::tables::Caller;

/// How long programs may run: some times what those of any test take, with all their requests at their time limits.
const LONGEST: Duration = Duration::from_secs(3600);

impl<'a> Job<'a> {
    /// A job that has just started.
    #[must_use]
    pub fn new(model: &'a Model, setup: Setup, seed: u64) -> Self {
        let mut job = Self::start_nodes(model, setup, seed);
        if setup.prefill {
            job.start_prefill();
        }
        job.carry_out_decided();
        job
    }

    /// Carries out what cores have decided, and what they decide because of it.
    fn carry_out_decided(&mut self) {
        while let Some((node, effect)) = self.decided.pop_front() {
            self.carry_out(node, effect);
        }
    }

    /// Runs programs beside those that run already, until all have ended.
    pub fn run(&mut self, programs: Vec<Program>) {
        let first = self.programs.len();
        self.programs.extend(programs);
        for program in first..self.programs.len() {
            let starts = self.programs[program].starts.max(self.world.now);
            self.world.at(starts, Event::Start(program));
        }
        let until = self.world.now.after(LONGEST);
        while self.programs[first..].iter().any(|program| !program.ended) {
            let timeout = self.timeouts.first().map(|(time, _)| *time);
            match (self.world.next_time(), timeout) {
                // Cores look after each other for ever: that something is still to come does not say that a program ends.
                _ if self.world.now > until => return self.note_hanging(first),
                (Some(event), Some(timeout)) if timeout < event => self.pass_time(timeout),
                (None, Some(timeout)) => self.pass_time(timeout),
                (Some(_), _) => self.happen_next(),
                (None, None) => return self.note_hanging(first),
            }
        }
    }

    fn note_hanging(&mut self, first: usize) {
        let hanging = self.programs[first..].iter().filter(|program| !program.ended).count();
        self.wrong.push(format!("{hanging} programs wait for ever"));
    }

    /// Lets time pass after the programs have ended, and names the nodes that still ask for something.
    pub fn settle(&mut self, time: Duration) -> Vec<String> {
        let until = self.world.now.after(time);
        loop {
            let timeout = self.timeouts.first().map(|(time, _)| *time);
            match (self.world.next_time(), timeout) {
                (Some(event), _) if event <= until && timeout.is_none_or(|timeout| event <= timeout) => {
                    self.happen_next()
                }
                (_, Some(timeout)) if timeout <= until => self.pass_time(timeout),
                _ => break,
            }
        }
        let cores = self.nodes.iter().enumerate().filter(|(_, node)| !node.is_paused);
        let under_way = cores.filter_map(|(index, node)| Some((index, node.core.as_ref()?.under_way())));
        under_way
            .filter(|(_, count)| *count > 0)
            .map(|(node, count)| format!("node {node} asks for ever: {count}"))
            .collect()
    }

    fn pass_time(&mut self, to: Time) {
        self.world.now = self.world.now.max(to);
        while let Some((_, node)) = self.timeouts.first().copied().filter(|(time, _)| *time <= self.world.now) {
            self.with_core(node, |core, now| core.run_timers(now));
            self.carry_out_decided();
            // A core that wants to be told the same time again would be told it for ever.
            let again = self.nodes[node].timeout.filter(|time| *time <= self.world.now);
            assert_eq!(again, None, "node {node} stands still");
        }
    }

    fn happen_next(&mut self) {
        let Some(event) = self.world.next_event() else { return };
        if let Some(stopped) = self.node_of(&event).filter(|node| self.nodes[*node].is_paused) {
            return self.nodes[stopped].inbox.push(event);
        }
        if let Some((node, life)) = event.place() {
            let place = &self.nodes[node];
            if place.core.is_none() || life.is_some_and(|life| life != place.life) {
                return self.refuse(event);
            }
        }
        self.happen(event);
    }

    /// What becomes of a message to a node that does not run any more.
    fn refuse(&mut self, event: Event) {
        match event {
            Event::Ask { to, from, .. } => {
                self.world.send(to, from[0].node, Event::Answer { to: from, answered: Answered::Lost });
            }
            Event::Ping { to, from, life, number, .. } => {
                self.world.send(to, from, Event::Pong { to: from, life, peer: to, number, alive_in: None });
            }
            _ => {}
        }
    }

    fn happen(&mut self, event: Event) {
        self.take_place(event);
        self.carry_out_decided();
    }

    fn take_place(&mut self, event: Event) {
        match event {
            Event::Start(program) => self.start(program),
            Event::Fault(fault) => self.go_wrong(fault),
            Event::Ask { to, from, request } => {
                self.note(|| format!("node {to} is asked by {}: {request:?}", from[0].node));
                let ticket = self.new_ticket();
                self.tickets.insert(ticket, (to, from));
                self.with_core(to, |core, now| core.handle_peer(now, PeerTicket(ticket), request, DEADLINE));
            }
            Event::Backing { by, request, priority } => self.ask_backing(by, &request, priority),
            Event::Answer { to, answered } => {
                for to in to {
                    self.calls.remove(&to);
                    let answered = answered.clone();
                    self.with_core(to.node, |core, now| core.handle_answer(now, to.call, answered));
                }
            }
            Event::Bundle { to, files } => self.bundle_arrives(to, files),
            Event::BodyStart { to, handle } => self.body_starts(to, handle),
            Event::BodyEnd { body, state } => self.body_ends(body, state),
            Event::PeerPromote { to, from } => {
                if let Some(ticket) = self.ticket_of(to, from) {
                    self.with_core(to, |core, now| core.handle_peer_promote(now, PeerTicket(ticket)));
                }
            }
            Event::PeerCancel { to, from } => {
                if let Some(ticket) = self.ticket_of(to, from) {
                    self.tickets.remove(&ticket);
                    self.with_core(to, |core, _| core.handle_peer_cancel(PeerTicket(ticket)));
                }
            }
            Event::Ping { to, from, life, number, epoch } => {
                let alive_in = self.with_core(to, |core, now| core.handle_epoch(now, epoch));
                self.world.send(to, from, Event::Pong { to: from, life, peer: to, number, alive_in });
            }
            Event::Pong { number, .. } if !self.pings.remove(&number) => {}
            Event::Pong { to, peer, alive_in, .. } => {
                self.note(|| format!("node {to} hears that {peer} is {}", alive_in.map_or("lost", |_| "there")));
                self.with_core(to, |core, now| core.handle_ping(now, NodeRank(peer as u32), alive_in));
            }
            Event::OpenParcel { at, index, body, .. } => self.open_parcel(at, index, &body),
            Event::ReadAgain { program, request } => self.read_again(program, request),
            Event::TooLate { program, request } => self.too_late(program, request),
            Event::Step { to, epoch, step, known } => self.take_step(to, epoch, step, known),
            Event::Taken { epoch, step, by } => self.has_taken(epoch, step, by),
            Event::StepOver { epoch, step } => self.step_over(epoch, step),
            Event::Interrupt(program) => {
                let node = self.programs[program].node;
                self.with_core(node, |core, _| core.handle_interrupt(KernelTicket(program as u64)));
            }
        }
    }

    fn ticket_of(&self, at: NodeIndex, caller: Caller) -> Option<u64> {
        self.tickets.iter().find(|(_, (place, from))| *place == at && from[0] == caller).map(|(ticket, _)| *ticket)
    }

    /// At which node something happens, which waits while that node is stopped: its programs' doings and the ends of
    /// bodies too, or a stopped node would still ask, answer and hand on.
    fn node_of(&self, event: &Event) -> Option<NodeIndex> {
        match event {
            Event::Start(program)
            | Event::ReadAgain { program, .. }
            | Event::TooLate { program, .. }
            | Event::Interrupt(program) => Some(self.programs[*program].node),
            Event::BodyEnd { body, .. } => Some(self.bodies[*body].at.node),
            Event::Backing { by, .. } => Some(by.node),
            _ => event.place().map(|(node, _)| node),
        }
    }
}
