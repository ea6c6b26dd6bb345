//! The flows of an exchange and their times: the rounds of every aggregator, from the ranks to the I/O nodes.
//!
//! An aggregator takes one round after the other: all flows of a round begin when it takes it, each after the latency of its
//! route. When the round's bytes have all come, its I/O begins, as one flow to the I/O node, whose own rate is one more link;
//! and the next round is taken as soon as a buffer is free. Bytes that stay on a node cost nothing. With local storage a
//! buffer is free when it is written there, and the flow to the I/O node reads from there. Aggregators do not wait for each
//! other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fluid::{Fluid, Ordered, Steps};
use crate::case::Case;
use crate::division::{Division, Sender};
use crate::seat::Seat;

/// Events closer to each other than this part of the time are one: rounding takes them apart.
const SAME_TIME: f64 = 1e-9;

/// The flow model's results for a placed exchange.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Flowed {
    /// Seconds from the start to the last byte at the I/O nodes.
    pub total_s: f64,
    /// Seconds from the start until local storage has the last byte; the same as `total_s` without any.
    pub staged_s: f64,
    /// Seconds from the start until each I/O node has its last byte; 0 of one that gets none.
    pub io_ends_s: Vec<f64>,
    /// Bytes over the link of the network with most of them.
    pub busiest_link_bytes: u64,
}

/// Seconds that the exchange takes if these seats aggregate the domains.
#[must_use]
pub fn simulate(case: &Case, division: &Division, seats: &[Seat]) -> Flowed {
    let mut exchange = Exchange::new(case, division, seats);
    for domain in 0..seats.len() {
        exchange.take_round(domain);
    }
    while exchange.step() {}
    Flowed {
        total_s: exchange.total_s,
        staged_s: if case.nvme.is_some() { exchange.staged_s } else { exchange.total_s },
        io_ends_s: exchange.io_ends_s,
        busiest_link_bytes: exchange.link_bytes.iter().copied().max().unwrap_or(0),
    }
}

/// A flow, by what it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Tag {
    domain: u32,
    round: u32,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    /// From ranks to the aggregator.
    Exchange,
    /// To the aggregator's own storage.
    Stage,
    /// To the I/O node.
    Io,
}

/// A flow that has not begun to move: its head is still under way.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Waiting {
    at: Ordered,
    tag: Tag,
    route: Vec<u32>,
    steps: Steps,
}

/// An aggregator's progress.
#[derive(Clone, Copy, Debug)]
struct Aggregator {
    seat: Seat,
    io: usize,
    /// The round that it takes next, or is taking.
    round: usize,
    is_receiving: bool,
    /// Flows of the round that it is taking that have not ended.
    coming: usize,
    buffers_in_use: usize,
}

struct Exchange<'c> {
    case: &'c Case,
    division: &'c Division,
    now: f64,
    fluid: Fluid<Tag>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    aggregators: Vec<Aggregator>,
    link_bytes: Vec<u64>,
    ended: Vec<Tag>,
    total_s: f64,
    io_ends_s: Vec<f64>,
    staged_s: f64,
}

impl<'c> Exchange<'c> {
    fn new(case: &'c Case, division: &'c Division, seats: &[Seat]) -> Self {
        let mut rates = case.network.rates();
        let link_bytes = vec![0; rates.len()];
        rates.extend(case.io_nodes.iter().map(|io| io.bytes_per_s));
        if let Some(nvme) = case.nvme {
            let nodes = case.network.node_count();
            rates.extend((0..nodes).flat_map(|_| [nvme.write_bytes_per_s, nvme.read_bytes_per_s]));
        }
        let aggregator = |seat: &Seat| Aggregator {
            seat: *seat,
            io: case.io_of(seat.node),
            round: 0,
            is_receiving: false,
            coming: 0,
            buffers_in_use: 0,
        };
        Self {
            case,
            division,
            now: 0.0,
            fluid: Fluid::new(&rates),
            waiting: BinaryHeap::new(),
            aggregators: seats.iter().map(aggregator).collect(),
            link_bytes,
            ended: vec![],
            total_s: 0.0,
            io_ends_s: vec![0.0; case.io_nodes.len()],
            staged_s: 0.0,
        }
    }

    /// Goes on to the next time at which something happens; false when nothing will.
    fn step(&mut self) -> bool {
        self.fluid.share(self.now);
        let begins = self.waiting.peek().map(|Reverse(first)| first.at.0);
        let ends = self.fluid.next_end();
        let Some(next) = [begins, ends].into_iter().flatten().reduce(f64::min) else { return false };
        self.now = next;
        let until = next * (1.0 + SAME_TIME);
        let mut ended = std::mem::take(&mut self.ended);
        self.fluid.end(until, &mut ended);
        ended.sort_unstable();
        for tag in ended.drain(..) {
            self.ended(tag);
        }
        self.ended = ended;
        while let Some(first) = self.waiting.peek_mut().filter(|first| first.0.at.0 <= until) {
            let Waiting { tag, route, steps, .. } = std::collections::binary_heap::PeekMut::pop(first).0;
            self.fluid.begin(self.now, tag, &route, steps);
        }
        true
    }

