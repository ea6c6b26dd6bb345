//! The state machine: requests are joined, routed, asked, and ended. Its contract stands in the crate's head.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hash;

use forebay_types::{Epoch, NodeRank, Priority, Referral, Time};

use crate::event::{Counters, Event, Failure, Finished, Joined, Wanted};
use crate::failure_detector::FailureDetector;
use crate::ids::{AttemptId, HoldId, RequestId, Waiter};
use crate::limits;
use crate::passed_over::PassedOver;
use crate::routing::{Fallback, Routing, Source};
use crate::stragglers::Stragglers;
use crate::table::{Entry, Phase, Table, Waiting, last_resort};
use crate::token_bucket::TokenBucket;

/// Requests under way at one node. `K` is what is asked for, `M` the message that asks, `W` who waits, `R` whom to ask.
#[derive(Debug)]
pub struct Dispatch<K, M, W: Waiter, R> {
    pub(crate) routing: R,
    pub(crate) table: Table<K, M, W>,
    pub(crate) attempts: BTreeMap<AttemptId, Attempt>,
    pub(crate) detector: FailureDetector,
    /// Requests that wait for a token or a node, programs' first, then in the order they began.
    pub(crate) limited: BTreeSet<(Reverse<Priority>, RequestId)>,
    holds: BTreeMap<HoldId, BTreeSet<RequestId>>,
    pub(crate) hedges: TokenBucket,
    pub(crate) fallback_reads: TokenBucket,
    pub(crate) passed_over: PassedOver<K>,
    pub(crate) stragglers: Stragglers,
    /// When `run_timers` last looked around.
    pub(crate) checked: Time,
    /// Whether the parent is asked whether it is there while nothing is asked of it.
    pub(crate) has_heartbeat: bool,
    pub(crate) epoch: Epoch,
    pub(crate) events: VecDeque<Event<K, M, W>>,
    pub(crate) counters: Counters,
    next_attempt: u64,
    next_hold: u64,
}

/// One asking of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attempt {
    pub request: RequestId,
    pub source: Source,
    pub since: Time,
    pub deadline: Time,
    /// The epoch that it carried.
    pub epoch: Epoch,
    pub referral: Referral,
    /// Its answer's body is arriving; the request itself has ended.
    pub is_filling: bool,
    /// Whether the time that it takes is compared with others'.
    pub is_timed: bool,
    /// When the first bytes of its body came from another node.
    pub bytes_since: Option<Time>,
}

impl<K: Clone + Eq + Hash, M: Clone, W: Waiter, R: Routing<K>> Dispatch<K, M, W, R> {
    /// Without requests.
    #[must_use]
    pub fn new(routing: R) -> Self {
        Self {
            routing,
            table: Table::new(),
            attempts: BTreeMap::new(),
            detector: FailureDetector::default(),
            limited: BTreeSet::new(),
            holds: BTreeMap::new(),
            hedges: TokenBucket::full(limits::HEDGES_SAVED_MAX),
            fallback_reads: TokenBucket::full(limits::FALLBACK_READS_SAVED_MAX),
            passed_over: PassedOver::none(),
            stragglers: Stragglers::default(),
            checked: Time(0),
            has_heartbeat: true,
            epoch: Epoch::START,
            events: VecDeque::new(),
            counters: Counters::default(),
            next_attempt: 1,
            next_hold: 1,
        }
    }

    /// The next thing to do, in the order it was decided.
    pub fn poll_event(&mut self) -> Option<Event<K, M, W>> {
        self.events.pop_front()
    }

    /// Joins the request for `key`, or begins one.
    pub fn request(&mut self, now: Time, key: K, message: impl FnOnce() -> M, wanted: Wanted<W>) -> Joined {
        let Wanted { priority, deadline, waiter, holds, is_alone } = wanted;
        let waiting = waiter.map(|who| Waiting { who, until: deadline });
        if let Some(id) = self.table.by_key(&key) {
            if let Some(waiting) = waiting {
                self.table.wait(id, waiting);
                self.counters.coalesced += 1;
            }
            if priority == Priority::Demand {
                self.promote(id);
            }
            return Joined::Coalesced(id);
        }
        let mut tried = self.passed_over.of(now, &key);
        if is_alone {
            tried.extend(self.routing.failover_order(&key));
        }
        let id = self.table.insert(now, key, message(), priority, deadline);
        if let Some(entry) = self.table.get_mut(id) {
            entry.tried = tried;
        }
        if let Some(waiting) = waiting {
            self.table.wait(id, waiting);
        }
        holds.into_iter().for_each(|hold| self.hold(id, hold));
        self.route(now, id);
        Joined::First(id)
    }

