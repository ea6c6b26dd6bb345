//! Ways: whom a question goes to, and where it goes next when it gets lost.
//!
//! A question is one flight with one attempt under way, or two while it is hedged; the first answer counts and the other
//! attempt is cancelled. An attempt at a node that is lost is made again at the next in the line (`Tree::line`), in the
//! end at the backing file system itself. A node that is silent while something is asked of it is asked whether it is
//! there; only if it does not say so in time is it bypassed, so that a backing file system that hangs makes nobody
//! suspect the nodes that wait for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_cache::{CallId, Key};
use forebay_overlay::{Suspects, Tree};
use forebay_types::{Errno, Map, NodeRank, Time, Urgency, limits};
use forebay_wire::Request;

use super::ReadPath;
use crate::allowance::Allowance;
use crate::placement::placement;
use crate::{Effect, Source};

/// What a node knows of its ways.
pub(super) struct Ways {
    /// The last time that was told.
    pub now: Time,
    pub suspects: Suspects,
    /// What each flight asks, for asking it again.
    questions: Map<CallId, Question>,
    /// Attempts under way, also those whose bodies are still growing.
    attempts: BTreeMap<CallId, Attempt>,
    /// When each node was last heard of.
    heard: Map<NodeRank, Time>,
    /// Since when something is asked of each node of which nothing was heard after that. It stays when the question is
    /// answered by another: or a silent node would never be noticed while others answer in its place.
    unheard: Map<NodeRank, Time>,
    pinged: BTreeSet<NodeRank>,
    /// Flights that wait until this node may read for itself.
    waiting: VecDeque<CallId>,
    hedges: Allowance,
    own_reads: Allowance,
    checked: Time,
}

#[derive(Debug)]
struct Question {
    request: Request,
    urgency: Urgency,
    since: Time,
    /// Nodes that did not bring an answer.
    tried: Vec<NodeRank>,
    attempts: Vec<CallId>,
    is_hedged: bool,
}

impl Question {
    /// Whether it is worth a second way. What is asked ahead may be slow because others have their turns before it; but
    /// nodes wait for parcels.
    fn is_waited_for(&self, key: &Key) -> bool {
        self.urgency == Urgency::Demand || matches!(key, Key::Parcel { .. })
    }
}

/// One asking of a question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub flight: CallId,
    pub source: Source,
    since: Time,
}

impl Ways {
    pub fn new() -> Self {
        Self {
            now: Time(0),
            suspects: Suspects::default(),
            questions: Map::default(),
            attempts: BTreeMap::new(),
            heard: Map::default(),
            unheard: Map::default(),
            pinged: BTreeSet::new(),
            waiting: VecDeque::new(),
            hedges: Allowance::full(limits::HEDGES_SAVED_MAX),
            own_reads: Allowance::full(limits::OWN_READS_SAVED_MAX),
            checked: Time(0),
        }
    }

    pub fn attempts_under_way(&self) -> usize {
        self.attempts.len() + self.questions.len() + self.waiting.len()
    }

    fn is_idle(&self) -> bool {
        self.attempts.is_empty() && self.waiting.is_empty() && self.suspects.is_empty()
    }

    /// The attempt is over, or its body begins: whoever was asked is there.
    pub fn heard_of(&mut self, source: Source) {
        if let Source::Peer(peer) = source {
            self.heard.insert(peer, self.now);
            self.unheard.remove(&peer);
        }
    }

    pub fn attempt(&self, call: CallId) -> Option<Attempt> {
        self.attempts.get(&call).copied()
    }

    pub fn end_attempt(&mut self, call: CallId) -> Option<Attempt> {
        self.attempts.remove(&call)
    }

    /// Whether a flight waits for leave to read for itself, having nobody to ask.
    pub fn is_cut_off(&self, flight: CallId) -> bool {
        self.waiting.contains(&flight)
    }

    /// Whether a flight has an attempt under way, or waits for leave to make one.
    pub fn is_under_way(&self, flight: CallId) -> bool {
        self.attempts_of(flight).next().is_some() || self.is_cut_off(flight)
    }

