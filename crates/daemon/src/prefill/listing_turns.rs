//! Leave to ask for a listing ahead: few at once, and fewer while the pack is read.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::pack_ahead::PackAhead;

/// The same beside the pack. File systems that serve names before contents read nothing as long as their threads have
/// names to look for, and two questions at a time leave them a moment after each.
const BESIDE_PACK: usize = 2;

pub(super) struct ListingTurns {
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
    pub async fn next(&self, pack: &PackAhead) -> Option<SemaphorePermit<'_>> {
        if let Some(beside_pack) = &self.beside_pack {
            tokio::select! {
                biased;
                () = pack.wait_for_all() => {}
                turn = beside_pack.acquire() => return turn.ok(),
            }
        } else {
            pack.wait_for_all().await;
        }
        self.after_it.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    async fn can_take(turns: &ListingTurns, pack: &PackAhead) -> usize {
        let mut taken = Vec::new();
        // Whoever has to wait waits for ever: time stands still but for this.
        while let Ok(turn) = tokio::time::timeout(Duration::from_millis(1), turns.next(pack)).await {
            taken.push(turn.unwrap());
        }
        taken.len()
    }

    #[tokio::test]
    async fn few_beside_the_pack_and_more_after_it() {
        for (readers, beside, after) in
            [(1, BESIDE_PACK, ListingTurns::AT_ONCE), (4, 0, ListingTurns::AT_ONCE / 4), (64, 0, 1)]
        {
            let (turns, pack) = (ListingTurns::new(readers), Arc::new(PackAhead::default()));
            let (go, may_go) = channel::<()>();
            let may_go = Arc::new(std::sync::Mutex::new(may_go));
            pack.begin(|| vec![0], move |_| may_go.lock().unwrap().recv().ok().map(|()| Bytes::new()));
            assert_eq!(can_take(&turns, &pack).await, beside, "{readers} readers");
            go.send(()).unwrap();
            pack.wait_for_all().await;
            assert_eq!(can_take(&turns, &pack).await, after, "{readers} readers");
        }
    }
}
