//! The way up of one node, for whatever waits there.

use std::time::Duration;

use forebay_dispatch::{Fallback, Routing};
use forebay_types::{NodeRank, Priority, Time};

/// Node 3, which asks node 2, then 1, then the backing file system. Key 9 has meaning for nodes only. Keys from 240 are alike, and the odd ones
/// of them go to node 1 alone.
pub struct Line;

pub const ORDER: [NodeRank; 2] = [NodeRank(2), NodeRank(1)];

impl Routing<u8> for Line {
    fn failover_order(&self, key: &u8) -> impl Iterator<Item = NodeRank> {
        ORDER.into_iter().skip(usize::from(*key > 240 && key % 2 == 1))
    }

    fn is_alike(&self, key: &u8) -> bool {
        *key >= 240
    }

    fn fallback(&self, key: &u8) -> Fallback {
        if *key == 9 { Fallback::None } else { Fallback::LimitedRead }
    }

    fn hedge_after(&self, _: &u8, priority: Priority) -> Option<Duration> {
        (priority == Priority::Demand).then_some(self.hedge_after_min())
    }

    fn hedge_after_min(&self) -> Duration {
        Duration::from_millis(250)
    }

    fn job_order(&self) -> impl Iterator<Item = NodeRank> {
        ORDER.into_iter()
    }

    fn orders(&self) -> impl Iterator<Item = impl Iterator<Item = NodeRank> + Clone> {
        std::iter::once(ORDER.into_iter())
    }
}

/// So many milliseconds after the start.
pub fn at(ms: u64) -> Time {
    Time(0).after(Duration::from_millis(ms))
}