    /// A program waits now for what was asked ahead.
    fn promote(&mut self, id: RequestId) {
        let Some(entry) = self.table.get_mut(id).filter(|entry| entry.priority < Priority::Demand) else { return };
        let before = std::mem::replace(&mut entry.priority, Priority::Demand);
        if self.limited.remove(&(Reverse(before), id)) {
            self.limited.insert((Reverse(Priority::Demand), id));
        }
        self.counters.promoted += 1;
        for attempt in &entry.attempts {
            if let Some(Attempt { source, .. }) = self.attempts.get(attempt).copied() {
                self.events.push_back(Event::Promote { attempt: *attempt, source });
            }
        }
    }

    /// A program waits now for all that was prefetched for this waiter.
    pub fn promote_waiter(&mut self, waiter: W::Id) {
        self.table.by_waiter(waiter).into_iter().for_each(|id| self.promote(id));
    }

    /// Takes a waiter out of all requests, and ends those without another waiter. Returns their numbers, or `None` if
    /// it waited for none.
    pub fn withdraw(&mut self, waiter: W::Id) -> Option<Vec<RequestId>> {
        let empty = self.table.withdraw(waiter)?;
        for id in &empty {
            drop(self.finish(*id, None));
        }
        Some(empty)
    }

    /// A new reason not to ask a request.
    pub fn new_hold(&mut self) -> HoldId {
        let hold = HoldId(self.next_hold);
        self.next_hold += 1;
        hold
    }

    /// The request may not be asked until `release`; an answer that is on its way is not taken.
    pub fn hold(&mut self, id: RequestId, hold: HoldId) {
        self.recall(id);
        let Some(entry) = self.table.get_mut(id) else { return };
        match &mut entry.phase {
            Phase::Held(holds) => _ = holds.insert(hold),
            phase => *phase = Phase::Held(BTreeSet::from([hold])),
        }
        self.holds.entry(hold).or_default().insert(id);
    }

    /// Releases the requests that wait for this hold, unless they wait for another too.
    pub fn release(&mut self, now: Time, hold: HoldId) {
        for id in self.holds.remove(&hold).unwrap_or_default() {
            self.let_go(now, id, hold);
        }
    }

    /// The same for one of those requests.
    pub fn release_one(&mut self, now: Time, id: RequestId, hold: HoldId) {
        if self.holds.get_mut(&hold).is_some_and(|held| held.remove(&id)) {
            self.let_go(now, id, hold);
        }
    }

    fn let_go(&mut self, now: Time, id: RequestId, hold: HoldId) {
        let Some(Phase::Held(holds)) = self.table.get_mut(id).map(|entry| &mut entry.phase) else { return };
        holds.remove(&hold);
        if holds.is_empty() {
            self.begin_anew(id);
            self.route(now, id);
        }
    }

    /// Asks again: an answer that is on its way is not taken.
    pub fn ask_anew(&mut self, now: Time, id: RequestId) {
        self.recall(id);
        if let Some(entry) = self.table.get_mut(id) {
            entry.tried.clear();
        }
        self.route(now, id);
    }

    /// Makes a request that was held one that can be routed.
    fn begin_anew(&mut self, id: RequestId) {
        if let Some(entry) = self.table.get_mut(id) {
            entry.phase = Phase::Asked;
            entry.tried.clear();
        }
    }

    /// Takes the attempts of a request back.
    fn recall(&mut self, id: RequestId) {
        self.cancel_attempts(id, |_| true);
        self.leave_limited(id);
    }

    pub(crate) fn cancel_attempts(&mut self, id: RequestId, which: impl Fn(&Attempt) -> bool) {
        let attempts = self.table.get(id).map(|entry| entry.attempts.clone()).unwrap_or_default();
        for attempt in attempts {
            if self.attempts.get(&attempt).is_some_and(&which) {
                self.end_attempt(attempt);
                self.events.push_back(Event::Cancel { attempt });
            }
        }
    }

