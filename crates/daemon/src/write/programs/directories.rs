//! Directories that programs have open: each is read as it was when its reading began.

use std::sync::{Arc, Mutex, PoisonError};

use forebay_types::Map;
use forebay_wire::write_message::Entries;

/// Handles that one daemon may give.
const DAEMON_BITS: u32 = 40;

/// Readings under way, by handle.
pub struct Readings {
    state: Mutex<State>,
}

struct State {
    next: u64,
    readings: Map<u64, Arc<Entries>>,
}

impl Readings {
    /// Those of a node's `daemon`th daemon: the kernel goes on with handles of the daemons before it.
    pub fn of(daemon: u64) -> Self {
        Self { state: Mutex::new(State { next: daemon << DAEMON_BITS, readings: Map::default() }) }
    }

    /// A handle for a directory that is opened.
    pub fn open(&self) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        state.next
    }

    /// The reading through `handle`, to be gone on with from `offset` on; `None` for one that begins, or is not known any more.
    pub fn kept(&self, handle: u64, offset: u64) -> Option<Arc<Entries>> {
        self.lock().readings.get(&handle).filter(|_| offset > 0).map(Arc::clone)
    }

    /// A reading through `handle` begins.
    pub fn keep(&self, handle: u64, entries: Entries) -> Arc<Entries> {
        let reading = Arc::new(entries);
        self.lock().readings.insert(handle, Arc::clone(&reading));
        reading
    }

    /// The directory is closed.
    pub fn close(&self, handle: u64) {
        self.lock().readings.remove(&handle);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
