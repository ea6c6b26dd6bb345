//! For how long the kernel may believe what it is told of a name: the entry TTL.
//!
//! It is decided with the answer, under the core's lock. So what is decided before a refresh begins may hold for ever, and
//! what is decided after that holds for one answer only; and the refresh can wait until all of the former has reached the
//! kernel, which is then told to forget it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_body::Body;
use forebay_read::ReadPath;
use forebay_types::Time;
use tokio::sync::watch;

use crate::shared::node::Node;

/// The snapshot holds until the user refreshes it, and the kernel is told of a refresh: nothing ever runs out.
const FOR_EVER: Duration = Duration::MAX;

/// For how long the kernel may believe one answer. Held until the kernel has been told.
pub struct EntryTtl {
    ttl: Duration,
    /// Where it counts, unless it holds for one answer only.
    untold: Option<watch::Sender<usize>>,
}

/// Decides for how long the kernel may believe its answers.
pub struct EntryTtls {
    usual: Duration,
    /// Until when the kernel may not remember what it is told, because a refresh is under way; 0 for none. A time and no
    /// switch: whoever leads the refresh may be lost on the way.
    quiet_until: AtomicU64,
    /// Answers on their way to the kernel that it may remember.
    untold: watch::Sender<usize>,
}

impl EntryTtls {
    pub fn new(node: &Node) -> Self {
        let usual = node_entry_ttl(node).unwrap_or(FOR_EVER);
        Self { usual, quiet_until: AtomicU64::new(0), untold: watch::Sender::new(0) }
    }

    /// For an answer that the core, which is locked, has just given.
    pub fn decide(&self, now: Time, _core: &ReadPath<Arc<Body>>) -> EntryTtl {
        if now < Time(self.quiet_until.load(Ordering::SeqCst)) {
            return EntryTtl { ttl: Duration::ZERO, untold: None };
        }
        self.untold.send_modify(|untold| *untold += 1);
        EntryTtl { ttl: self.usual, untold: Some(self.untold.clone()) }
    }

    /// Until `until` the kernel remembers nothing that the core, which is locked, answers from now on.
    pub fn be_quiet(&self, until: Time, _core: &ReadPath<Arc<Body>>) {
        self.quiet_until.store(until.0, Ordering::SeqCst);
    }

    /// Until the kernel has been told everything that it may remember. Unless it is quiet, that may be never.
    pub async fn all_told(&self) {
        // It fails only when the sender is gone, which is here.
        let _ = self.untold.subscribe().wait_for(|untold| *untold == 0).await;
    }
}

impl EntryTtl {
    pub fn get(&self) -> Duration {
        self.ttl
    }
}

impl Drop for EntryTtl {
    fn drop(&mut self) {
        if let Some(untold) = &self.untold {
            untold.send_modify(|untold| *untold -= 1);
        }
    }
}

/// How long each node may believe a name: the kernel does, every node on the way to the root does, and the sum of their
/// times is what the user allows.
pub fn node_entry_ttl(node: &Node) -> Option<Duration> {
    let believers = node.forest.first().depth_max() + 2;
    node.options.revalidate.map(|interval| interval / believers)
}