    /// The attempts of a flight that are under way.
    fn attempts_of(&self, flight: CallId) -> impl Iterator<Item = Attempt> {
        let calls = self.questions.get(&flight).map_or(&[][..], |question| &question.attempts);
        calls.iter().filter_map(|call| self.attempt(*call))
    }

    fn attempts_at(&self, peer: NodeRank) -> Vec<CallId> {
        let at_peer = |attempt: &Attempt| attempt.source == Source::Peer(peer);
        self.attempts.iter().filter(|(_, attempt)| at_peer(attempt)).map(|(call, _)| *call).collect()
    }

    /// Nodes of which nothing was heard since something was asked of them.
    fn silent(&self) -> BTreeSet<NodeRank> {
        let is_long_ago = |time: Time| self.now.since(time) >= limits::PATIENCE;
        let silent = |attempt: &Attempt| match attempt.source {
            Source::Peer(peer) => {
                let heard = self.heard.get(&peer).is_some_and(|heard| !is_long_ago(*heard));
                (is_long_ago(attempt.since) && !heard).then_some(peer)
            }
            Source::Backing => None,
        };
        let unheard = self.unheard.iter().filter(|(_, since)| is_long_ago(**since)).map(|(peer, _)| *peer);
        self.attempts.values().filter_map(silent).chain(unheard).collect()
    }
}

impl<B: Clone> ReadPath<B> {
    /// When `check_ways` has something to look at. A node that nobody stands above looks only while it has questions.
    pub(super) fn next_check(&self) -> Option<Time> {
        match (self.ways.is_idle(), self.parent_now()) {
            (false, _) => Some(self.ways.checked.after(limits::WAYS_CHECK_INTERVAL)),
            (true, Some(_)) => Some(self.ways.checked.after(limits::HEARTBEAT)),
            (true, None) => None,
        }
    }

    /// Whom this node asks about the job itself.
    fn parent_now(&self) -> Option<NodeRank> {
        let is_open = |peer: &NodeRank| !self.ways.suspects.contains(*peer);
        self.options.forest.first().line(self.options.rank).find(is_open)
    }

    /// A node answered that it is there, and up to which refresh it has forgotten, or did not answer.
    pub fn handle_ping(&mut self, now: Time, peer: NodeRank, alive_in: Option<u64>) {
        self.ways.now = now;
        self.ways.pinged.remove(&peer);
        match alive_in {
            Some(epoch) => {
                self.ways.heard_of(Source::Peer(peer));
                self.ways.suspects.on_alive(peer, now);
                self.handle_epoch(now, epoch);
            }
            None => self.lose(peer),
        }
    }

    /// A node does not answer while the job starts: it is bypassed until it does. That says nothing of others, which are
    /// late or not by themselves; so unlike when a node is lost later, nobody else is asked whether it is there.
    pub fn handle_absent(&mut self, now: Time, peer: NodeRank) {
        self.ways.now = now;
        self.ways.suspects.on_lost(peer, now);
    }

    /// The nodes that are bypassed, in order of rank.
    #[must_use]
    pub fn suspects(&self) -> Vec<NodeRank> {
        self.ways.suspects.ranks()
    }

    /// Who is asked for `key`: the first node in the line of the key's tree that is not bypassed, or the backing file
    /// system at the end of it and for large files where every node reads them itself.
    pub(super) fn source_of(&self, key: &Key) -> Source {
        self.next_source(key, &[])
    }

    fn next_source(&self, key: &Key, tried: &[NodeRank]) -> Source {
        if self.is_direct(key) {
            return Source::Backing;
        }
        let is_open = |peer: &NodeRank| !self.ways.suspects.contains(*peer) && !tried.contains(peer);
        self.tree_of(key).line(self.options.rank).find(is_open).map_or(Source::Backing, Source::Peer)
    }

    /// Whether this node reads `key` from the backing file system for others too, as the root or in its place.
    pub(super) fn reads_for_others(&self, key: &Key) -> bool {
        self.source_of(key) == Source::Backing && self.tree_of(key).may_be_root(self.options.rank)
    }

