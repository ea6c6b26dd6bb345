//! Files that programs of this node say they read next: brought to their homes ahead of them, in the order in which they were announced.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_types::ViewPath;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::found::Walk;
use super::spread::{shares, spread};
use crate::read::own::Own;
use crate::shared::node::Node;

/// Files that wait, at most; who announces more is told how many were taken.
const WAITING_MAX: usize = 1024;

/// Shares that are brought at once: programs' own reads go before them.
const AT_ONCE: usize = 8;

/// Those that wait.
#[derive(Default)]
pub struct Announced {
    waiting: Mutex<VecDeque<ViewPath>>,
    came: Notify,
}

impl Announced {
    /// Takes files in, as many as have room. Returns how many.
    pub fn take(&self, files: impl IntoIterator<Item = ViewPath>) -> usize {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.len();
        waiting.extend(files.into_iter().take(WAITING_MAX - before));
        self.came.notify_one();
        waiting.len() - before
    }

    fn next(&self) -> Option<ViewPath> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Brings them, for as long as the daemon runs.
    pub async fn bring(&self, node: &Arc<Node>, own: &Arc<Own>) {
        let mut under_way = JoinSet::new();
        loop {
            let Some(path) = self.next() else {
                self.came.notified().await;
                continue;
            };
            let mut walk = Walk::new(own, vec![path]);
            // Programs are told of an error when they read the file.
            while let Some(found) = walk.next().await {
                for share in found.iter().flat_map(shares) {
                    while under_way.len() >= AT_ONCE {
                        drop(under_way.join_next().await);
                    }
                    let (node, own) = (Arc::clone(node), Arc::clone(own));
                    under_way.spawn(async move { drop(spread(&node, &own, &share).await) });
                }
            }
            while under_way.try_join_next().is_some() {}
        }
    }
}
