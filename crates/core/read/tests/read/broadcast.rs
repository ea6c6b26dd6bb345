//! A chunk that all nodes want at once travels over chains that build themselves: the nodes' read paths over a small network, in virtual
//! time, in which each node sends one body at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use forebay_overlay::{Forest, Shape};
use forebay_read::{Answered, AttemptId, Effect, Options, PeerAnswer, PeerTicket, ReadPath, Source};
use forebay_types::{ChunkIndex, Errno, Generation, NodeRank, Time, ViewPath};
use forebay_wire::{ReadMessage, Request};
use proptest::prelude::*;

use crate::node::options;

const CHUNK: u64 = 1 << 20;

/// A file that has as many homes as a job has nodes.
const LARGE: u64 = 64 * CHUNK;

/// The time of a body on a link, and of a message, milliseconds.
const BODY_MS: u64 = 10;
const MESSAGE_MS: u64 = 1;

/// A body by its number in `Network::bodies`.
type Node = ReadPath<usize>;

/// The number of a node's own request.
const OWN: PeerTicket = PeerTicket(0);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Input {
    Own,
    Timers,
    Dies,
    Asked { from: usize, attempt: u64 },
    Answered { attempt: u64, number: usize },
    BodyEnds { attempt: u64, body: usize },
}

/// A body on its way to one node.
struct Body {
    ends_ms: u64,
    /// The sender, and from which body of its own; none where it comes from the backing file system.
    from: Option<(usize, usize)>,
}

struct Network {
    nodes: Vec<Node>,
    file_bytes: u64,
    died_ms: Vec<Option<u64>>,
    /// When each node's link is free.
    free_ms: Vec<u64>,
    queue: BinaryHeap<Reverse<(u64, usize, Input)>>,
    requests: BTreeMap<(usize, u64), Request<ReadMessage>>,
    answers: Vec<Answer>,
    bodies: Vec<Body>,
    sent: Vec<usize>,
    backing_reads: usize,
    /// When each node had its own chunk whole.
    had_ms: Vec<Option<u64>>,
    /// Bodies handed to nodes themselves.
    own: Vec<Option<usize>>,
}

#[derive(Clone, Debug)]
enum Answer {
    Body(usize),
    Other(Answered),
}

fn at(ms: u64) -> Time {
    Time(0).after(Duration::from_millis(ms))
}

fn message(size_bytes: u64) -> ReadMessage {
    let generation = Generation { size_bytes, ..Generation::default() };
    ReadMessage::Chunk { file: ViewPath::new(b"weights").unwrap(), generation, index: ChunkIndex(0) }
}

impl Network {
    fn new(count: u32, file_bytes: u64) -> Self {
        let shape =
            Shape { node_count: count, roots: 1, fan_out: 4, stripe_fan_out: 4, has_homes: true, row_chunks: 1 };
        let forest = Forest::new(shape).unwrap();
        let node = |rank| Node::new(Options { forest: forest.clone(), ..options(rank, count) });
        let count_of = count as usize;
        Self {
            nodes: (0..count).map(node).collect(),
            file_bytes,
            died_ms: vec![None; count_of],
            free_ms: vec![0; count_of],
            queue: BinaryHeap::new(),
            requests: BTreeMap::new(),
            answers: Vec::new(),
            bodies: Vec::new(),
            sent: vec![0; count_of],
            backing_reads: 0,
            had_ms: vec![None; count_of],
            own: vec![None; count_of],
        }
    }

    fn push(&mut self, ms: u64, node: usize, input: Input) {
        self.queue.push(Reverse((ms, node, input)));
    }

    /// Until nothing is under way, or `until_ms`.
    fn run(&mut self, until_ms: u64) {
        while let Some(Reverse((ms, node, input))) = self.queue.pop() {
            if ms > until_ms {
                return;
            }
            if input == Input::Dies {
                self.died_ms[node].get_or_insert(ms);
            }
            if self.died_ms[node].is_none() {
                self.take(ms, node, input);
                self.carry(ms, node);
            }
        }
    }

