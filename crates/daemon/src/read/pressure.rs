//! Memory that becomes scarce: the daemon gives its caches up before the kernel takes the daemon.
//!
//! Whenever some MiB have arrived, and every second, it looks at the room that is left. Below a reserve the caches may hold half of what they hold; each time there is ample room again
//! they may hold twice as much, up to their budget.
//!
//! The budget is for all that a node holds of the exports: chunks that have left the caches while they are on their way to a
//! slow node, and what is read of a pack before it is asked for, leave the caches so much less.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_body::LiveBytes;
use forebay_cache::ObjectKind;

use super::core::Core;
use crate::environment::Room;
use crate::limits;
use crate::shared::node::Node;

/// How much may arrive before it is looked again: looking takes some 50 us, and a fast network brings this in 10 ms.
const LOOK_AFTER_BYTES: u64 = 16 << 20;

/// The caches know the memory held beside them to one part in so many of the budget: each change makes them look at all
/// that they keep.
const ASIDE_STEPS: u64 = 32;

/// The room that is kept free: an eighth of what there is, at most this, bytes.
const RESERVE_BYTES_MAX: u64 = 512 << 20;
const RESERVE_SHARE: u64 = 8;

/// Looks after the memory.
pub struct Pressure {
    node: Arc<Node>,
    core: Arc<Core>,
    budget_bytes: u64,
    arrived_bytes: AtomicU64,
}

impl Pressure {
    pub fn new(node: &Arc<Node>, core: &Arc<Core>) -> Arc<Self> {
        let (node, core, budget_bytes) = (Arc::clone(node), Arc::clone(core), node.options.budget_bytes);
        Arc::new(Self { node, core, budget_bytes, arrived_bytes: AtomicU64::new(0) })
    }

    /// Looks what is held beside the caches, and at the memory when enough has arrived.
    pub fn on_arrival(&self, bytes: usize) {
        self.set_aside();
        let arrived = self.arrived_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if arrived + bytes as u64 >= LOOK_AFTER_BYTES {
            self.look();
        }
    }

    fn set_aside(&self) {
        let step_bytes = (self.budget_bytes / ASIDE_STEPS).max(1);
        let mut core = self.core.lock();
        let beside_bytes = LiveBytes::total().saturating_sub(core.kept(ObjectKind::Chunks).bytes);
        core.set_aside(beside_bytes.next_multiple_of(step_bytes));
    }

    /// Looks now.
    pub fn look(&self) {
        self.set_aside();
        self.arrived_bytes.store(0, Ordering::Relaxed);
        let Some(room) = self.node.environment.memory() else { return };
        let mut core = self.core.lock();
        let (now_bytes, kept_bytes) = (core.allowed_bytes(), core.kept_bytes());
        let next_bytes = next_allowance(room, now_bytes, kept_bytes, self.budget_bytes);
        if next_bytes != now_bytes {
            core.allow_bytes(next_bytes);
            drop(core);
            tracing::info!(next_bytes, room_bytes = room.left_bytes, "memory: the caches may hold another amount");
        }
    }
}

/// The bytes that the caches may hold next.
fn next_allowance(room: Room, now_bytes: u64, kept_bytes: u64, budget_bytes: u64) -> u64 {
    let reserve_bytes = (room.all_bytes / RESERVE_SHARE).min(RESERVE_BYTES_MAX);
    let least_bytes = limits::BUDGET_BYTES_MIN.min(budget_bytes);
    if room.left_bytes < reserve_bytes {
        (kept_bytes.min(now_bytes) / 2).clamp(least_bytes, now_bytes.max(least_bytes))
    } else if room.left_bytes > 4 * reserve_bytes {
        now_bytes.saturating_mul(2).min(budget_bytes)
    } else {
        now_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_caches_shrink_in_need_and_grow_back_to_their_budget() {
        let room = |left_mib: u64| Room { all_bytes: 1024 * MIB, left_bytes: left_mib * MIB };
        let budget = 400 * MIB;
        assert_eq!(next_allowance(room(600), budget, 10 * MIB, budget), budget);
        assert_eq!(next_allowance(room(120), budget, 300 * MIB, budget), 150 * MIB);
        assert_eq!(next_allowance(room(200), 150 * MIB, 140 * MIB, budget), 150 * MIB, "neither scarce nor ample");
        assert_eq!(next_allowance(room(10), 20 * MIB, 20 * MIB, budget), limits::BUDGET_BYTES_MIN);
        assert_eq!(next_allowance(room(10), limits::BUDGET_BYTES_MIN, 0, budget), limits::BUDGET_BYTES_MIN);
        assert_eq!(next_allowance(room(600), 250 * MIB, 0, budget), budget);
    }
}
