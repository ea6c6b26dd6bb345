//! No two nodes own the tree at the same time, and none owns it without earlier promises. This holds whatever is lost between the
//! nodes of a council, whichever begins anew and however fast clocks go.
use std::time::Duration;

use forebay_types::{NodeRank, Time};
use forebay_wire::write_message::{Bid, Have, Owns, Renewal, Verdict};
use forebay_write::{Backlog, Entries, Lineage, Member, Next, Tenure, is_majority, second_home};
use proptest::prelude::*;

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Time passes, milliseconds.
    Pass(u64),
    /// An owner asks a member to renew its tenure. Whether the member hears it, and the owner the answer.
    Renew { owner: usize, member: usize, arrives: bool, returns: bool },
    /// Every owner changes its tree.
    Change,
    /// The second home of every owner asks it for what it lacks. Whether it hears the answer.
    Follow { returns: bool },
    /// Every owner promises what there is, if it may.
    Promise,
    /// A node whose owner is silent bids. Which members it reaches, as bits.
    Bid { node: usize, reaches: u8 },
    /// All members but an owner before it hear the newest owner, and its second home has everything.
    Calm,
    /// The owner is silent for so long, milliseconds; then each node that may bid does, and is heard.
    Silence(u64),
    /// A node's daemon begins anew. A loss of power takes so many of the last changes of its log, unless they were promised.
    Restart { node: usize, loses: usize },
}

/// A node and its clock.
struct Node {
    /// Of its clock, percent.
    rate: u64,
    /// The state in its log.
    owns: Owns,
    member: Member,
    /// If it believes that it owns the tree.
    owner: Option<Owner>,
    log: Log,
    /// Its copy of the tree as second home.
    mirror: Option<(Have, Vec<u64>)>,
}

/// Changes that a daemon finds in its log.
const RECENT: usize = 3;

struct Owner {
    tenure: Tenure,
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
                Note::Line(line) => lineage.begin(*line),
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
    lines: u64,
    council: Vec<NodeRank>,
    nodes: Vec<Node>,
    /// The changes that were promised.
    promised: Vec<u64>,
    changes: u64,
    takeovers: usize,
}

impl World {
    fn new(rates: &[u64]) -> Self {
        let council: Vec<NodeRank> = (0..rates.len() as u32).map(NodeRank).collect();
        let nodes = rates.iter().map(|rate| Node {
            rate: *rate,
            owns: Owns::default(),
            member: Member::new(Time::default(), Owns::default()),
            owner: None,
            log: Log::default(),
            mirror: None,
        });
        let (nodes, promised) = (nodes.collect(), vec![]);
        let mut world = Self { now_ms: 0, lines: 0, nodes, council, promised, changes: 0, takeovers: 0 };
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
        self.lines += 1;
        let (lines, council) = (self.lines, self.council.clone());
        let at = &mut self.nodes[node];
        at.member = Member::new(now, at.owns);
        let is_owner = at.owns.node.0 as usize == node;
        at.owner = is_owner.then(|| {
            let (mut lineage, recent) = at.log.recover();
            lineage.begin(lines);
            at.log.notes.push(Note::Line(lines));
            Owner { tenure: Tenure::new(council), history: Backlog::new(lineage, recent, now) }
        });
    }

