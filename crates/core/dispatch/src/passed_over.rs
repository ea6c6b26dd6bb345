//! Nodes that sent a spoilt answer: asked again soon, they are likely to send the same.

use std::collections::VecDeque;

use forebay_types::{NodeRank, Time};

use crate::limits::{PASSED_OVER_FOR, PASSED_OVER_MAX};

/// The nodes that are not asked for some keys, oldest first.
#[derive(Debug)]
pub(crate) struct PassedOver<K>(VecDeque<(K, NodeRank, Time)>);

impl<K: Clone + Eq> PassedOver<K> {
    pub fn none() -> Self {
        Self(VecDeque::new())
    }

    /// From now on others are asked for `key`.
    pub fn add(&mut self, now: Time, key: K, peer: NodeRank) {
        if self.0.len() == PASSED_OVER_MAX {
            self.0.pop_front();
        }
        self.0.push_back((key, peer, now));
    }

    /// The nodes that are not to be asked for `key`.
    pub fn of(&mut self, now: Time, key: &K) -> Vec<NodeRank> {
        self.0.retain(|(_, _, since)| now.since(*since) < PASSED_OVER_FOR);
        self.0.iter().filter(|(other, ..)| other == key).map(|(_, peer, _)| *peer).collect()
    }
}
