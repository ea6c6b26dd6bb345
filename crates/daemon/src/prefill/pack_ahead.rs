//! Blocks of the pack that are read before they are asked for: in order, a few at a time, each at hand as soon as it is
//! there.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// Parts of a pack that a node reads at the same time: as many as keep it busy with one while the other comes, and few
/// enough that answers about names do not wait long behind contents.
const READERS: usize = 2;

#[derive(Default)]
pub(super) struct PackAhead {
    state: Mutex<State>,
    came: Notify,
}

#[derive(Default)]
struct State {
    is_begun: bool,
    to_read: VecDeque<usize>,
    /// Those of `to_read` and those that are being read.
    to_come: HashSet<usize>,
    here: HashMap<usize, Bytes>,
}

impl PackAhead {
    /// Begins to read what `blocks` says, unless that has been done. A block that `read` has nothing of is left out.
    pub fn begin(
        self: &Arc<Self>,
        blocks: impl FnOnce() -> Vec<usize>,
        read: impl Fn(usize) -> Option<Bytes> + Clone + Send + 'static,
    ) {
        if std::mem::replace(&mut self.lock().is_begun, true) {
            return;
        }
        let blocks = blocks();
        let mut state = self.lock();
        state.to_come = blocks.iter().copied().collect();
        state.to_read = blocks.into();
        drop(state);
        for _ in 0..READERS {
            let (ahead, read) = (Arc::clone(self), read.clone());
            tokio::task::spawn_blocking(move || {
                while let Some(block) = ahead.next() {
                    let bytes = read(block);
                    ahead.came(block, bytes);
                }
            });
        }
    }

    /// Waits until a block is here, or will not come.
    pub async fn wait_for(&self, block: usize) {
        self.wait_until(|state| !state.to_come.contains(&block)).await;
    }

    /// Waits until all have come that will.
    pub async fn wait_for_all(&self) {
        self.wait_until(|state| state.to_come.is_empty()).await;
    }

    /// A block that is here; it is not kept.
    pub fn take(&self, block: usize) -> Option<Bytes> {
        self.lock().here.remove(&block)
    }

    async fn wait_until(&self, is_so: impl Fn(&State) -> bool) {
        loop {
            let came = self.came.notified();
            if is_so(&self.lock()) {
                return;
            }
            came.await;
        }
    }

    fn next(&self) -> Option<usize> {
        self.lock().to_read.pop_front()
    }

    fn came(&self, block: usize, bytes: Option<Bytes>) {
        let mut state = self.lock();
        state.to_come.remove(&block);
        state.here.extend(bytes.map(|bytes| (block, bytes)));
        drop(state);
        self.came.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_block_is_at_hand_while_others_are_still_to_come() {
        let ahead = Arc::new(PackAhead::default());
        let (go, may_go) = channel::<()>();
        let may_go = Arc::new(Mutex::new(may_go));
        let read = move |block: usize| {
            if block == 2 {
                may_go.lock().unwrap().recv().unwrap();
            }
            (block != 1).then(|| Bytes::from(vec![block as u8]))
        };
        ahead.begin(|| vec![0, 1, 2, 3], read.clone());
        ahead.begin(|| panic!("it has begun"), read);
        ahead.wait_for(0).await;
        assert_eq!(ahead.take(0).as_deref(), Some(&[0][..]));
        assert_eq!(ahead.take(0), None);
        ahead.wait_for(3).await;
        ahead.wait_for(1).await;
        assert_eq!((ahead.take(1), ahead.take(2)), (None, None));
        ahead.wait_for(99).await;
        go.send(()).unwrap();
        ahead.wait_for_all().await;
        assert!(ahead.take(2).is_some() && ahead.take(3).is_some());
    }
}
