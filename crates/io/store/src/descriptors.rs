//! Open descriptors by path, least recently used out first.
//!
//! With the directory at hand a file is opened by its name alone instead of a walk from the export, and the chunks of a
//! file do not open it again. Two threads that want the same path wait for one open. A descriptor keeps naming the
//! directory it was opened on, also when that is renamed or replaced: within a job's snapshot that is the directory
//! the job knows; `forget` drops all of them. Eviction only drops the cache's share: who reads keeps the descriptor
//! open, so there are at most `bound` plus the operations under way.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::{Errno, ViewPath};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) type Shared = Arc<OwnedFd>;

/// Filled once by who came first. Its lock is held while that one opens: only who wants the same path waits for it.
type Slot = Arc<Mutex<Option<Shared>>>;

pub(crate) struct Descriptors {
    bound: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slots: HashMap<Box<[u8]>, Used>,
    order: BTreeMap<u64, Box<[u8]>>,
    uses: u64,
}

struct Used {
    slot: Slot,
    at: u64,
}

impl Descriptors {
    pub(crate) fn new(bound: usize) -> Self {
        Self { bound: bound.max(1), state: Mutex::default() }
    }

    /// The descriptor of `path`, from `open` unless it is kept already (then `true`).
    pub(crate) fn get_or_open(
        &self,
        path: &ViewPath,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<(Shared, bool), Errno> {
        let slot = self.slot(path);
        let mut place = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*place {
            return Ok((Arc::clone(open), true));
        }
        match open() {
            Ok(descriptor) => {
                let shared = Arc::new(descriptor);
                *place = Some(Arc::clone(&shared));
                Ok((shared, false))
            }
            Err(errno) => {
                drop(place);
                self.lock().remove_slot(path.as_bytes(), &slot);
                Err(errno)
            }
        }
    }

    /// The deepest strict ancestor of `path` within `top` whose descriptor is kept, with its path's length in bytes.
    pub(crate) fn deepest(&self, path: &ViewPath, top: &ViewPath) -> Option<(usize, Shared)> {
        let bytes = path.as_bytes();
        let mut state = self.lock();
        let ends = (top.as_bytes().len() + 1..bytes.len()).rev().filter(|end| bytes[*end] == b'/');
        for end in ends {
            if let Some(shared) = state.filled(&bytes[..end]) {
                return Some((end, shared));
            }
        }
        None
    }

    /// Drops `path`.
    pub(crate) fn forget_one(&self, path: &ViewPath) {
        let dropped = self.lock().remove(path.as_bytes());
        drop(dropped);
    }

    /// Drops `path` and its ancestors: one of them may name a directory that is no longer there.
    pub(crate) fn forget_line(&self, path: &ViewPath) {
        let bytes = path.as_bytes();
        let mut state = self.lock();
        let ends = (1..=bytes.len()).filter(|end| *end == bytes.len() || bytes[*end] == b'/');
        let dropped: Vec<Option<Used>> = ends.map(|end| state.remove(&bytes[..end])).collect();
        drop(state);
        drop(dropped);
    }

    /// Takes all out; they are closed when what is returned is dropped.
    pub(crate) fn forget(&self) -> impl Send + use<> {
        std::mem::take(&mut *self.lock())
    }

    /// The slot of `path`, made if need be; what must go for it is closed after the lock is given back.
    fn slot(&self, path: &ViewPath) -> Slot {
        let mut state = self.lock();
        if let Some(slot) = state.touch(path.as_bytes()) {
            return slot;
        }
        let mut dropped = Vec::new();
        while state.slots.len() >= self.bound {
            let oldest = state.order.first_key_value().map(|(_, path)| path.clone());
            dropped.push(oldest.and_then(|path| state.remove(&path)));
        }
        let slot = state.insert(path.as_bytes());
        drop(state);
        drop(dropped);
        slot
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn touch(&mut self, path: &[u8]) -> Option<Slot> {
        let used = self.slots.get_mut(path)?;
        let key = self.order.remove(&used.at)?;
        self.uses += 1;
        used.at = self.uses;
        self.order.insert(self.uses, key);
        Some(Arc::clone(&used.slot))
    }

    fn insert(&mut self, path: &[u8]) -> Slot {
        self.uses += 1;
        let slot = Slot::default();
        self.slots.insert(path.into(), Used { slot: Arc::clone(&slot), at: self.uses });
        self.order.insert(self.uses, path.into());
        slot
    }

    fn remove(&mut self, path: &[u8]) -> Option<Used> {
        let used = self.slots.remove(path)?;
        self.order.remove(&used.at);
        Some(used)
    }

    fn remove_slot(&mut self, path: &[u8], slot: &Slot) {
        if self.slots.get(path).is_some_and(|used| Arc::ptr_eq(&used.slot, slot)) {
            self.remove(path);
        }
    }

    /// The descriptor of `path` if it is open by now; one that is being opened is not waited for.
    fn filled(&mut self, path: &[u8]) -> Option<Shared> {
        let slot = self.touch(path)?;
        let place = slot.try_lock().ok()?;
        place.clone()
    }
}

/// How many descriptors of a kind may be kept: `wanted`, or fewer where the process may open only few files. Two
/// kinds are kept, an operation needs two more, and half of the limit is left to sockets and the rest of the daemon.
pub(crate) fn affordable(wanted: usize, concurrency: usize) -> usize {
    let limit = raise_limit().map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let left = (limit / 2).saturating_sub(2 * concurrency) / 2;
    if left < wanted {
        tracing::warn!(wanted, left, limit, "few files may be open at once: fewer descriptors are kept");
    }
    wanted.min(left).max(1)
}

/// Raises the process's limit of open files as far as it may; `None` for no limit.
fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    fn path(text: &str) -> ViewPath {
        ViewPath::new(text.as_bytes()).unwrap()
    }

    fn opened() -> Result<OwnedFd, Errno> {
        Ok(std::fs::File::open("/dev/null").map_err(|error| Errno::of(&error))?.into())
    }

    fn is_kept(descriptors: &Descriptors, text: &str) -> bool {
        descriptors.lock().slots.contains_key(text.as_bytes())
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let descriptors = Descriptors::new(2);
        for (text, kept) in [("a", false), ("b", false), ("a", true), ("c", false), ("a", true), ("b", false)] {
            assert_eq!(descriptors.get_or_open(&path(text), opened).unwrap().1, kept, "{text}");
        }
        assert!(is_kept(&descriptors, "a") && is_kept(&descriptors, "b") && !is_kept(&descriptors, "c"));
        let state = descriptors.lock();
        assert_eq!((state.slots.len(), state.order.len()), (2, 2));
    }

    #[test]
    fn a_failed_open_leaves_nothing_behind() {
        let descriptors = Descriptors::new(2);
        assert_eq!(descriptors.get_or_open(&path("a"), || Err(Errno::EIO)).err(), Some(Errno::EIO));
        assert!(!is_kept(&descriptors, "a"));
        assert!(descriptors.lock().order.is_empty());
    }

    #[test]
    fn the_deepest_ancestor_at_hand_is_found() {
        let descriptors = Descriptors::new(9);
        for text in ["top", "top/a", "top/a/b", "topmost"] {
            descriptors.get_or_open(&path(text), opened).unwrap();
        }
        let deepest = |text: &str| descriptors.deepest(&path(text), &path("top")).map(|(end, _)| end);
        assert_eq!(deepest("top/a/b/c/d"), Some(7));
        assert_eq!(deepest("top/a/b"), Some(5));
        assert_eq!(deepest("top/ab/c"), None, "the top itself is the export's");
        descriptors.forget_line(&path("top/a/b"));
        assert_eq!(deepest("top/a/b/c/d"), None);
        assert!(is_kept(&descriptors, "topmost"));
        drop(descriptors.forget());
        assert!(!is_kept(&descriptors, "topmost"));
    }

    #[test]
    fn threads_that_want_one_path_wait_for_one_open() {
        let descriptors = Descriptors::new(2);
        let opens = Mutex::new(0);
        let seen = std::thread::scope(|scope| {
            let threads = [(); 8].map(|()| {
                scope.spawn(|| {
                    let open = || {
                        *opens.lock().unwrap() += 1;
                        opened()
                    };
                    descriptors.get_or_open(&path("a"), open).unwrap().0.as_raw_fd()
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(*opens.lock().unwrap(), 1);
        assert!(seen.iter().all(|descriptor| *descriptor == seen[0]));
    }
}