    pub(super) fn tree_of(&self, key: &Key) -> &Tree {
        let (class, number) = placement(key);
        self.options.forest.tree_of(class, number)
    }

    /// Asks the question of a new flight.
    pub(super) fn set_out(&mut self, flight: CallId, key: &Key, request: Request, urgency: Urgency) {
        let (since, tried, attempts) = (self.ways.now, Vec::new(), Vec::new());
        let question = Question { request, urgency, since, tried, attempts, is_hedged: false };
        self.ways.questions.insert(flight, question);
        if !self.is_held(flight, key) && !self.waits_for_recheck(flight, key) {
            let source = self.source_of(key);
            self.send(flight, source);
        }
    }

    /// A program waits for a question that may have been asked ahead: whoever was asked is told.
    pub(super) fn promote(&mut self, flight: CallId) {
        let Some(question) = self.ways.questions.get_mut(&flight).filter(|known| known.urgency < Urgency::Demand)
        else {
            return;
        };
        question.urgency = Urgency::Demand;
        self.counters.promoted += 1;
        for call in &question.attempts {
            if let Some(Attempt { source, .. }) = self.ways.attempts.get(call).copied() {
                self.effects.push_back(Effect::Promote { call: *call, source });
            }
        }
    }

    /// Who waits for a question now, by the number of an attempt that is under way.
    #[must_use]
    pub fn urgency_of(&self, call: CallId) -> Option<Urgency> {
        let attempt = self.ways.attempt(call)?;
        self.ways.questions.get(&attempt.flight).map(|question| question.urgency)
    }

    /// Asks a question again whose attempts were taken back.
    pub(super) fn send_anew(&mut self, flight: CallId) {
        let Some(key) = self.in_flight.get(flight).map(|known| known.key.clone()) else { return };
        if !self.is_held(flight, &key) && !self.waits_for_recheck(flight, &key) {
            let source = self.source_of(&key);
            self.send(flight, source);
        }
    }

    /// A flight goes on beyond the time that its attempts were given. What this node reads itself it waits for; else it
    /// asks as if nobody had been asked.
    pub(super) fn ask_longer(&mut self, flight: CallId) {
        let now = self.ways.now;
        let Some(question) = self.ways.questions.get_mut(&flight) else { return };
        (question.since, question.is_hedged) = (now, false);
        question.tried.clear();
        self.cancel_attempts(flight, |attempt| attempt.source != Source::Backing);
        if !self.ways.is_under_way(flight) {
            self.send_anew(flight);
        }
    }

    /// Takes attempts of a flight back.
    pub(super) fn cancel_attempts(&mut self, flight: CallId, which: impl Fn(&Attempt) -> bool) {
        self.ways.waiting.retain(|waiting| *waiting != flight);
        let calls = self.ways.questions.get(&flight).map(|question| question.attempts.clone()).unwrap_or_default();
        for call in calls {
            if self.ways.attempt(call).as_ref().is_some_and(&which) {
                self.ways.end_attempt(call);
                self.effects.push_back(Effect::Cancel { call });
            }
        }
    }

    /// A flight has ended: its attempts are cancelled, but for the one that brought the answer.
    pub(super) fn arrive(&mut self, flight: CallId, by: Option<CallId>) {
        let Some(question) = self.ways.questions.remove(&flight) else { return };
        self.ways.waiting.retain(|waiting| *waiting != flight);
        for call in question.attempts.into_iter().filter(|call| Some(*call) != by) {
            if self.ways.end_attempt(call).is_some() {
                self.effects.push_back(Effect::Cancel { call });
            }
        }
        self.end_recheck(flight);
    }

    /// An attempt brought no answer: the question goes to the next in the line, unless another attempt is under way.
    pub(super) fn try_elsewhere(&mut self, attempt: Attempt) {
        let flight = attempt.flight;
        let (Some(question), Some(known)) = (self.ways.questions.get_mut(&flight), self.in_flight.get(flight)) else {
            return;
        };
        match attempt.source {
            Source::Peer(peer) => question.tried.push(peer),
            // There is nobody behind the backing file system.
            Source::Backing => return self.end_flight(flight, Errno::EIO),
        }
        let (key, tried) = (known.key.clone(), question.tried.clone());
        if self.ways.attempts_of(flight).next().is_some() {
            return;
        }
        self.counters.reparented += 1;
        let source = self.next_source(&key, &tried);
        self.send(flight, source);
    }