    /// A request has been asked in vain for as long as its attempts had; others still wait for it.
    pub(crate) fn ask_longer(&mut self, now: Time, id: RequestId) {
        // This node waits for its own read: another attempt would send the backing file system the same.
        self.cancel_attempts(id, |attempt| attempt.source != Source::Backing && attempt.deadline <= now);
        self.leave_limited(id);
        // A later waiter does not put off the attempts for earlier ones.
        if let Some(entry) = self.table.get_mut(id).filter(|entry| entry.attempts.is_empty()) {
            entry.last_resort = last_resort(now, entry.deadline);
            entry.is_hedged = false;
            entry.tried.clear();
        }
        self.route(now, id);
    }

    /// Sends a request to where it may go now. The one place that decides so: called for a new request, and whenever a
    /// hold, an attempt, a suspicion, the epoch or the tokens have changed for one.
    pub(crate) fn route(&mut self, now: Time, id: RequestId) {
        let Some(entry) = self.table.get(id) else { return };
        if matches!(entry.phase, Phase::Held(_)) || !entry.attempts.is_empty() {
            return;
        }
        let source = self.next_source(now, &entry.key, &entry.tried);
        let fallback = self.routing.fallback(&entry.key);
        match (source, fallback) {
            (Source::Peer(_), _) | (Source::Backing, Fallback::Read) => self.start_attempt(now, id, source),
            (Source::Backing, Fallback::LimitedRead) if self.fallback_reads.spend() => {
                self.start_attempt(now, id, source);
            }
            (Source::Backing, Fallback::LimitedRead) => self.enter_limited(id),
            (Source::Backing, Fallback::None) => self.fail(id, Failure::NoSource),
        }
    }

    /// Routes what waits for a token or a node.
    pub(crate) fn route_limited(&mut self, now: Time) {
        for (_, id) in self.limited.clone() {
            self.route(now, id);
        }
    }

    fn enter_limited(&mut self, id: RequestId) {
        if let Some(entry) = self.table.get_mut(id) {
            entry.phase = Phase::Limited;
            self.limited.insert((Reverse(entry.priority), id));
        }
    }

    fn leave_limited(&mut self, id: RequestId) {
        if let Some(entry) = self.table.get_mut(id).filter(|entry| entry.phase == Phase::Limited) {
            entry.phase = Phase::Asked;
            self.limited.remove(&(Reverse(entry.priority), id));
        }
    }

    /// Whom to ask for `key`: the first of the failover order that is neither bypassed, nor left alone, nor was asked in vain.
    pub(crate) fn next_source(&self, now: Time, key: &K, tried: &[NodeRank]) -> Source {
        let is_alike = self.routing.is_alike(key);
        let is_open = |peer: &NodeRank| {
            let is_slow = is_alike && self.stragglers.is_left_alone(*peer, now);
            !self.detector.is_suspect(*peer) && !is_slow && !tried.contains(peer)
        };
        self.routing.failover_order(key).find(is_open).map_or(Source::Backing, Source::Peer)
    }

    pub(crate) fn start_attempt(&mut self, now: Time, id: RequestId, source: Source) {
        let Some(entry) = self.table.get(id) else { return };
        let referral = match self.routing.may_be_referred(&entry.key) {
            _ if self.stands_in_for_slow(now, &entry.key, source) => Referral::Alone,
            true if !entry.insists => Referral::Open,
            _ => Referral::Refused,
        };
        self.start_attempt_by(now, id, source, referral);
    }

    /// Whether a source is asked in the place of a node that is slow.
    fn stands_in_for_slow(&self, now: Time, key: &K, source: Source) -> bool {
        let mut before = self.routing.failover_order(key).take_while(|peer| Source::Peer(*peer) != source);
        self.routing.is_alike(key) && before.any(|peer| self.stragglers.is_left_alone(peer, now))
    }

