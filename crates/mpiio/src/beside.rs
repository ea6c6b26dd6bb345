//! Bytes of a file that a rank holds, where another thread can reach it while a collective call waits for other ranks.
//!
//! With `MPI_THREAD_MULTIPLE` a thread may read or write by itself while another is in a collective call on the same file, and a
//! rank that it then talks to may be what that call waits for. So it must not wait for the call, and yet everything that
//! completed calls hold must be in the file before its own operation. It writes these bytes itself, beside the exchange that
//! perhaps writes them too: the same bytes to the same place. They cannot be forgotten meanwhile, so nothing newer is written
//! before it is done. Only a write to bytes that are held must wait for the call after all: the exchange could bring the older ones
//! into the file after it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::exchange;
use crate::held_calls::HeldCalls;
use crate::storage::{Requests, Storage};
use crate::view::{Extent, View};

/// Held bytes of a file, and its end as far as it is known.
#[derive(Debug)]
pub struct Beside {
    state: Mutex<State>,
    /// For other threads, where there may be any.
    storage: Option<Mutex<Storage>>,
}

#[derive(Debug, Default)]
struct State {
    held: Arc<HeldCalls>,
    /// Whether another thread has written all of it.
    is_written: bool,
    /// The end of what all ranks have written by collective calls, as far as it may not be in the file yet.
    end: u64,
    /// The view of the file; `None` where it cannot be taken apart.
    view: Option<Arc<View>>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // The state stays whole when a thread dies: it is only replaced.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Beside {
    /// Of a file that other threads use through this storage, if it is given.
    #[must_use]
    pub fn new(storage: Option<Storage>) -> Self {
        let state = State { view: Some(Arc::new(View::whole())), ..State::default() };
        Self { state: Mutex::new(state), storage: storage.map(Mutex::new) }
    }

    /// Holds bytes of a call, which `pack` appends, for these extents.
    pub fn hold(&self, extents: &[Extent], pack: impl FnOnce(&mut Vec<u8>)) {
        let mut state = locked(&self.state);
        state.is_written = false;
        Arc::make_mut(&mut state.held).hold(extents, pack);
    }

    /// Memory that the held bytes take, bytes.
    #[must_use]
    pub fn cost_bytes(&self) -> u64 {
        locked(&self.state).held.cost_bytes()
    }

    /// How many pieces are held.
    #[must_use]
    pub fn piece_count(&self) -> u64 {
        locked(&self.state).held.piece_count()
    }

    /// Whether another thread can write what is held.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.storage.is_some()
    }

    /// The bytes held now.
    #[must_use]
    pub fn held(&self) -> Arc<HeldCalls> {
        locked(&self.state).held.clone()
    }

    /// Forgets the held bytes, which are written, once no other thread is writing them.
    pub fn forget(&self) {
        Arc::make_mut(&mut locked(&self.state).held).clear();
    }

    /// The end of the file that is known beyond its size.
    #[must_use]
    pub fn end(&self) -> u64 {
        locked(&self.state).end
    }

    /// Ranks hold bytes up to here.
    pub fn raise_end(&self, end: u64) {
        let mut state = locked(&self.state);
        state.end = state.end.max(end);
    }

    /// After the size of the file was set: what was known of its end is no more.
    pub fn forget_end(&self) {
        locked(&self.state).end = 0;
    }

    /// The view that holds from now on.
    pub fn set_view(&self, view: Option<Arc<View>>) {
        locked(&self.state).view = view;
    }

    /// Whether so many bytes, from a unit of the view on, are apart from all that is held.
    #[must_use]
    pub fn is_apart(&self, unit: u64, len: u64) -> bool {
        let state = locked(&self.state);
        if len == 0 || state.held.is_empty() {
            return true;
        }
        let Some(view) = &state.view else { return false };
        let byte_at = |from: u64| view.extents(from, 1)?.first().map(|extent| extent.offset);
        let span = || {
            let from = unit.checked_mul(view.etype_bytes())?;
            let (first, last) = (byte_at(from)?, byte_at(from.checked_add(len - 1)?)?);
            Some(Extent { offset: first, len: last + 1 - first })
        };
        // Extents beyond the largest file offset are apart from none.
        span().is_some_and(|span| state.held.is_apart(span))
    }

    /// Writes what is held, for another thread than the one that a collective call keeps. `None`: there is no other thread.
    ///
    /// # Errors
    /// That of writing. The bytes stay held, so the call that is under way meets it too.
    pub fn write(&self) -> Option<Result<(), Errno>> {
        let storage = self.storage.as_ref()?;
        let mut state = locked(&self.state);
        if state.is_written {
            return Some(Ok(()));
        }
        let fault = exchange::write_own(&state.held, &mut locked(storage));
        state.is_written = fault.is_none();
        Some(fault.map_or(Ok(()), |fault| Err(fault.errno)))
    }

    /// Requests of other threads to the file.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.storage.as_ref().map(|storage| locked(storage).requests()).unwrap_or_default()
    }
}
