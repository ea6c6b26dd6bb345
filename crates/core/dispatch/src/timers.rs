//! Timers: deadlines, silent nodes, hedges, stragglers, reads as the last resort.

use std::collections::BTreeMap;
use std::hash::Hash;

use forebay_types::{NodeRank, Time};

use crate::dispatch::{Attempt, Dispatch};
use crate::event::{Event, Failure};
use crate::ids::{RequestId, Waiter};
use crate::limits;
use crate::routing::{Fallback, Routing, Source};
use crate::stragglers::Awaited;
use crate::table::{Entry, Phase};

impl<K: Clone + Eq + Hash, M: Clone, W: Waiter, R: Routing<K>> Dispatch<K, M, W, R> {
    /// Whether this node, while it asks nothing, asks its parent whether it is there. Nodes of a job that starts must not: those above may
    /// begin later.
    pub fn set_heartbeat(&mut self, is_on: bool) {
        self.has_heartbeat = is_on;
    }

    /// When `run_timers` has something to do next. A node that has nobody to ask about the job looks around only while it
    /// has requests, or one of its own was answered in the place of another that has said nothing yet.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let is_certain = self.detector.is_empty() && !self.detector.expects_word();
        let is_idle = self.attempts.is_empty() && self.limited.is_empty() && is_certain;
        let check = match (is_idle, self.parent().filter(|_| self.has_heartbeat)) {
            (false, _) => Some(self.checked.after(limits::CHECK_INTERVAL)),
            (true, Some(parent)) => {
                let heartbeat = self.detector.heard_at(parent).after(limits::HEARTBEAT);
                Some(heartbeat.max(self.checked.after(limits::CHECK_INTERVAL)))
            }
            (true, None) => None,
        };
        check.into_iter().chain(self.table.next_deadline()).min()
    }

    /// Gives up what has passed its deadline, and looks for silent nodes, slow requests, and those that may go on now.
    pub fn run_timers(&mut self, now: Time) {
        self.table.expired(now).into_iter().for_each(|id| self.expire(now, id));
        if now < self.checked.after(limits::CHECK_INTERVAL) {
            return;
        }
        let stood_still = now.since(self.checked) >= limits::STOOD_STILL;
        self.checked = now;
        self.fallback_reads.earn_until(now, limits::FALLBACK_READS_PER_SECOND);
        self.ping_silent(now);
        self.hedge(now);
        self.leave_stragglers_alone(now, stood_still);
        self.route_limited(now);
        self.read_as_last_resort(now);
    }

    /// Whom this node asks about the job itself.
    fn parent(&self) -> Option<NodeRank> {
        self.routing.job_order().find(|peer| !self.detector.is_suspect(*peer))
    }

    /// A node answered that it is there, or did not answer.
    pub fn pinged(&mut self, now: Time, peer: NodeRank, is_alive: bool) {
        self.detector.end_ping(peer);
        if !is_alive {
            return self.lose(now, peer);
        }
        if self.detector.on_alive(peer, now) {
            self.go_back_to(now, peer);
        }
    }

    /// A node is back: what waits for a token may be asked of it again.
    fn go_back_to(&mut self, now: Time, peer: NodeRank) {
        let limited: Vec<RequestId> = self.limited.iter().map(|(_, id)| *id).collect();
        for id in limited {
            if let Some(entry) = self.table.get_mut(id) {
                entry.tried.retain(|tried| *tried != peer);
            }
            self.route(now, id);
        }
    }

    /// A node does not answer while the job starts: it is bypassed until it does. That says nothing of others, which are
    /// late or not for reasons of their own. So, unlike when a node is lost later, no other node is pinged.
    pub fn absent(&mut self, now: Time, peer: NodeRank) {
        self.detector.suspect(peer, now);
    }

    fn ping_silent(&mut self, now: Time) {
        let mut silent = self.detector.silent(now);
        let asked = self.parent().filter(|_| self.has_heartbeat);
        silent.extend(asked.filter(|parent| !self.detector.was_heard_within(*parent, limits::HEARTBEAT, now)));
        // One is merely slow; a second while the first does not say that it is there may mean that the network is cut.
        let is_news = silent.iter().any(|peer| !self.detector.is_pinged(*peer));
        if is_news && self.detector.is_in_doubt() {
            self.probe_orders(now, |peer| silent.contains(&peer));
        }
        let due = self.detector.due(now);
        silent.into_iter().chain(due).for_each(|peer| self.ping(now, peer));
    }

    /// Asks slow requests of the next source too.
    fn hedge(&mut self, now: Time) {
        // Attempts begin in the order of their numbers, so the first that is young ends the search.
        let is_old = |attempt: &&Attempt| now.since(attempt.since) >= self.routing.hedge_after_min();
        let old: Vec<Attempt> = self.attempts.values().take_while(is_old).copied().collect();
        for Attempt { request, source, since, is_filling, .. } in old {
            let (Source::Peer(peer), Some(entry), false) = (source, self.table.get(request), is_filling) else {
                continue;
            };
            let patience = self.routing.hedge_after(&entry.key, entry.priority);
            if entry.is_hedged || patience.is_none_or(|patience| now.since(since) < patience) {
                continue;
            }
            let tried: Vec<NodeRank> = entry.tried.iter().copied().chain([peer]).collect();
            let next = self.next_source(now, &entry.key, &tried);
            if matches!(next, Source::Peer(_)) && self.hedges.spend() {
                if let Some(entry) = self.table.get_mut(request) {
                    entry.is_hedged = true;
                }
                self.counters.hedged += 1;
                self.start_attempt(now, request, next);
            }
        }
    }

    /// Asks others in the place of nodes that send far more slowly than others.
    fn leave_stragglers_alone(&mut self, now: Time, stood_still: bool) {
        if stood_still {
            self.stragglers.forget_slow();
            self.attempts
                .values_mut()
                .filter_map(|attempt| attempt.bytes_since.as_mut())
                .for_each(|since| *since = now);
            return;
        }
        let mut awaited: BTreeMap<NodeRank, Awaited> = BTreeMap::new();
        for attempt in self.attempts.values().filter(|attempt| attempt.is_timed) {
            if let Source::Peer(peer) = attempt.source {
                let Awaited { coming, queued } = awaited.entry(peer).or_default();
                match attempt.bytes_since {
                    Some(since) => coming.push(now.since(since)),
                    None => queued.push(now.since(attempt.since)),
                }
            }
        }
        for peer in self.stragglers.found(now, &awaited) {
            let time = self.stragglers.leave_alone(peer, now);
            self.events.push_back(Event::LeftAlone { peer, time });
            self.ask_elsewhere(now, |attempt| attempt.is_timed && attempt.source == Source::Peer(peer));
        }
    }

    /// Reads for itself what has been asked in vain for most of its time, in case it is the nodes above that hang and not
    /// the backing file system.
    fn read_as_last_resort(&mut self, now: Time) {
        let is_late = |entry: &Entry<K, M, W>| {
            let is_waited_for = !entry.waiters.is_empty();
            let is_worth_it = self.routing.hedge_after(&entry.key, entry.priority).is_some();
            is_waited_for && is_worth_it && entry.last_resort <= now
        };
        let reads_itself = |entry: &Entry<K, M, W>| {
            let sources = entry.attempts.iter().filter_map(|id| self.attempts.get(id));
            sources.into_iter().any(|attempt| attempt.source == Source::Backing)
        };
        let may_be_asked = |entry: &Entry<K, M, W>| entry.phase == Phase::Asked && !reads_itself(entry);
        let late = self.table.iter().filter(|(_, entry)| may_be_asked(entry) && is_late(entry));
        let late: Vec<(RequestId, Fallback)> =
            late.map(|(id, entry)| (id, self.routing.fallback(&entry.key))).collect();
        for (id, fallback) in late {
            match fallback {
                Fallback::None => self.fail(id, Failure::NoSource),
                _ if self.fallback_reads.spend() => self.start_attempt(now, id, Source::Backing),
                _ => {}
            }
        }
    }
}
