//! The leader's part of a replicated stream: it answers the follower, and callers wait here until the follower has written down what they need.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_wire::write_message::ReplicatedIndex;
use forebay_write::timing::{FOLLOWED_AFTER, FOLLOWED_TOGETHER, FOLLOWER_LOOKED_AT_EVERY};
use forebay_write::{Backlog, Entry, Next};
use tokio::sync::Notify;

use crate::write::remote::Nodes;

/// See the module.
pub struct Replicator<E> {
    backlog: Mutex<Backlog<E>>,
    /// There is another entry.
    happened: Notify,
    /// A caller waits for the follower.
    wanted: Notify,
    /// The follower has said what it has.
    followed: Notify,
}

impl<E: Entry> Replicator<E> {
    pub fn new(backlog: Backlog<E>) -> Self {
        let [happened, wanted, followed] = [(); 3].map(|()| Notify::new());
        Self { backlog: Mutex::new(backlog), happened, wanted, followed }
    }

    /// The entries, and how far the follower is. No caller waits for anything while it has this.
    pub fn backlog(&self) -> MutexGuard<'_, Backlog<E>> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Entries that were noted may be sent.
    pub fn wake(&self) {
        self.happened.notify_waiters();
    }

    /// The follower says what it has.
    pub fn hear(&self, nodes: &Nodes, have: Option<ReplicatedIndex>) {
        self.backlog().heard(nodes.now(), have);
        self.followed.notify_waiters();
    }

    /// The answer to it: waits for a time for something to happen, and then for more while nobody waits for the follower.
    pub async fn next(&self, nodes: &Nodes) -> Next<E> {
        pass(nodes, &self.happened, FOLLOWED_AFTER, || !self.backlog().has_all()).await;
        if !self.backlog().has_all() {
            pass(nodes, &self.wanted, FOLLOWED_TOGETHER, || self.backlog().is_due()).await;
        }
        self.backlog().next()
    }

    /// Notes that a caller waits until the follower has all entries that there are. How many.
    pub fn want(&self) -> u64 {
        let count = {
            let mut backlog = self.backlog();
            let count = backlog.have().count;
            backlog.want(count);
            count
        };
        self.wanted.notify_waiters();
        count
    }

    /// Looks whenever the follower says what it has, and regularly, until there is something to return; `None` where all is over.
    pub async fn wait<T>(&self, nodes: &Nodes, mut look: impl FnMut(&mut Backlog<E>) -> Option<T>) -> Option<T> {
        loop {
            let followed = self.followed.notified();
            let found = look(&mut self.backlog());
            if found.is_some() || nodes.is_ending() {
                return found;
            }
            tokio::select! {
                biased;
                () = followed => {}
                () = nodes.pause(FOLLOWER_LOOKED_AT_EVERY) => {}
            }
        }
    }
}

/// Waits until `is_over`, which is looked at with each notice, and so long at most.
async fn pass(nodes: &Nodes, notice: &Notify, time: Duration, is_over: impl Fn() -> bool) {
    let mut time = pin!(nodes.pause(time));
    loop {
        // One that comes after the look is not missed.
        let noticed = notice.notified();
        if is_over() {
            return;
        }
        tokio::select! {
            biased;
            () = noticed => {}
            () = &mut time => return,
        }
    }
}