    fn owners(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].owner.is_some()).collect()
    }

    fn holders(&self) -> Vec<usize> {
        let holds = |node: &usize| self.nodes[*node].owner.as_ref().unwrap().tenure.is_held(self.at(*node));
        self.owners().into_iter().filter(holds).collect()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Pass(ms) => self.now_ms += ms,
            Event::Renew { owner, member, arrives, returns } => {
                let owners = self.owners();
                if let Some(owner) = owners.get(owner % owners.len().max(1)) {
                    self.renew(*owner, member % self.nodes.len(), arrives, returns);
                }
            }
            Event::Change => {
                for owner in self.owners() {
                    self.changes += 1;
                    let (change, node) = (self.changes, &mut self.nodes[owner]);
                    node.log.notes.push(Note::Change(change));
                    node.owner.as_mut().unwrap().history.note(change.to_le_bytes().into());
                }
            }
            Event::Follow { returns } => self.owners().into_iter().for_each(|owner| self.follow(owner, returns)),
            Event::Promise => self.owners().into_iter().for_each(|owner| self.promise(owner)),
            Event::Bid { node, reaches } => self.bid(node % self.nodes.len(), reaches),
            Event::Calm => self.calm(),
            Event::Silence(ms) => {
                self.now_ms += ms;
                (0..self.nodes.len()).for_each(|node| self.bid(node, u8::MAX));
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
        let Some(newest) = self.owners().into_iter().max_by_key(|owner| self.nodes[*owner].owns) else { return };
        for member in 0..self.nodes.len() {
            if member == newest || self.nodes[member].owner.is_none() {
                self.renew(newest, member, true, true);
            }
        }
        (0..3).for_each(|_| self.follow(newest, true));
    }

    fn renew(&mut self, owner: usize, member: usize, arrives: bool, returns: bool) {
        let (asked, now) = (self.at(owner), self.at(member));
        let owns = self.nodes[owner].owns;
        // It may have heard of another one.
        let Some(Owner { tenure, history }) = &mut self.nodes[owner].owner else { return };
        let renewal =
            Renewal { owns, line: history.have().line, number: self.now_ms, is_followed: history.is_followed(asked) };
        tenure.asks(NodeRank(member as u32), renewal.is_followed);
        if !arrives {
            return;
        }
        let told = self.nodes[member].member.renew(now, renewal);
        if told.is_ok() && self.nodes[member].owns < owns {
            self.nodes[member].owns = owns;
            if self.nodes[member].owner.is_some() {
                self.begin(member);
            }
        }
        let Owner { tenure, .. } = self.nodes[owner].owner.as_mut().unwrap();
        match told {
            _ if !returns => {}
            Ok(()) => tenure.granted(NodeRank(member as u32), asked, renewal.is_followed),
            Err(newer) => tenure.refused(newer),
        }
    }

    fn second_home_of(&self, owner: usize) -> Option<usize> {
        second_home(&self.council, NodeRank(owner as u32)).map(|second| second.0 as usize)
    }

    fn follow(&mut self, owner: usize, returns: bool) {
        let (now, second) = (self.at(owner), self.second_home_of(owner));
        let Some(second) = second.filter(|_| self.holders().contains(&owner)) else { return };
        let mirror = self.nodes[second].mirror.clone();
        let (all, taken) = (self.nodes[owner].log.changes(), self.nodes[owner].log.taken.len());
        let history = &mut self.nodes[owner].owner.as_mut().unwrap().history;
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

    fn promise(&mut self, owner: usize) {
        let now = self.at(owner);
        let Owner { tenure, history } = self.nodes[owner].owner.as_mut().unwrap();
        let have = history.have();
        if tenure.is_held(now) && history.is_safe(now, have.count, tenure.may_go_on_alone(now)) {
            self.promised = self.nodes[owner].log.changes();
        }
    }

    fn bid(&mut self, node: usize, reaches: u8) {
        let Some((have, followed)) = self.nodes[node].mirror.clone() else { return };
        let known = self.nodes[node].member.owns();
        let own = NodeRank(node as u32);
        if self.nodes[node].owner.is_some() || self.second_home_of(self.nodes[node].owns.node.0 as usize) != Some(node)
        {
            return;
        }
        let owns = if known.node == own { known } else { Owns { epoch: known.epoch + 1, node: own } };
        for is_trial in [true, false] {
            let bid = Bid { owns, line: have.line, is_trial };
            let granted: Vec<bool> =
                (0..self.nodes.len()).map(|member| self.votes(member, bid, node, reaches)).collect();
            if !is_majority(&self.council, |member| granted[member.0 as usize]) {
                return;
            }
        }
        assert!(followed.starts_with(&self.promised), "node {node} has {have:?}, {followed:?} of {:?}", self.promised);
        self.takeovers += 1;
        self.nodes[node].owns = owns;
        self.nodes[node].mirror = None;
        self.nodes[node].log = Log { taken: followed, notes: vec![] };
        self.begin(node);
    }

    fn votes(&mut self, member: usize, bid: Bid, bidder: usize, reaches: u8) -> bool {
        if member != bidder && (reaches >> member & 1 == 0 || self.nodes[member].owner.is_some()) {
            return false;
        }
        let now = self.at(member);
        let at = &mut self.nodes[member];
        let is_granted = at.member.vote(now, bid) == Verdict::Granted;
        if is_granted && !bid.is_trial && member != bidder {
            at.owns = bid.owns;
        }
        is_granted
    }
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..3000_u64).prop_map(Event::Pass),
        12 => (any::<usize>(), any::<usize>(), prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(owner, member, arrives, returns)| Event::Renew { owner, member, arrives, returns }),
        2 => Just(Event::Change),
        4 => prop::bool::weighted(0.8).prop_map(|returns| Event::Follow { returns }),
        2 => Just(Event::Promise),
        3 => (any::<usize>(), any::<u8>()).prop_map(|(node, reaches)| Event::Bid { node, reaches }),
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
        assert!(holders.len() <= 1, "nodes {holders:?} own the tree after {event:?}");
    }
    world.takeovers
}

#[test]
fn there_is_one_owner_and_it_has_what_was_promised() {
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
