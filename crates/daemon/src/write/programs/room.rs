//! Writers that wait for room in the store, which the landing gives back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay_fuse::is_spare_thread;
use forebay_types::Errno;
use forebay_types::threads::{READERS_WAITING_FOR_ROOM_MAX, WAITING_FOR_ROOM_MAX};

use super::joined::Joined;
use crate::options::DrainPolicy;
use crate::write::local::Local;

/// How often a writer looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the module.
pub struct Room {
    local: Arc<Local>,
    joined: Arc<Joined>,
    /// How long nothing may be given back before a writer is told that there is no room.
    patience: Duration,
    readers_waiting: AtomicUsize,
}

impl Room {
    /// Writers wait for `deadline` at most, where anything is given back by itself.
    pub fn new(local: &Arc<Local>, joined: &Arc<Joined>, drain: DrainPolicy, deadline: Duration) -> Self {
        let patience = if drain.waits_for_drain() { Duration::ZERO } else { deadline };
        Self { local: Arc::clone(local), joined: Arc::clone(joined), patience, readers_waiting: AtomicUsize::new(0) }
    }

    /// Does `append` as soon as there is room for it. May block.
    ///
    /// # Errors
    /// The error of `append`; ENOSPC when nothing is given back for a while, or too many wait; EIO where the node does not come to terms with
    /// the tree's owner, before which nothing is given back.
    pub fn wait_for<T>(&self, append: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        let outcome = append();
        if !matches!(outcome, Err(Errno::ENOSPC)) {
            return outcome;
        }
        self.joined.wait()?;
        let is_reader = usize::from(!is_spare_thread());
        let readers = self.readers_waiting.fetch_add(is_reader, Ordering::Relaxed) + is_reader;
        let before = self.local.waiting.fetch_add(1, Ordering::Relaxed);
        let may_wait = before < WAITING_FOR_ROOM_MAX && (is_reader == 0 || readers <= READERS_WAITING_FOR_ROOM_MAX);
        let outcome = if may_wait { self.look_for(append) } else { outcome };
        self.local.waiting.fetch_sub(1, Ordering::Relaxed);
        self.readers_waiting.fetch_sub(is_reader, Ordering::Relaxed);
        outcome
    }

    fn look_for<T>(&self, append: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        let (mut seen, mut since) = (self.local.log.space(), Instant::now());
        loop {
            std::thread::sleep(LOOK_EVERY);
            let outcome = append();
            if !matches!(outcome, Err(Errno::ENOSPC)) || since.elapsed() >= self.patience {
                return outcome;
            }
            let space = self.local.log.space();
            if space != seen {
                (seen, since) = (space, Instant::now());
            }
        }
    }
}