    /// A node cannot be reached: what was asked of it is asked elsewhere, and bodies that it was sending end.
    pub(super) fn lose(&mut self, peer: NodeRank) {
        self.ways.unheard.remove(&peer);
        if self.ways.suspects.on_lost(peer, self.ways.now) {
            self.look_up_the_lines(|lost| lost == peer);
        }
        for call in self.ways.attempts_at(peer) {
            let Some(attempt) = self.ways.end_attempt(call) else { continue };
            self.effects.push_back(Effect::Cancel { call });
            self.drop_growing(call);
            self.try_elsewhere(attempt);
        }
    }

    /// Asks all that might be asked instead whether they are there: when the network is cut, many are lost at once, and to
    /// find that out one after the other would take too long.
    fn look_up_the_lines(&mut self, is_away: impl Fn(NodeRank) -> bool) {
        let now = self.ways.now;
        let is_known = |peer: &NodeRank| {
            let heard = self.ways.heard.get(peer).is_some_and(|heard| now.since(*heard) < limits::PATIENCE);
            heard || self.ways.suspects.contains(*peer)
        };
        let lines = self.options.forest.trees().map(|tree| tree.line(self.options.rank));
        let lines = lines.filter(|line| line.clone().any(&is_away));
        let others: BTreeSet<NodeRank> = lines.flatten().filter(|peer| !is_known(peer)).collect();
        others.into_iter().for_each(|peer| self.ping(peer));
    }

    fn ping(&mut self, peer: NodeRank) {
        if self.ways.pinged.insert(peer) {
            let deadline = self.ways.now.after(limits::PING_DEADLINE);
            self.effects.push_back(Effect::Ping { peer, epoch: self.epoch.to_tell(), deadline });
        }
    }

    /// Looks for silent nodes, slow questions, and those that may go on now.
    pub(super) fn check_ways(&mut self) {
        let now = self.ways.now;
        if now < self.ways.checked.after(limits::WAYS_CHECK_INTERVAL) {
            return;
        }
        self.ways.checked = now;
        self.ways.own_reads.earn_until(now, limits::OWN_READS_PER_SECOND);
        // One of which nothing was ever heard is given the time since the start.
        let heard = |peer: &NodeRank| self.ways.heard.get(peer).copied().unwrap_or_default();
        let heard_lately = |peer: &NodeRank| now.since(heard(peer)) < limits::HEARTBEAT;
        let mut silent = self.ways.silent();
        silent.extend(self.parent_now().filter(|parent| !heard_lately(parent)));
        // One is merely slow; a second while the first does not say that it is there may mean that the network is cut.
        let is_news = silent.iter().any(|peer| !self.ways.pinged.contains(peer));
        if is_news && self.ways.pinged.iter().any(|peer| !self.ways.suspects.contains(*peer)) {
            self.look_up_the_lines(|peer| silent.contains(&peer));
        }
        for peer in silent.into_iter().chain(self.ways.suspects.due(now)) {
            self.ping(peer);
        }
        self.hedge();
        self.read_for_itself();
    }

    /// Asks slow questions of the next in the line too.
    fn hedge(&mut self) {
        let now = self.ways.now;
        let patience = |attempt: &Attempt| match self.in_flight.get(attempt.flight).map(|flight| &flight.key) {
            Some(Key::Parcel { .. }) => limits::PARCEL_HEDGE_AFTER,
            _ => limits::HEDGE_AFTER,
        };
        let is_slow = |attempt: &Attempt| now.since(attempt.since) >= patience(attempt);
        let slow: Vec<Attempt> = self.ways.attempts.values().filter(|attempt| is_slow(attempt)).copied().collect();
        for attempt in slow {
            let (Source::Peer(peer), Some(question)) = (attempt.source, self.ways.questions.get(&attempt.flight))
            else {
                continue;
            };
            let Some(known) = self.in_flight.get(attempt.flight).filter(|_| !question.is_hedged) else { continue };
            if !question.is_waited_for(&known.key) {
                continue;
            }
            let tried: Vec<NodeRank> = question.tried.iter().copied().chain([peer]).collect();
            let next = self.next_source(&known.key, &tried);
            if matches!(next, Source::Peer(_)) && self.ways.hedges.spend() {
                if let Some(question) = self.ways.questions.get_mut(&attempt.flight) {
                    question.is_hedged = true;
                }
                self.counters.hedged += 1;
                self.send(attempt.flight, next);
            }
        }
    }

