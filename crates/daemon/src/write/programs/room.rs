//! Writers that wait for room in the store, which the landing gives back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_types::Errno;
use forebay_types::threads::WAITING_FOR_ROOM_MAX;
use tokio::time::Instant;

use crate::options::DrainPolicy;
use crate::write::local::Local;
use crate::write::remote::Nodes;

/// How often a writer looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// See the module.
pub struct Room {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    /// How long nothing may be given back before a writer is told that there is no room.
    timeout: Duration,
}

/// A writer that waits.
struct Waiting<'a>(&'a Local);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Room {
    /// Writers wait for `deadline` at most, where anything is given back by itself.
    pub fn new(local: &Arc<Local>, nodes: &Arc<Nodes>, drain: DrainPolicy, deadline: Duration) -> Self {
        let timeout = if drain.waits_for_drain() { Duration::ZERO } else { deadline };
        Self { local: Arc::clone(local), nodes: Arc::clone(nodes), timeout }
    }

    /// Does `append` as soon as there is room for it.
    ///
    /// # Errors
    /// The error of `append`; ENOSPC when nothing is given back for a while, or too many wait.
    pub async fn wait_for<T>(&self, append: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        let outcome = append();
        if !matches!(outcome, Err(Errno::ENOSPC)) {
            return outcome;
        }
        let before = self.local.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.local);
        if before >= WAITING_FOR_ROOM_MAX {
            self.local.note_refusal();
            return outcome;
        }
        let (mut seen, mut since) = (self.local.log.space(), Instant::now());
        loop {
            self.nodes.pause(POLL_INTERVAL).await;
            let outcome = append();
            if !matches!(outcome, Err(Errno::ENOSPC)) {
                return outcome;
            }
            if since.elapsed() >= self.timeout || self.nodes.is_ending() {
                self.local.note_refusal();
                return outcome;
            }
            let space = self.local.log.space();
            if space != seen {
                (seen, since) = (space, Instant::now());
            }
        }
    }
}
