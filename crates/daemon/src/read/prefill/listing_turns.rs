//! Leave to ask for a listing ahead: few at once, and fewer while the pack is read.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::pack_blocks::PackBlocks;

/// The same beside the pack. File systems that serve names before contents read nothing as long as their threads have
/// names to look for, and two questions at a time leave them a moment after each.
const BESIDE_PACK: usize = 2;

pub struct ListingTurns {
    beside_pack: Option<Semaphore>,
    after_it: Semaphore,
}

impl ListingTurns {
    /// Listings that all readers of a job ask for ahead at once: few enough that a program's own question never waits long
    /// behind them, and enough that none costs the backing file system's latency by itself.
    pub const AT_ONCE: usize = 16;

    /// Those of one of so many readers. Several would have more than a few questions under way beside the pack: they ask
    /// after it.
    pub fn new(readers: usize) -> Self {
        Self {
            beside_pack: (readers <= 1).then(|| Semaphore::new(BESIDE_PACK)),
            after_it: Semaphore::new((Self::AT_ONCE / readers.max(1)).max(1)),
        }
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
        // Whoever has to wait waits for ever: time stands still but for this.
        while let Ok(turn) = tokio::time::timeout(Duration::from_millis(1), turns.next(Some(pack))).await {
            taken.push(turn.unwrap());
        }
        taken.len()
    }

    #[tokio::test]
    async fn few_beside_the_pack_and_more_after_it() {
        for (readers, beside, after) in
            [(1, BESIDE_PACK, ListingTurns::AT_ONCE), (4, 0, ListingTurns::AT_ONCE / 4), (64, 0, 1)]
        {
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
