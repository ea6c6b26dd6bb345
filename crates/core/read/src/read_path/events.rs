//! Decisions of the dispatch, and timers.

use forebay_cache::Key;
use forebay_dispatch::{Event, Failure};
use forebay_types::Time;
use forebay_wire::{ReadMessage, Request};

use super::state::ReadPath;
use crate::bundles::push_fetch;
use crate::effect::Effect;
use crate::waiter::{ReadFinished, Waiter};

impl<B: Clone> ReadPath<B> {
    /// The next thing to do, in the order it was decided; `None` when there is nothing.
    pub fn poll_effect(&mut self) -> Option<Effect<B>> {
        while let Some(event) = self.dispatch.poll_event() {
            self.carry(event);
        }
        self.effects.pop_front()
    }

    /// When `run_timers` has something to do next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let requests = self.dispatch.poll_timeout().into_iter();
        requests.chain(self.refreshes.hold_ends()).chain(self.parcels.first_wait_end()).min()
    }

    /// Gives up what has passed its deadline: who waits is told `ETIMEDOUT`, or `EHOSTUNREACH` if there was nobody to
    /// ask. Looks for nodes that are silent and for requests that are slow.
    pub fn run_timers(&mut self, now: Time) {
        self.now = now;
        self.end_abandoned_holds();
        let late = self.parcels.end_long_waits(now);
        late.into_iter().for_each(|hold| self.let_go(hold));
        self.dispatch.run_timers(now);
    }

    fn carry(&mut self, event: Event<Key, ReadMessage, Waiter>) {
        match event {
            Event::Ask { attempt, source, message, priority, referral, epoch, deadline } => {
                let request = Request { epoch, priority, referral, message };
                let is_bundled = push_fetch(&mut self.effects, attempt, source, request, deadline);
                self.counters.bundled += u64::from(is_bundled);
            }
            Event::Promote { attempt, source } => self.effects.push_back(Effect::Promote { attempt, source }),
            Event::Cancel { attempt } => self.effects.push_back(Effect::Cancel { attempt }),
            Event::Ping { peer, epoch, deadline } => self.effects.push_back(Effect::Ping { peer, epoch, deadline }),
            Event::Late { waiters, why } => {
                waiters.into_iter().for_each(|waiter| self.tell_failed(waiter, why.errno()));
            }
            Event::Failed { finished, why } => self.request_failed(finished, why),
            Event::LeftAlone { peer, time } => self.effects.push_back(Effect::NoteSlow { peer, time }),
            Event::BodyLost { request } => self.end_filling(request, false),
        }
    }

    /// A request ended without an answer.
    fn request_failed(&mut self, finished: ReadFinished, why: Failure) {
        self.on_end(finished.request);
        match why {
            Failure::NoSource | Failure::BackingLost => self.tell_all_failed(finished, why.errno()),
            // These waiters have no time left for another request.
            Failure::TimedOut | Failure::CutOff => {
                finished.waiters.into_iter().for_each(|waiting| self.tell_failed(waiting.who, why.errno()));
            }
        }
    }
}