    fn take(&mut self, ms: u64, node: usize, input: Input) {
        let core = &mut self.nodes[node];
        match input {
            Input::Own => core.handle_own(at(ms), OWN, message(self.file_bytes)),
            Input::Timers => {
                core.run_timers(at(ms));
                if self.had_ms[node].is_none() {
                    self.push(ms + 100, node, Input::Timers);
                }
            }
            Input::Asked { from, attempt } => {
                let request = self.requests[&(from, attempt)].clone();
                let ticket = PeerTicket(attempt * 100 + from as u64 + 1);
                core.handle_peer(at(ms), NodeRank(from as u32), ticket, request, Duration::from_secs(30));
            }
            Input::Answered { attempt, number } => match self.answers[number].clone() {
                Answer::Other(answered) => core.handle_answer(at(ms), AttemptId(attempt), answered),
                Answer::Body(body) => {
                    if core.handle_body_started(at(ms), AttemptId(attempt), body, CHUNK as usize) {
                        let ends_ms = self.bodies[body].ends_ms.max(ms);
                        self.push(ends_ms, node, Input::BodyEnds { attempt, body });
                    }
                }
            },
            Input::BodyEnds { attempt, body } => {
                let outcome = if self.is_whole(body) { Ok(()) } else { Err(Errno::WAY_LOST) };
                self.nodes[node].handle_body_ended(at(ms), AttemptId(attempt), outcome);
                if self.own[node] == Some(body) {
                    self.own_ended(ms, node, outcome.is_ok());
                }
            }
            Input::Dies => {}
        }
    }

    /// Whether nobody died on its way before it had passed.
    fn is_whole(&self, body: usize) -> bool {
        let Body { ends_ms, from } = self.bodies[body];
        from.is_none_or(|(sender, of)| {
            self.died_ms[sender].is_none_or(|died_ms| died_ms > ends_ms) && self.is_whole(of)
        })
    }

    /// A node's own body has ended: where it is not whole, it asks again, as a kernel's read does.
    fn own_ended(&mut self, ms: u64, node: usize, is_whole: bool) {
        if is_whole {
            self.had_ms[node].get_or_insert(ms);
        } else {
            self.own[node] = None;
            self.push(ms, node, Input::Own);
        }
    }

    fn carry(&mut self, ms: u64, node: usize) {
        while let Some(effect) = self.nodes[node].poll_effect() {
            match effect {
                Effect::Fetch { attempt: AttemptId(attempt), source: Source::Backing, .. } => {
                    self.backing_reads += 1;
                    self.bodies.push(Body { ends_ms: ms + 2 * BODY_MS, from: None });
                    self.answer(ms + BODY_MS, node, attempt, Answer::Body(self.bodies.len() - 1));
                }
                Effect::Fetch { attempt: AttemptId(attempt), source: Source::Peer(peer), request, .. } => {
                    let peer = peer.0 as usize;
                    self.requests.insert((node, attempt), request);
                    if self.died_ms[peer].is_some() {
                        self.answer(ms + 5, node, attempt, Answer::Other(Answered::Lost));
                    } else {
                        self.push(ms + MESSAGE_MS, peer, Input::Asked { from: node, attempt });
                    }
                }
                Effect::AnswerPeer { ticket: OWN, answer } => match answer {
                    PeerAnswer::Body(body) => {
                        self.own[node] = Some(body);
                        if self.bodies[body].ends_ms <= ms {
                            self.own_ended(ms, node, self.is_whole(body));
                        }
                    }
                    answer => panic!("node {node}: {answer:?}"),
                },
                Effect::AnswerPeer { ticket, answer } => self.send(ms, node, ticket, answer),
                Effect::Ping { peer, .. } => {
                    let epoch = self.died_ms[peer.0 as usize].is_none().then(|| self.nodes[node].epoch());
                    self.nodes[node].handle_ping(at(ms), peer, epoch);
                }
                _ => {}
            }
        }
    }

