//! Leave to ask for a listing ahead: few at once, and fewer while the pack is read.

use forebay_prefetch::listings_at_once;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::pack_blocks::PackBlocks;

/// Leave of one reader.
pub struct ListingTurns {
    beside_pack: Option<Semaphore>,
    after_it: Semaphore,
}

impl ListingTurns {
    /// Those of one of so many readers.
    pub fn new(readers: usize) -> Self {
        let beside_pack = Some(listings_at_once(readers, true)).filter(|count| *count > 0).map(Semaphore::new);
        Self { beside_pack, after_it: Semaphore::new(listings_at_once(readers, false)) }
    }

    /// Waits for one, which lasts until it is dropped.
    pub async fn next(&self, pack: Option<&PackBlocks>) -> Option<SemaphorePermit<'_>> {
        let pack_is_read = async {
            if let Some(pack) = pack {
                pack.wait_for_all().await;
            }
        };
        if let Some(beside_pack) = &self.beside_pack {
            tokio::select! {
                biased;
                () = pack_is_read => {}
                turn = beside_pack.acquire() => return turn.ok(),
            }
        } else {
            pack_is_read.await;
        }
        self.after_it.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    async fn can_take(turns: &ListingTurns, pack: &PackBlocks) -> usize {
        let mut taken = Vec::new();
        // A task that has to wait waits for ever: time stands still but for this.
        while let Ok(turn) = tokio::time::timeout(Duration::from_millis(1), turns.next(Some(pack))).await {
            taken.push(turn.unwrap());
        }
        taken.len()
    }

    #[tokio::test]
    async fn few_beside_the_pack_and_more_after_it() {
        for readers in [1, 4, 64] {
            let [beside, after] = [true, false].map(|beside| listings_at_once(readers, beside));
            let (go, may_go) = channel::<()>();
            let may_go = std::sync::Mutex::new(may_go);
            let read = move |_| may_go.lock().unwrap().recv().ok().map(|()| Bytes::new());
            let (turns, pack) = (ListingTurns::new(readers), PackBlocks::new(16 << 20, read));
            pack.begin(|| vec![0]);
            assert_eq!(can_take(&turns, &pack).await, beside, "{readers} readers");
            go.send(()).unwrap();
            pack.wait_for_all().await;
            assert_eq!(can_take(&turns, &pack).await, after, "{readers} readers");
        }
    }
}
