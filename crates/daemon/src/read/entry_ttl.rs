//! For how long the kernel may believe what it is told of a name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_types::Time;

use crate::shared::node::Node;

/// The snapshot holds until the user refreshes it, and the kernel is told of a refresh: nothing ever runs out.
const FOR_EVER: Duration = Duration::MAX;

/// The entry TTL of this node, as it is now.
pub struct EntryTtl {
    node: Arc<Node>,
    /// How long this node believes a name.
    names_last: Option<Duration>,
    /// Until when the kernel may not remember what it is told, because a refresh is under way; 0 for none. A time and no
    /// switch: whoever leads the refresh may be lost on the way.
    quiet_until: AtomicU64,
}

impl EntryTtl {
    pub fn new(node: &Arc<Node>) -> Arc<Self> {
        Arc::new(Self { node: Arc::clone(node), names_last: names_last(node), quiet_until: AtomicU64::new(0) })
    }

    /// How long the kernel may believe what it is told now.
    pub fn now(&self) -> Duration {
        match self.quiet_until.load(Ordering::SeqCst) {
            until if until > 0 && self.node.now() < Time(until) => Duration::ZERO,
            _ => self.names_last.unwrap_or(FOR_EVER),
        }
    }

    /// Lets the kernel remember nothing for so long, or anything again.
    pub fn be_quiet(&self, time: Option<Duration>) {
        let until = time.map_or(0, |time| self.node.now().after(time).0);
        self.quiet_until.store(until, Ordering::SeqCst);
    }
}

/// How long each node may believe a name: the kernel does, every node on the way to the root does, and the sum of their
/// times is what the user allows.
pub fn names_last(node: &Node) -> Option<Duration> {
    let believers = node.forest.first().depth_max() + 2;
    node.options.revalidate.map(|interval| interval / believers)
}