    pub(crate) fn start_attempt_by(&mut self, now: Time, id: RequestId, source: Source, referral: Referral) {
        self.leave_limited(id);
        let Some(entry) = self.table.get_mut(id) else { return };
        let attempt = AttemptId(self.next_attempt);
        self.next_attempt += 1;
        entry.attempts.push(attempt);
        let (message, priority, deadline) = (entry.message.clone(), entry.priority, entry.until());
        match source {
            Source::Peer(peer) => {
                self.detector.on_asked(peer, now);
                self.counters.asked_peers += 1;
                self.hedges.earn_one_in(limits::REQUESTS_PER_HEDGE);
            }
            Source::Backing => self.counters.asked_backing += 1,
        }
        let epoch = self.epoch;
        // One that stands in for a slow node reads what others would have read, and one that was named passes on what it gets.
        let is_own_pace = matches!(referral, Referral::Open | Referral::Refused);
        let is_timed = is_own_pace && self.routing.is_alike(&entry.key);
        let (request, since, is_filling) = (id, now, false);
        let asked =
            Attempt { request, source, since, deadline, epoch, referral, is_filling, is_timed, bytes_since: None };
        self.attempts.insert(attempt, asked);
        self.events.push_back(Event::Ask { attempt, source, message, priority, referral, epoch, deadline });
    }

    /// Takes an attempt out of everything.
    pub(crate) fn end_attempt(&mut self, id: AttemptId) -> Option<Attempt> {
        let attempt = self.attempts.remove(&id)?;
        if let Source::Peer(peer) = attempt.source {
            self.detector.on_attempt_ended(peer);
        }
        if let Some(entry) = self.table.get_mut(attempt.request) {
            entry.attempts.retain(|other| *other != id);
        }
        Some(attempt)
    }

    /// An attempt has brought a message: its node is there.
    pub(crate) fn heard(&mut self, now: Time, source: Source) {
        if let Source::Peer(peer) = source {
            self.detector.on_heard(peer, now);
        }
    }

    /// An attempt brought the whole answer, or an error that is one: the request is over. `None` if it was before.
    pub fn finish_by(&mut self, now: Time, attempt: AttemptId) -> Option<Finished<K, W>> {
        let ended = self.end_attempt(attempt)?;
        self.heard(now, ended.source);
        self.finish(ended.request, None)
    }

    /// A request's answer has come otherwise.
    pub fn finish_request(&mut self, id: RequestId) -> Option<Finished<K, W>> {
        self.finish(id, None)
    }

    /// The one end of a request: it leaves every table, and its attempts are cancelled but for the one whose body goes on.
    pub(crate) fn finish(&mut self, id: RequestId, but: Option<AttemptId>) -> Option<Finished<K, W>> {
        self.cancel_attempts(id, |attempt| !attempt.is_filling);
        debug_assert!(self.table.get(id).is_none_or(|entry| entry.attempts.iter().all(|other| Some(*other) == but)));
        self.leave_limited(id);
        let Entry { key, waiters, phase, .. } = self.table.remove(id)?;
        if let Phase::Held(holds) = phase {
            for hold in holds {
                self.holds.entry(hold).and_modify(|held| _ = held.remove(&id));
            }
        }
        Some(Finished { request: id, key, waiters })
    }

    pub(crate) fn fail(&mut self, id: RequestId, why: Failure) {
        if let Some(finished) = self.finish(id, None) {
            self.events.push_back(Event::Failed { finished, why });
        }
    }

    /// The source of an attempt cannot be reached: it is suspected, and all that was asked of it is asked elsewhere.
    pub fn lost(&mut self, now: Time, attempt: AttemptId) {
        let Some(attempt) = self.end_attempt(attempt) else { return };
        if let Source::Peer(peer) = attempt.source {
            self.lose(now, peer);
        }
        self.fail_over(now, attempt);
    }

    /// The source of an attempt is there, but its answer was spoilt or made no sense.
    pub fn spoilt(&mut self, now: Time, attempt: AttemptId) {
        let Some(attempt) = self.end_attempt(attempt) else { return };
        self.heard(now, attempt.source);
        self.fail_over(now, attempt);
    }

    /// The driver's own clock ended an attempt: that tells nothing of its source.
    pub fn timed_out(&mut self, now: Time, attempt: AttemptId) {
        let Some(attempt) = self.end_attempt(attempt) else { return };
        match self.table.get(attempt.request) {
            Some(entry) if entry.deadline <= now => self.expire(now, attempt.request),
            Some(_) => self.ask_longer(now, attempt.request),
            None => {}
        }
    }