    /// Lets questions go on that wait for leave, those of programs first, or have waited in vain for most of their time:
    /// reading for itself is then the last resort, in case it is the way up that hangs and not the backing file system.
    fn read_for_itself(&mut self) {
        let mut waiting = Vec::from(std::mem::take(&mut self.ways.waiting));
        waiting.sort_by_key(|flight| Reverse(self.ways.questions.get(flight).map(|question| question.urgency)));
        for flight in waiting {
            self.send(flight, Source::Backing);
        }
        let now = self.ways.now;
        let mut late: Vec<CallId> = self
            .ways
            .questions
            .iter()
            .filter(|(flight, question)| {
                let since = question.since;
                let wanted = self.in_flight.get(**flight).filter(|known| !known.waiters.is_empty());
                let wanted = wanted.filter(|known| question.is_waited_for(&known.key));
                wanted.is_some_and(|known| now.since(since) >= known.deadline.since(since) * 2 / 3)
            })
            .map(|(flight, _)| *flight)
            .collect();
        late.sort_unstable();
        for flight in late {
            let reads_itself = |attempt: Attempt| attempt.source == Source::Backing;
            let is_put_off = self.ways.is_cut_off(flight) || self.holds(flight);
            if is_put_off || self.ways.attempts_of(flight).any(reads_itself) {
                continue;
            }
            match self.bundles.contains_key(&flight) {
                true => self.take_apart(flight),
                false if self.ways.own_reads.spend() => self.start_attempt(flight, Source::Backing),
                false => {}
            }
        }
    }

    /// Sends a question to a source, or lets it wait for leave.
    fn send(&mut self, flight: CallId, source: Source) {
        if source == Source::Backing && self.bundles.contains_key(&flight) {
            return self.take_apart(flight);
        }
        let Some(known) = self.in_flight.get(flight) else { return };
        let is_own_read = source == Source::Backing
            && !self.is_direct(&known.key)
            && !self.tree_of(&known.key).may_be_root(self.options.rank);
        if is_own_read && !self.ways.own_reads.spend() {
            return self.ways.waiting.push_back(flight);
        }
        self.start_attempt(flight, source);
    }

    fn start_attempt(&mut self, flight: CallId, source: Source) {
        let (Some(question), Some(known)) = (self.ways.questions.get_mut(&flight), self.in_flight.get(flight)) else {
            return;
        };
        let (request, urgency, deadline) = (question.request.clone(), question.urgency, known.deadline);
        let epoch = self.epoch.to_tell();
        let call = if question.attempts.is_empty() { flight } else { self.in_flight.next_call() };
        question.attempts.push(call);
        match source {
            Source::Peer(peer) => {
                self.ways.unheard.entry(peer).or_insert(self.ways.now);
                self.counters.asked_peers += 1;
                self.ways.hedges.earn_one_in(limits::QUESTIONS_PER_HEDGE);
            }
            Source::Backing => self.counters.asked_backing += 1,
        }
        self.ways.attempts.insert(call, Attempt { flight, source, since: self.ways.now });
        self.effects.push_back(Effect::Fetch { call, source, request: request.in_epoch(epoch), urgency, deadline });
    }

    /// A bundle has nobody left to be asked of: its files are asked for one by one.
    fn take_apart(&mut self, flight: CallId) {
        let Some(members) = self.bundles.remove(&flight) else { return };
        if let Some(ended) = self.end(flight, None) {
            self.ask_one_by_one(&members, ended.waiters);
        }
    }
}
