//! Whatever is lost between the nodes of a council, whoever begins anew and however fast clocks go: no two nodes own the tree at the
//! same time, and none owns it without what was promised before.
use std::time::Duration;

use forebay_types::{NodeRank, Time};
use forebay_wire::write_message::{Bid, Have, Owns, Renewal, Verdict};
use forebay_write::{History, Member, Sent, Tenure, is_majority, second_home};
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
    /// Nobody hears an owner for so long, milliseconds, and then whoever may bids, and is heard.
    Silence(u64),
    /// A node's daemon begins anew.
    Restart { node: usize },
}

/// What a node is and has.
struct Node {
    /// Of its clock, percent.
    rate: u64,
    /// What its log says.
    owns: Owns,
    member: Member,
    /// If it believes that it owns the tree.
    owner: Option<Owner>,
    /// What it has of the tree as its second home.
    mirror: Option<Have>,
}

struct Owner {
    tenure: Tenure,
    history: History,
}

struct World {
    now_ms: u64,
    lines: u64,
    council: Vec<NodeRank>,
    nodes: Vec<Node>,
    /// The last that was promised.
    promised: Have,
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
            mirror: None,
        });
        let promised = Have { line: 0, count: 0 };
        let mut world = Self { now_ms: 0, lines: 0, nodes: nodes.collect(), council, promised, takeovers: 0 };
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
        at.owner = is_owner.then(|| Owner { tenure: Tenure::new(council), history: History::new(lines, now) });
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
                    self.nodes[owner].owner.as_mut().unwrap().history.note(vec![0]);
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
            Event::Restart { node } => self.begin(node % self.nodes.len()),
        }
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
        let mirror = self.nodes[second].mirror;
        let history = &mut self.nodes[owner].owner.as_mut().unwrap().history;
        history.heard(now, mirror);
        let sent = match history.sent() {
            Sent::Nothing => mirror,
            Sent::Changes(changes) => mirror.map(|have| Have { count: have.count + changes.len() as u64, ..have }),
            Sent::Tree => Some(history.have()),
        };
        if returns {
            self.nodes[second].mirror = sent;
        }
    }

    fn promise(&mut self, owner: usize) {
        let now = self.at(owner);
        let Owner { tenure, history } = self.nodes[owner].owner.as_mut().unwrap();
        let have = history.have();
        if tenure.is_held(now) && history.is_safe(now, have.count, tenure.may_go_on_alone(now)) {
            self.promised = have;
        }
    }

    fn bid(&mut self, node: usize, reaches: u8) {
        let Some(have) = self.nodes[node].mirror else { return };
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
        assert!(have >= self.promised, "node {node} has {have:?} of what was promised, {:?}", self.promised);
        self.takeovers += 1;
        self.nodes[node].owns = owns;
        self.nodes[node].mirror = None;
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
        1 => any::<usize>().prop_map(|node| Event::Restart { node }),
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