    /// The source gave an attempt up at the deadline that it was told, which is rounded down to milliseconds on its way:
    /// those whose time is over are told so. `false` if there was time left: then it is an error like any other.
    pub fn given_up(&mut self, now: Time, id: AttemptId) -> bool {
        let request = self.attempts.get(&id).map(|attempt| attempt.request);
        let deadline = request.and_then(|request| self.table.get(request)).map(|entry| entry.deadline);
        let Some(deadline) = deadline.filter(|deadline| deadline.since(now) <= limits::DEADLINE_ROUNDING) else {
            return false;
        };
        if let Some(attempt) = self.end_attempt(id) {
            self.heard(now, attempt.source);
            self.expire(now.max(deadline), attempt.request);
        }
        true
    }

    /// An attempt brought no answer: the request goes to the next source, unless another attempt is under way.
    fn fail_over(&mut self, now: Time, attempt: Attempt) {
        let Some(entry) = self.table.get_mut(attempt.request) else { return };
        entry.insists |= attempt.referral == Referral::Followed;
        match attempt.source {
            Source::Peer(peer) => entry.tried.push(peer),
            Source::Backing => return self.fail(attempt.request, Failure::BackingLost),
        }
        if entry.attempts.is_empty() {
            self.counters.failovers += 1;
            self.route(now, attempt.request);
        }
    }

    /// A node cannot be reached: what was asked of it is asked elsewhere, and bodies that it was sending end.
    pub(crate) fn lose(&mut self, now: Time, peer: NodeRank) {
        if self.detector.on_lost(peer, now) {
            self.probe_orders(now, |lost| lost == peer);
        }
        self.ask_elsewhere(now, |attempt| attempt.source == Source::Peer(peer));
    }

    pub(crate) fn ask_elsewhere(&mut self, now: Time, which: impl Fn(&Attempt) -> bool) {
        let attempts: Vec<AttemptId> =
            self.attempts.iter().filter(|(_, attempt)| which(attempt)).map(|(id, _)| *id).collect();
        let ended: Vec<Attempt> = attempts.iter().filter_map(|id| self.end_attempt(*id)).collect();
        self.events.extend(attempts.into_iter().map(|attempt| Event::Cancel { attempt }));
        // All at once, so that what travelled in one message may do so again.
        for attempt in ended {
            match attempt.is_filling {
                true => self.events.push_back(Event::BodyLost { request: attempt.request }),
                false => self.fail_over(now, attempt),
            }
        }
    }

    /// A request's time is over, at least for the first who wait.
    pub(crate) fn expire(&mut self, now: Time, id: RequestId) {
        let Some(entry) = self.table.get(id) else { return };
        self.counters.timed_out += 1;
        let why = if entry.phase == Phase::Limited { Failure::CutOff } else { Failure::TimedOut };
        match self.table.split_late(id, now) {
            Some(waiters) => {
                if !waiters.is_empty() {
                    self.events.push_back(Event::Late { waiters, why });
                }
                self.ask_longer(now, id);
            }
            None => self.fail(id, why),
        }
    }

    /// Asks all that might be asked instead whether they are there: when the network is cut, many are lost at once, and to
    /// find that out one after the other would take too long.
    pub(crate) fn probe_orders(&mut self, now: Time, is_away: impl Fn(NodeRank) -> bool) {
        let is_known = |peer: &NodeRank| self.detector.is_known_alive(*peer, now) || self.detector.is_suspect(*peer);
        let orders = self.routing.orders().filter(|order| order.clone().any(&is_away));
        let others: BTreeSet<NodeRank> = orders.flatten().filter(|peer| !is_known(peer)).collect();
        others.into_iter().for_each(|peer| self.ping(now, peer));
    }

    pub(crate) fn ping(&mut self, now: Time, peer: NodeRank) {
        if self.detector.begin_ping(peer) {
            let deadline = now.after(limits::PING_DEADLINE);
            self.events.push_back(Event::Ping { peer, epoch: self.epoch, deadline });
        }
    }
}
