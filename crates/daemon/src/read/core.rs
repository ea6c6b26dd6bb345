//! The core of the read path behind its lock, and the way of its decisions.
//!
//! The lock is held while the core decides, never while anything is sent or read. Its holder may add to the tables of
//! waiting replies (they are locked second, always), so that no answer can come before its place is made.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use forebay_body::Body;
use forebay_read::{Effect, Options, ReadPath};
use forebay_types::{NodeRank, Time};

use super::entry_ttl::{EntryTtl, EntryTtls, node_entry_ttl};
use super::rest::Rest;
use crate::shared::node::Node;
use crate::shared::readiness::PeerSigns;

/// The core with the daemon's chunk handle.
pub type ReadCore = ReadPath<Arc<Body>>;

/// A decision of the core.
pub type ReadEffect = Effect<Arc<Body>>;

type CarryOut = Box<dyn Fn(ReadEffect, &EntryTtl) + Send + Sync>;

/// The core, to be asked from any thread.
pub struct Core {
    node: Arc<Node>,
    state: Mutex<ReadCore>,
    carry_out: OnceLock<CarryOut>,
    entry_ttls: EntryTtls,
    rest: Rest,
}

impl Core {
    pub fn new(node: &Arc<Node>) -> Arc<Self> {
        Arc::new(Self {
            node: Arc::clone(node),
            state: Mutex::new(new_state(node)),
            carry_out: OnceLock::new(),
            entry_ttls: EntryTtls::new(node),
            rest: Rest::default(),
        })
    }

    /// Lets go of everything: what is on its way holds what waits for it.
    pub fn end(&self) {
        let ended = std::mem::replace(&mut *self.lock(), new_state(&self.node));
        drop(ended);
    }

    /// Says who carries decisions out, answers with their TTL. Handed in from above: the parts that do it know the core, not the other way.
    pub fn set_carry_out(&self, carry_out: impl Fn(ReadEffect, &EntryTtl) + Send + Sync + 'static) {
        let _ = self.carry_out.set(Box::new(carry_out));
    }

    /// The core itself, for what leads to no decision.
    pub fn lock(&self) -> MutexGuard<'_, ReadCore> {
        // A panic ends the process, so a poisoned lock is never seen.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the core decide at the time it is now, then has its decisions carried out.
    pub fn decide<T>(&self, decide: impl FnOnce(&mut ReadCore, Time) -> T) -> T {
        let mut core = self.lock();
        let outcome = decide(&mut core, self.node.now());
        self.rest.end_before(|| core.poll_timeout());
        let effects: Vec<ReadEffect> = std::iter::from_fn(|| core.poll_effect()).collect();
        if effects.is_empty() {
            return outcome;
        }
        let ttl = self.entry_ttl(&core);
        drop(core);
        if let Some(carry_out) = self.carry_out.get() {
            effects.into_iter().for_each(|effect| carry_out(effect, &ttl));
        }
        outcome
    }

    /// For how long the kernel may believe what the core, which is locked, has just answered.
    pub fn entry_ttl(&self, core: &ReadCore) -> EntryTtl {
        self.entry_ttls.decide(self.node.now(), core)
    }

    /// Lets the kernel remember nothing for so long, or anything again, of what the core answers from now on.
    pub fn be_quiet(&self, time: Option<Duration>) {
        let core = self.lock();
        self.entry_ttls.be_quiet(time.map_or(Time(0), |time| self.node.now().after(time)), &core);
    }

    /// Until the kernel, which is quiet, has been told everything that it may remember.
    pub async fn all_told(&self) {
        self.entry_ttls.all_told().await;
    }

    /// Until the core's timers are due, or are to be looked at for other reasons.
    pub async fn until_timers(&self) {
        let time = {
            let core = self.lock();
            self.rest.begin(self.node.now(), core.poll_timeout())
        };
        self.rest.wait(time).await;
    }

    /// Runs the core's timers that are due.
    pub fn run_timers(&self) {
        let is_due = self.lock().poll_timeout().is_some_and(|deadline| deadline <= self.node.now());
        if is_due {
            self.decide(|core, now| core.run_timers(now));
        }
    }
}

fn new_state(node: &Node) -> ReadCore {
    let options = &node.options;
    let mut core = ReadPath::new(Options {
        rank: options.rank,
        forest: node.forest.clone(),
        budget_bytes: options.budget_bytes,
        deadline: options.deadline,
        direct_above_bytes: options.direct_above_bytes,
        prefetch: options.prefetch,
        entry_ttl: node_entry_ttl(node),
        links: options.links.as_ref().map(|links| links.rules(&options.view)),
    });
    // Reports about the start say who is there until then.
    core.set_heartbeat(node.is_job_up());
    core
}

impl PeerSigns for Core {
    fn is_there(&self, peer: NodeRank) {
        self.decide(|core, now| core.handle_ping(now, peer, Some(core.epoch())));
    }

    fn is_absent(&self, peer: NodeRank) {
        self.decide(|core, now| core.handle_absent(now, peer));
    }

    fn job_is_up(&self) {
        self.decide(|core, _| core.set_heartbeat(true));
    }
}