    /// The head of a body waits for those before it on the link.
    fn send(&mut self, mut ms: u64, node: usize, ticket: PeerTicket, answer: PeerAnswer<usize>) {
        let (attempt, to) = (ticket.0 / 100, (ticket.0 % 100 - 1) as usize);
        let answer = match answer {
            PeerAnswer::Body(body) => {
                self.sent[node] += 1;
                // The link sends one body after the other, and none is whole before the one that it is made of.
                let ends = (self.free_ms[node].max(ms) + BODY_MS).max(self.bodies[body].ends_ms) + MESSAGE_MS;
                ms = ms.max(self.free_ms[node]);
                self.free_ms[node] = ends - MESSAGE_MS;
                self.bodies.push(Body { ends_ms: ends, from: Some((node, body)) });
                Answer::Body(self.bodies.len() - 1)
            }
            PeerAnswer::Referred(to) => Answer::Other(Answered::Referred(to)),
            PeerAnswer::Failed(errno) => Answer::Other(Answered::Failed(errno)),
            answer => panic!("{answer:?}"),
        };
        self.answer(ms + MESSAGE_MS, to, attempt, answer);
    }

    fn answer(&mut self, ms: u64, node: usize, attempt: u64, answer: Answer) {
        self.answers.push(answer);
        self.push(ms, node, Input::Answered { attempt, number: self.answers.len() - 1 });
    }
}

/// All nodes want the chunk at once.
fn broadcast(count: u32, file_bytes: u64) -> Network {
    let mut network = Network::new(count, file_bytes);
    for node in 0..count as usize {
        network.push(0, node, Input::Own);
        network.push(50, node, Input::Timers);
    }
    network.run(5_000);
    network
}

#[test]
fn a_broadcast_builds_chains_over_which_each_node_sends_once() {
    // Of a small file one node is home; of a large one all are, and in a small job each sends to all.
    for (count, file_bytes, chains) in [
        (4, CHUNK, 2),
        (8, CHUNK, 2),
        (16, CHUNK, 2),
        (64, CHUNK, 2),
        (4, LARGE, 3),
        (16, LARGE, 15),
        (17, LARGE, 8),
        (64, LARGE, 8),
    ] {
        let network = broadcast(count, file_bytes);
        let last = network.had_ms.iter().map(|had| had.expect("each node has it")).max().unwrap();
        assert_eq!(network.backing_reads, 1);
        let mut sent = network.sent.clone();
        sent.sort_unstable();
        assert_eq!(sent.pop(), Some(chains), "by the home");
        assert!(sent.iter().all(|sent| *sent <= 1), "{count} nodes: {:?}", network.sent);
        assert_eq!(network.sent.iter().sum::<usize>(), count as usize - 1);
        // One after the other from the home, the last of 64 would have it after 650 ms.
        let (home, chain) = (chains as u64 * BODY_MS, u64::from(count).div_ceil(chains as u64) * 6 * MESSAGE_MS);
        assert!(last <= 2 * BODY_MS + home + chain, "{count} nodes: {last} ms");
    }
}

#[test]
fn a_chunk_that_one_node_wants_takes_one_hop() {
    let mut network = Network::new(16, CHUNK);
    for node in 0..16 {
        // None within the time of another.
        network.push(node as u64 * 3_000, node, Input::Own);
    }
    network.run(100_000);
    assert!(network.had_ms.iter().all(Option::is_some));
    assert_eq!(network.sent.iter().filter(|sent| **sent > 0).count(), 1, "the home alone: {:?}", network.sent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Nodes die at any time and ask at any time. All that live get the chunk, within a time that no circle of waits ends in.
    #[test]
    fn who_lives_gets_it_whoever_dies(
        count in 3u32..=40,
        file_bytes in prop_oneof![Just(CHUNK), Just(LARGE)],
        asks in proptest::collection::vec(0u64..1_500, 40),
        deaths in proptest::collection::vec((0usize..40, 0u64..200), 0..4),
    ) {
        let mut network = Network::new(count, file_bytes);
        for node in 0..count as usize {
            network.push(asks[node] / if asks[0] % 2 == 0 { 50 } else { 1 }, node, Input::Own);
            network.push(50, node, Input::Timers);
        }
        for (node, ms) in deaths.iter().filter(|(node, _)| *node < count as usize) {
            network.push(*ms, *node, Input::Dies);
        }
        network.run(25_000);
        for node in (0..count as usize).filter(|node| network.died_ms[*node].is_none()) {
            prop_assert!(network.had_ms[node].is_some(), "node {node} of {count} has nothing");
        }
        prop_assert!(network.backing_reads <= 3 + 2 * deaths.len(), "{} reads", network.backing_reads);
    }
}
