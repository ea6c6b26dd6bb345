//! The start of a job: daemons come up one after the other, connect to the node above them when they have something to
//! say, and the readiness core (`forebay_job::Readiness`) of each decides what that is.

use std::time::Duration;

use forebay_job::{Readiness, ReadinessEffect, ReadinessOptions, ReportAnswer, ReportTicket};
use forebay_overlay::Forest;
use forebay_types::{NodeRank, Time};
use forebay_wire::{Missing, Report};

use super::network::NodeIndex;
use super::servers::{Fifo, Link, Nanos, Queue, SECOND, nanos, scattered, seconds};
use super::stated::{Machine, StartParameters};

/// The grain of a daemon's timer.
const TIMER_GRAIN: Nanos = SECOND / 1000;

/// The outcome of a start.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// When whoever started the job knew that all were ready, seconds.
    pub known_seconds: f64,
    /// When the last daemon was ready itself.
    pub ready_seconds: f64,
    /// Messages between nodes until then, connections not counted.
    pub messages: u64,
    /// The most messages that one node took.
    pub messages_max: u64,
    /// Nodes that were ready.
    pub nodes: u32,
}

enum Event {
    Ready(NodeIndex),
    Report { to: NodeIndex, from: NodeIndex, ticket: ReportTicket, report: Report },
    Answer { to: NodeIndex, from: NodeIndex, ticket: ReportTicket, answer: ReportAnswer },
    Timer(NodeIndex),
}

struct Node {
    core: Readiness,
    processor: Fifo,
    /// When its daemon listens.
    listens: Nanos,
    timer: Nanos,
    /// The reports that wait for an answer here.
    waiting: Vec<(NodeIndex, ReportTicket)>,
    /// The nodes that it is connected to, and since when.
    connected: Vec<(NodeIndex, Nanos)>,
    messages: u64,
}

struct Start<'a> {
    machine: &'a Machine,
    parameters: &'a StartParameters,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    known: Option<(Nanos, Report)>,
    messages: u64,
}

/// Starts the daemons of so many nodes.
#[must_use]
pub fn start(machine: &Machine, parameters: &StartParameters, forest: &Forest, nodes: usize, seed: u64) -> Started {
    let mut queue = Queue::new();
    let listening = listening(machine, parameters, nodes, seed);
    let mut node = |rank: u32| {
        let listens = listening[rank as usize];
        queue.at(listens, Event::Ready(rank));
        let options = ReadinessOptions { rank: NodeRank(rank), forest: forest.clone(), settle_after: None };
        let core = Readiness::new(options);
        let (processor, waiting, connected) = (Fifo::default(), Vec::new(), Vec::new());
        Node { core, processor, listens, timer: Nanos::MAX, waiting, connected, messages: 0 }
    };
    let nodes: Vec<Node> = (0..nodes as u32).map(&mut node).collect();
    let ready = nodes.iter().map(|node| node.listens).max().unwrap_or(0);
    let mut start = Start { machine, parameters, queue, nodes, known: None, messages: 0 };
    while start.known.is_none() {
        let Some(event) = start.queue.next() else { break };
        start.happen(event);
    }
    let (known, report) = start.known.unwrap_or_default();
    Started {
        known_seconds: seconds(known),
        ready_seconds: seconds(ready),
        messages: start.messages,
        messages_max: start.nodes.iter().map(|node| node.messages).max().unwrap_or(0),
        nodes: report.ready_count,
    }
}

/// When each daemon listens. The launcher starts them by a tree, in any order; the job spec, which names every node, goes to
/// each over connections of its own, so that the launcher's host sends bytes of the square of the number of nodes.
fn listening(machine: &Machine, parameters: &StartParameters, nodes: usize, seed: u64) -> Vec<Nanos> {
    let levels = (nodes.max(2) as f64).log(parameters.fan_out.value).ceil();
    let spread = nanos(parameters.level.value * levels).max(1);
    let mut starts: Vec<(Nanos, usize)> =
        (0..nodes).map(|rank| (scattered(seed, rank as u64) % spread, rank)).collect();
    starts.sort_unstable();
    let bytes = (parameters.spec.value + parameters.spec_node.value * nodes as f64) as u64;
    let of_gigabyte = |cost: f64| nanos(cost * bytes as f64 / 1e9);
    let (sending, reading) = (of_gigabyte(parameters.spec_send.value), of_gigabyte(parameters.spec_gigabyte.value));
    let (mut processor, mut link) = (Fifo::default(), Link::default());
    let mut listening = vec![0; nodes];
    for (at, rank) in starts {
        let sent = processor.serve(at, sending);
        let got = link.pass(sent, bytes, machine.network.node_link.value) + nanos(machine.network.latency.value);
        listening[rank] = got + reading + nanos(parameters.daemon.value);
    }
    listening
}

