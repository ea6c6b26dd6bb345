//! No two nodes lead the tree at the same time, and none owns it without earlier promises. This holds whatever is lost between the
//! voters, whichever begins anew and however fast clocks go.
use std::time::Duration;

use forebay_types::{NodeRank, Time};
use forebay_wire::write_message::{Leadership, Renewal, ReplicatedIndex, VoteReply, VoteRequest};
use forebay_write::{Backlog, Entries, LeaderLease, Lineage, Next, Voter, is_majority, standby};
use proptest::prelude::*;

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Time passes, milliseconds.
    Pass(u64),
    /// A leader asks a member to renew its leader lease. Whether the member hears it, and the leader the answer.
    Renew { leader: usize, voter: usize, arrives: bool, returns: bool },
    /// Every leader changes its tree.
    Change,
    /// The standby of every leader asks it for what it lacks. Whether it hears the answer.
    Follow { returns: bool },
    /// Every leader promises what there is, if it may.
    Promise,
    /// A node whose leader is silent bids. Which members it reaches, as bits.
    VoteRequest { node: usize, reaches: u8 },
    /// All members but a leader before it hear the newest leader, and its standby has everything.
    Calm,
    /// The leader is silent for so long, milliseconds; then each node that may vote request does, and is heard.
    Silence(u64),
    /// A node's daemon begins anew. A loss of power takes so many of the last changes of its log, unless they were promised.
    Restart { node: usize, loses: usize },
}

/// A node and its clock.
struct Node {
    /// Of its clock, percent.
    rate: u64,
    /// The state in its log.
    leadership: Leadership,
    voter: Voter,
    /// If it believes that it leads the tree.
    leader: Option<Leader>,
    log: Log,
    /// Its copy of the tree as standby.
    mirror: Option<(ReplicatedIndex, Vec<u64>)>,
}

/// Changes that a daemon finds in its log.
const RECENT: usize = 3;

struct Leader {
    leader_lease: LeaderLease,
    history: Backlog<Vec<u8>>,
}

/// The part of a node's log about a tree that it owns.
#[derive(Clone, Default)]
struct Log {
    /// Changes before it took the tree over.
    taken: Vec<u64>,
    notes: Vec<Note>,
}

#[derive(Clone, Copy)]
enum Note {
    Line(u64),
    Change(u64),
}

impl Log {
    fn of_notes(&self) -> impl Iterator<Item = u64> {
        self.notes.iter().filter_map(|note| if let Note::Change(change) = note { Some(*change) } else { None })
    }

    fn changes(&self) -> Vec<u64> {
        self.taken.iter().copied().chain(self.of_notes()).collect()
    }

    /// The findings of a daemon that begins.
    fn recover(&self) -> (Lineage, Entries<Vec<u8>>) {
        let (mut lineage, mut recent) = (Lineage::default(), Entries::default());
        for note in &self.notes {
            match note {
                Note::Line(incarnation) => lineage.begin(*incarnation),
                Note::Change(_) => lineage.note(),
            }
        }
        let changes: Vec<u64> = self.of_notes().collect();
        changes.iter().rev().take(RECENT).rev().for_each(|change| recent.note(change.to_le_bytes().into()));
        (lineage, recent)
    }
}

struct World {
    now_ms: u64,
    incarnations: u64,
    voters: Vec<NodeRank>,
    nodes: Vec<Node>,
    /// The changes that were promised.
    promised: Vec<u64>,
    changes: u64,
    takeovers: usize,
}

impl World {
    fn new(rates: &[u64]) -> Self {
        let voters: Vec<NodeRank> = (0..rates.len() as u32).map(NodeRank).collect();
        let nodes = rates.iter().map(|rate| Node {
            rate: *rate,
            leadership: Leadership::default(),
            voter: Voter::new(Time::default(), Leadership::default()),
            leader: None,
            log: Log::default(),
            mirror: None,
        });
        let (nodes, promised) = (nodes.collect(), vec![]);
        let mut world = Self { now_ms: 0, incarnations: 0, nodes, voters, promised, changes: 0, takeovers: 0 };
        world.begin(0);
        world
    }

    /// By the clock of a node.
    fn at(&self, node: usize) -> Time {
        Time::default().after(Duration::from_millis(self.now_ms * self.nodes[node].rate / 100))
    }