    /// An aggregator takes its next round if it can.
    fn take_round(&mut self, domain: usize) {
        let division = self.division;
        loop {
            let aggregator = &mut self.aggregators[domain];
            if aggregator.round == division.rounds
                || aggregator.is_receiving
                || aggregator.buffers_in_use == self.case.buffering.buffers
            {
                return;
            }
            aggregator.is_receiving = true;
            aggregator.buffers_in_use += 1;
            let (node, round) = (aggregator.seat.node, aggregator.round);
            let window = &division.domains[domain].windows[aggregator.seat.window(round, division.rounds)];
            for of_node in window.senders.chunk_by(|left, right| left.node == right.node) {
                self.send(domain, round, of_node, node);
            }
            if self.aggregators[domain].coming > 0 {
                return;
            }
            self.received(domain);
        }
    }

    /// Ranks of one node send to an aggregator.
    fn send(&mut self, domain: usize, round: usize, senders: &[Sender], to: usize) {
        let from = senders[0].node;
        if from != to {
            let steps = senders.iter().map(|sender| (sender.bytes, sender.ranks)).collect();
            let tag = Tag { domain: domain as u32, round: round as u32, phase: Phase::Exchange };
            self.aggregators[domain].coming += 1;
            self.flow(tag, from, to, &[], steps);
        }
    }

    /// All bytes of a round have come: they go on, and the next round may come.
    fn received(&mut self, domain: usize) {
        let aggregator = &mut self.aggregators[domain];
        let round = aggregator.round;
        aggregator.is_receiving = false;
        aggregator.round += 1;
        let tag = Tag { domain: domain as u32, round: round as u32, phase: Phase::Stage };
        let bytes = self.bytes(tag);
        match self.case.nvme {
            _ if bytes == 0 => self.aggregators[domain].buffers_in_use -= 1,
            Some(_) => {
                let route = vec![self.storage_link(self.aggregators[domain].seat.node)];
                self.wait(tag, 0.0, route, vec![(bytes, 1)]);
            }
            None => self.write(Tag { phase: Phase::Io, ..tag }),
        }
    }

    /// Bytes of the file that a flow's round takes.
    fn bytes(&self, tag: Tag) -> u64 {
        let window = self.aggregators[tag.domain as usize].seat.window(tag.round as usize, self.division.rounds);
        self.division.domains[tag.domain as usize].windows[window].bytes
    }

    /// The link to a node's own storage; that from it is the next.
    fn storage_link(&self, node: usize) -> u32 {
        (self.link_bytes.len() + self.case.io_nodes.len() + node * 2) as u32
    }

    /// Bytes of a round go to the I/O node.
    fn write(&mut self, tag: Tag) {
        let Aggregator { seat: Seat { node, .. }, io, .. } = self.aggregators[tag.domain as usize];
        let bytes = self.bytes(tag);
        let io_link = (self.link_bytes.len() + io) as u32;
        let target = self.case.io_nodes[io].node;
        match self.case.nvme {
            Some(_) => self.flow(tag, node, target, &[io_link, self.storage_link(node) + 1], vec![(bytes, 1)]),
            None => self.flow(tag, node, target, &[io_link], vec![(bytes, 1)]),
        }
    }

    /// A flow over the network, and over what else it needs, begins after its route's latency.
    fn flow(&mut self, tag: Tag, from: usize, to: usize, besides: &[u32], steps: Steps) {
        let mut route = Vec::new();
        self.case.network.route(from, to, &mut route);
        let bytes: u64 = steps.iter().map(|(bytes, members)| bytes * u64::from(*members)).sum();
        for link in &route {
            self.link_bytes[*link as usize] += bytes;
        }
        route.extend(besides);
        self.wait(tag, self.case.network.latency_s(from, to), route, steps);
    }

    fn wait(&mut self, tag: Tag, seconds: f64, route: Vec<u32>, steps: Steps) {
        self.waiting.push(Reverse(Waiting { at: Ordered(self.now + seconds), tag, route, steps }));
    }

    fn ended(&mut self, tag: Tag) {
        let domain = tag.domain as usize;
        match tag.phase {
            Phase::Exchange => {
                self.aggregators[domain].coming -= 1;
                if self.aggregators[domain].coming > 0 {
                    return;
                }
                self.received(domain);
            }
            Phase::Stage => {
                self.staged_s = self.now;
                self.aggregators[domain].buffers_in_use -= 1;
                self.write(Tag { phase: Phase::Io, ..tag });
            }
            Phase::Io => {
                self.total_s = self.now;
                self.io_ends_s[self.aggregators[domain].io] = self.now;
                if self.case.nvme.is_none() {
                    self.aggregators[domain].buffers_in_use -= 1;
                }
            }
        }
        self.take_round(domain);
    }
}
