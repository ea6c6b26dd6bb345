//! The history of a job, from the status: how much was done in each slot of time.

use std::time::Duration;

use serde_json::Value;

use crate::health::number;

/// Slots that a history has at most; the daemons send no more.
const SLOTS_MAX: usize = 240;

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    /// The length of a slot.
    pub slot: Duration,
    /// The begin of the first, milliseconds since 1970.
    pub from_unix_ms: u64,
    pub slots: Vec<Slot>,
}

/// The work of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slot {
    /// Requests of programs, and those that reached the file system.
    pub requests: u64,
    pub backing_requests: u64,
    /// Bytes that programs read, and those read from the file system.
    pub read_bytes: u64,
    pub backing_bytes: u64,
    /// Bytes that programs wrote, that landed, and that had not landed at the end.
    pub written_bytes: u64,
    pub landed_bytes: u64,
    pub left_bytes: u64,
    /// Nodes that sampled it.
    pub nodes: u64,
}

impl History {
    /// The history in a status; `None` without one, and before the first sample.
    pub fn of(status: &Value) -> Option<Self> {
        let history = status.pointer("/totals/history")?;
        let slot_ms = number(history, "/slot_ms");
        let mut slots: Vec<Slot> = history["slots"].as_array()?.iter().take(SLOTS_MAX).map(Slot::of).collect();
        // A slot that has only begun.
        while slots.last().is_some_and(|slot| slot.nodes == 0) {
            slots.pop();
        }
        let (slot, from_unix_ms) = (Duration::from_millis(slot_ms), number(history, "/from_unix_ms"));
        (slot_ms > 0 && !slots.is_empty()).then_some(Self { slot, from_unix_ms, slots })
    }

    /// The most nodes that sampled a slot.
    pub fn nodes_max(&self) -> u64 {
        self.slots.iter().map(|slot| slot.nodes).max().unwrap_or(0)
    }

    /// The amount in a second, slot by slot.
    pub fn per_s(&self, of: fn(&Slot) -> u64) -> Vec<f64> {
        self.slots.iter().map(|slot| of(slot) as f64 / self.slot.as_secs_f64()).collect()
    }
}

impl Slot {
    fn of(numbers: &Value) -> Self {
        let of = |index: usize| numbers.get(index).and_then(Value::as_u64).unwrap_or(0);
        Self {
            requests: of(0),
            backing_requests: of(1),
            read_bytes: of(2),
            backing_bytes: of(3),
            written_bytes: of(4),
            landed_bytes: of(5),
            left_bytes: of(6),
            nodes: of(7),
        }
    }
}