    /// A node's daemon begins, with what its log says.
    fn begin(&mut self, node: usize) {
        let now = self.at(node);
        self.incarnations += 1;
        let (incarnations, voters) = (self.incarnations, self.voters.clone());
        let at = &mut self.nodes[node];
        at.voter = Voter::new(now, at.leadership);
        let is_leader = at.leadership.leader.0 as usize == node;
        at.leader = is_leader.then(|| {
            let (mut lineage, recent) = at.log.recover();
            lineage.begin(incarnations);
            at.log.notes.push(Note::Line(incarnations));
            Leader { leader_lease: LeaderLease::new(voters), history: Backlog::new(lineage, recent, now) }
        });
    }

    fn leaders(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].leader.is_some()).collect()
    }

    fn holders(&self) -> Vec<usize> {
        let holds = |node: &usize| self.nodes[*node].leader.as_ref().unwrap().leader_lease.is_held(self.at(*node));
        self.leaders().into_iter().filter(holds).collect()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Pass(ms) => self.now_ms += ms,
            Event::Renew { leader, voter, arrives, returns } => {
                let leaders = self.leaders();
                if let Some(leader) = leaders.get(leader % leaders.len().max(1)) {
                    self.renew(*leader, voter % self.nodes.len(), arrives, returns);
                }
            }
            Event::Change => {
                for leader in self.leaders() {
                    self.changes += 1;
                    let (change, node) = (self.changes, &mut self.nodes[leader]);
                    node.log.notes.push(Note::Change(change));
                    node.leader.as_mut().unwrap().history.note(change.to_le_bytes().into());
                }
            }
            Event::Follow { returns } => self.leaders().into_iter().for_each(|leader| self.follow(leader, returns)),
            Event::Promise => self.leaders().into_iter().for_each(|leader| self.promise(leader)),
            Event::VoteRequest { node, reaches } => self.vote_request(node % self.nodes.len(), reaches),
            Event::Calm => self.calm(),
            Event::Silence(ms) => {
                self.now_ms += ms;
                (0..self.nodes.len()).for_each(|node| self.vote_request(node, u8::MAX));
                self.calm();
            }
            Event::Restart { node, loses } => self.restart(node % self.nodes.len(), loses),
        }
    }

    fn restart(&mut self, node: usize, loses: usize) {
        let log = &mut self.nodes[node].log;
        for _ in 0..loses {
            let had_promised = log.changes().starts_with(&self.promised);
            let Some(note) = log.notes.pop() else { break };
            if had_promised && !log.changes().starts_with(&self.promised) {
                log.notes.push(note);
                break;
            }
        }
        self.begin(node);
    }

    fn calm(&mut self) {
        let Some(newest) = self.leaders().into_iter().max_by_key(|leader| self.nodes[*leader].leadership) else {
            return;
        };
        for voter in 0..self.nodes.len() {
            if voter == newest || self.nodes[voter].leader.is_none() {
                self.renew(newest, voter, true, true);
            }
        }
        (0..3).for_each(|_| self.follow(newest, true));
    }

    fn renew(&mut self, leader: usize, voter: usize, arrives: bool, returns: bool) {
        let (asked, now) = (self.at(leader), self.at(voter));
        let leadership = self.nodes[leader].leadership;
        // It may have heard of another one.
        let Some(Leader { leader_lease, history }) = &mut self.nodes[leader].leader else { return };
        let renewal = Renewal {
            leadership,
            incarnation: history.have().incarnation,
            number: self.now_ms,
            is_followed: history.is_followed(asked),
        };
        leader_lease.asks(NodeRank(voter as u32), renewal.is_followed);
        if !arrives {
            return;
        }
        let told = self.nodes[voter].voter.renew(now, renewal);
        if told.is_ok() && self.nodes[voter].leadership < leadership {
            self.nodes[voter].leadership = leadership;
            if self.nodes[voter].leader.is_some() {
                self.begin(voter);
            }
        }
        let Leader { leader_lease, .. } = self.nodes[leader].leader.as_mut().unwrap();
        match told {
            _ if !returns => {}
            Ok(()) => leader_lease.granted(NodeRank(voter as u32), asked, renewal.is_followed),
            Err(newer) => leader_lease.refused(newer),
        }
    }

    fn standby_of(&self, leader: usize) -> Option<usize> {
        standby(&self.voters, NodeRank(leader as u32)).map(|second| second.0 as usize)
    }

    fn follow(&mut self, leader: usize, returns: bool) {
        let (now, second) = (self.at(leader), self.standby_of(leader));
        let Some(second) = second.filter(|_| self.holders().contains(&leader)) else { return };
        let mirror = self.nodes[second].mirror.clone();
        let (all, taken) = (self.nodes[leader].log.changes(), self.nodes[leader].log.taken.len());
        let history = &mut self.nodes[leader].leader.as_mut().unwrap().history;
        history.heard(now, mirror.as_ref().map(|(have, _)| *have));
        let sent = match history.next() {
            Next::Entries { have, entries } => mirror.map(|(_, mut known)| {
                known.extend(entries.into_iter().map(|change| u64::from_le_bytes(change.try_into().unwrap())));
                (have, known)
            }),
            Next::All => Some((history.have(), all.clone())),
        };
        let (have, known) = sent.clone().unwrap_or_default();
        assert!(all.starts_with(&known), "{known:?} is not how {all:?} began");
        assert!(known.is_empty() || have.count as usize + taken == known.len(), "{have:?} of {known:?}");
        if returns {
            self.nodes[second].mirror = sent;
        }
    }

    fn promise(&mut self, leader: usize) {
        let now = self.at(leader);
        let Leader { leader_lease, history } = self.nodes[leader].leader.as_mut().unwrap();
        let have = history.have();
        if leader_lease.is_held(now) && history.is_safe(now, have.count, leader_lease.may_go_on_alone(now)) {
            self.promised = self.nodes[leader].log.changes();
        }
    }

    fn vote_request(&mut self, node: usize, reaches: u8) {
        let Some((have, followed)) = self.nodes[node].mirror.clone() else { return };
        let known = self.nodes[node].voter.leadership();
        let own = NodeRank(node as u32);
        if self.nodes[node].leader.is_some()
            || self.standby_of(self.nodes[node].leadership.leader.0 as usize) != Some(node)
        {
            return;
        }
        let leadership = if known.leader == own { known } else { Leadership { term: known.term + 1, leader: own } };
        for is_trial in [true, false] {
            let vote_request = VoteRequest { leadership, incarnation: have.incarnation, is_trial };
            let granted: Vec<bool> =
                (0..self.nodes.len()).map(|voter| self.votes(voter, vote_request, node, reaches)).collect();
            if !is_majority(&self.voters, |voter| granted[voter.0 as usize]) {
                return;
            }
        }
        assert!(followed.starts_with(&self.promised), "node {node} has {have:?}, {followed:?} of {:?}", self.promised);
        self.takeovers += 1;
        self.nodes[node].leadership = leadership;
        self.nodes[node].mirror = None;
        self.nodes[node].log = Log { taken: followed, notes: vec![] };
        self.begin(node);
    }

    fn votes(&mut self, voter: usize, vote_request: VoteRequest, bidder: usize, reaches: u8) -> bool {
        if voter != bidder && (reaches >> voter & 1 == 0 || self.nodes[voter].leader.is_some()) {
            return false;
        }
        let now = self.at(voter);
        let at = &mut self.nodes[voter];
        let is_granted = at.voter.vote(now, vote_request) == VoteReply::Granted;
        if is_granted && !vote_request.is_trial && voter != bidder {
            at.leadership = vote_request.leadership;
        }
        is_granted
    }
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3000_u64).prop_map(Event::Pass),
        12 => (any::<usize>(), any::<usize>(), prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(leader, voter, arrives, returns)| Event::Renew { leader, voter, arrives, returns }),
        2 => Just(Event::Change),
        4 => prop::bool::weighted(0.8).prop_map(|returns| Event::Follow { returns }),
        2 => Just(Event::Promise),
        3 => (any::<usize>(), any::<u8>()).prop_map(|(node, reaches)| Event::VoteRequest { node, reaches }),
        1 => (any::<usize>(), 0..4_usize).prop_map(|(node, loses)| Event::Restart { node, loses }),
        3 => Just(Event::Calm),
        2 => (8000..12000_u64).prop_map(Event::Silence),
    ]
}

fn happens(rates: &[u64], events: &[Event]) -> usize {
    let mut world = World::new(rates);
    for event in events {
        world.take(*event);
        let holders = world.holders();
        assert!(holders.len() <= 1, "nodes {holders:?} lead the tree after {event:?}");
    }
    world.takeovers
}

#[test]
fn there_is_one_leader_and_it_has_what_was_promised() {
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { cases: 2000, ..ProptestConfig::default() });
    let takeovers = std::cell::Cell::new(0);
    let cases = (prop::collection::vec(96..=104_u64, 2..=5), prop::collection::vec(events(), 1..300));
    runner
        .run(&cases, |(rates, events)| {
            takeovers.set(takeovers.get() + happens(&rates, &events));
            Ok(())
        })
        .unwrap();
    println!("{} takeovers", takeovers.get());
    assert!(takeovers.get() > 100, "the tree was taken over {} times", takeovers.get());
}