impl Start<'_> {
    fn happen(&mut self, event: Event) {
        let now = self.queue.now();
        match event {
            Event::Ready(node) => self.decide(node, |core| core.handle_ready(Time(now), Duration::from_nanos(now))),
            Event::Report { to, from, ticket, .. } if self.nodes[to as usize].listens > now => {
                let answer = ReportAnswer::Lost("connection refused".to_owned());
                let back = self.latency();
                self.queue.at(now + back, Event::Answer { to: from, from: to, ticket, answer });
            }
            Event::Report { to, from, ticket, report } => {
                let place = &mut self.nodes[to as usize];
                place.messages += 1;
                place.waiting.retain(|(other, _)| *other != from);
                place.waiting.push((from, ticket));
                self.messages += 1;
                self.decide(to, |core| core.handle_report(Time(now), NodeRank(from), report));
            }
            Event::Answer { to, from, ticket, answer } => {
                self.nodes[to as usize].messages += 1;
                self.messages += 1;
                self.decide(to, |core| core.handle_answer(Time(now), NodeRank(from), ticket, answer));
            }
            Event::Timer(node) => {
                self.nodes[node as usize].timer = Nanos::MAX;
                self.decide(node, |core| core.run_timers(Time(now)));
            }
        }
    }

    fn decide(&mut self, node: NodeIndex, decide: impl FnOnce(&mut Readiness)) {
        decide(&mut self.nodes[node as usize].core);
        let work = nanos(self.machine.daemon.message.value + self.parameters.report.value);
        let at = self.nodes[node as usize].processor.serve(self.queue.now(), work);
        while let Some(effect) = self.nodes[node as usize].core.poll_effect() {
            self.carry_out(node, at, effect);
        }
        let place = &mut self.nodes[node as usize];
        if let Some(Time(next)) = place.core.poll_timeout().filter(|next| next.0 < place.timer) {
            // No sooner than the next millisecond: a shell's timer is no finer.
            place.timer = next.max(self.queue.now() + TIMER_GRAIN);
            self.queue.at(place.timer, Event::Timer(node));
        }
    }

    fn carry_out(&mut self, node: NodeIndex, at: Nanos, effect: ReadinessEffect) {
        match effect {
            ReadinessEffect::Report { to: NodeRank(to), ticket, report } => {
                let latency = self.latency();
                let connected = self.nodes[node as usize].connected.iter().find(|(other, _)| *other == to);
                let arrives = match connected.map(|(_, since)| *since) {
                    // No message overtakes an earlier one on the same connection.
                    Some(since) => since.max(at + latency),
                    None if self.nodes[to as usize].listens <= at => self.connect(node, to, at),
                    // Refused.
                    None => at + latency,
                };
                self.queue.at(arrives, Event::Report { to, from: node, ticket, report });
            }
            ReadinessEffect::Answer { to: NodeRank(to), settled } => {
                let waiting = &mut self.nodes[node as usize].waiting;
                let Some(place) = waiting.iter().position(|(other, _)| *other == to) else { return };
                let (_, ticket) = waiting.swap_remove(place);
                let answer =
                    settled.map_or(ReportAnswer::Noted, |missing: Vec<Missing>| ReportAnswer::Settled(missing));
                let arrives = at + self.latency();
                self.queue.at(arrives, Event::Answer { to, from: node, ticket, answer });
            }
            ReadinessEffect::Announce { report, is_last: true } => self.known = Some((at + self.latency(), report)),
            ReadinessEffect::Announce { .. } | ReadinessEffect::PassOver { .. } | ReadinessEffect::Settled { .. } => {}
        }
    }

    /// A connection's handshake: to and fro twice, and work at the other end, where those that come together wait for each
    /// other. When the first message has arrived.
    fn connect(&mut self, node: NodeIndex, to: NodeIndex, at: Nanos) -> Nanos {
        let (latency, work) = (self.latency(), nanos(self.parameters.handshake.value));
        let accepted = self.nodes[to as usize].processor.serve(at + 3 * latency, work);
        let arrives = accepted + 2 * latency;
        self.nodes[node as usize].connected.push((to, arrives));
        arrives
    }

    fn latency(&self) -> Nanos {
        nanos(self.machine.network.latency.value + self.machine.network.latency_between_groups.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{AURORA, START};

    #[test]
    fn the_starter_hears_of_all_nodes_once_each() {
        for nodes in [1, 2, 50, 1000] {
            let forest = Forest::single(nodes, 8).unwrap();
            let started = start(&AURORA, &START, &forest, nodes as usize, 3);
            assert_eq!(started.nodes, nodes);
            assert!(started.known_seconds >= started.ready_seconds);
            assert!(started.messages_max <= 40, "{started:?}");
        }
    }

    /// Without its bytes a start would take as long at any number of nodes.
    #[test]
    fn job_specs_take_the_launcher_s_time() {
        let ready = |nodes: u32, spec_node| {
            let parameters = StartParameters { spec_node: START.spec_node.but(spec_node, "a test"), ..START };
            let forest = Forest::single(nodes, 8).unwrap();
            start(&AURORA, &parameters, &forest, nodes as usize, 1).ready_seconds
        };
        assert!((ready(4000, 0.0) - ready(2000, 0.0)).abs() < 0.02);
        let sending = |nodes: f64| 38.0 * nodes * nodes * START.spec_send.value / 1e9;
        let (few, many) = (ready(10_000, 38.0), ready(20_000, 38.0));
        assert!(few > sending(10_000.0) && many > sending(20_000.0), "{few} and {many}");
        assert!((3.0..4.1).contains(&(many / few)), "of the square of the nodes: {few} and {many}");
    }

    #[test]
    fn the_same_seed_is_the_same_start() {
        let forest = Forest::single(500, 8).unwrap();
        let times = [1, 1, 2].map(|seed| start(&AURORA, &START, &forest, 500, seed).known_seconds);
        assert_eq!(times[0], times[1]);
        assert_ne!(times[1], times[2]);
    }
}
