//! Commits: one thread syncs for all who wait.
//!
//! While it syncs, others append and come to wait; the next sync is for all of them. It also syncs what nobody waits for:
//! every segment when it is sealed, and every few megabytes (`limits::EARLY_COMMIT_BYTES`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_types::Errno;
use forebay_wire::log_record::Sequence;
use rustix::fs::{fdatasync, fstat};
use rustix::io::Errno as Os;

use crate::LogError;
use crate::log::{Log, Shared, State};
use crate::tail::Segment;

/// As long as this part of the last sync, the next one waits for as many as that was for: programs that commit in step are
/// served by one sync instead of two.
const GATHER_PART: u32 = 2;

impl Log {
    /// Waits until every record below `up_to` is on stable storage. It is then found by any recovery, with every record
    /// before it. No more than what was reserved when this was called is waited for.
    ///
    /// # Errors
    /// `Failed` when the device failed: it is not known what is durable beyond what earlier commits returned for.
    pub fn commit(&self, up_to: Sequence) -> Result<(), LogError> {
        self.shared.commit(up_to)
    }
}

impl Shared {
    pub fn commit(&self, up_to: Sequence) -> Result<(), LogError> {
        let mut state = self.lock();
        let up_to = up_to.min(state.tail.next());
        loop {
            // A later failure does not undo durability.
            if state.durable >= up_to {
                return Ok(());
            }
            state.check()?;
            state.commit_up_to = state.commit_up_to.max(up_to);
            state.commit_waiters += 1;
            self.wake_committer(&state);
            state = self.wait(&self.progress, state);
        }
    }
}

impl Shared {
    /// Wakes the thread that commits when it has something to do.
    pub fn wake_committer(&self, state: &State) {
        let is_due = state.commit_up_to > state.durable && state.completion.base() >= state.commit_up_to;
        if is_due && state.commit_waiters >= state.gathered_waiters {
            self.commit_wanted.notify_one();
        }
    }
}

/// The committing thread, until the log ends or fails.
pub(crate) fn commit_for_all(shared: &Shared) {
    let mut last = Last { waiters: 0, took: Duration::ZERO };
    while let Some((up_to, segments)) = await_work(shared, &mut last) {
        let (start, recorded) = (Instant::now(), shared.latencies.guard("sync"));
        if let Err(errno) = sync(&segments).and_then(|()| check_place(shared)) {
            shared.fail(Errno::from(errno.raw_os_error()));
            return;
        }
        last.took = start.elapsed();
        recorded.done();
        let mut state = shared.lock();
        state.durable = up_to;
        // Waiters for later records count again.
        state.commit_waiters = 0;
        state.unsynced.retain(|(_, end)| *end > up_to);
        state.usage.committed(up_to);
        shared.free(&mut state);
        drop(state);
        shared.progress.notify_all();
    }
}

/// Synced bytes are of use only where they are found again: a store that was removed meanwhile has failed.
fn sync(segments: &[Arc<Segment>]) -> Result<(), Os> {
    for segment in segments {
        fdatasync(&segment.file)?;
        if fstat(&segment.file)?.st_nlink == 0 {
            return Err(Os::STALE);
        }
    }
    Ok(())
}

/// The same is true of a store that was moved away, or that another one has replaced: its next daemon looks at the path.
fn check_place(shared: &Shared) -> Result<(), Os> {
    if shared.directory.is_in_place() { Ok(()) } else { Err(Os::STALE) }
}

/// The last sync: for how many it was, and how long it took.
struct Last {
    waiters: usize,
    took: Duration,
}

/// Waits for something to commit whose records are all complete. Whatever else is complete is committed with it.
fn await_work(shared: &Shared, last: &mut Last) -> Option<(Sequence, Vec<Arc<Segment>>)> {
    let mut state = shared.lock();
    let mut deadline = None;
    loop {
        if state.is_ending || state.failed.is_some() {
            return None;
        }
        let complete = state.completion.base();
        if state.commit_up_to > state.durable && complete >= state.commit_up_to {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + last.took / GATHER_PART);
            let left = deadline.saturating_duration_since(Instant::now());
            if (1..last.waiters).contains(&state.commit_waiters) && !left.is_zero() {
                state.gathered_waiters = last.waiters;
                state = shared.wait_for(&shared.commit_wanted, state, left);
                state.gathered_waiters = 0;
                continue;
            }
            last.waiters = state.commit_waiters;
            let sealed = state.unsynced.iter().map(|(segment, _)| Arc::clone(segment));
            return Some((complete, sealed.chain([Arc::clone(state.tail.segment())]).collect()));
        }
        state = shared.wait(&shared.commit_wanted, state);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use super::*;
    use crate::tail::Tail;
    use crate::{Owner, Recovery, Settings, limits};

    fn open(path: &Path) -> Log {
        let settings = Settings { segment_bytes: limits::SEGMENT_BYTES_MIN, ..Settings::new(1 << 20) };
        let owner = Owner::of_test(1);
        Recovery::open(path, &owner, &settings).unwrap().finish([]).unwrap()
    }

    /// Takes writes and refuses syncs.
    fn unsyncable(number: u64) -> Arc<Segment> {
        let file = File::options().read(true).write(true).open("/dev/null").unwrap();
        Arc::new(Segment { number, file })
    }

    #[test]
    fn a_sync_that_fails_is_told_to_all_who_wait() {
        let directory = tempfile::tempdir().unwrap();
        let log = open(&directory.path().join("store"));
        let before = log.append_note(b"before").unwrap().sequence.next();
        log.commit(before).unwrap();
        {
            let mut state = log.shared.lock();
            let (next, durable) = (state.tail.next(), state.durable);
            let identity = log.shared.identity;
            let (tail, begin) = Tail::begin(identity, log.shared.segment_bytes, unsyncable(99), next, durable);
            state.tail = tail;
            state.completion.complete(begin.sequence);
        }
        std::thread::scope(|scope| {
            let commit = || {
                let end = log.append_note(b"lost")?.sequence.next();
                log.commit(end)
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(commit)).collect();
            let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
            assert!(outcomes.into_iter().all(|outcome| outcome == Err(LogError::Failed(Errno::EINVAL))));
        });
        assert_eq!(log.append_note(b""), Err(LogError::Failed(Errno::EINVAL)));
        assert_eq!(log.commit(before), Ok(()), "that much is durable");
    }

    #[test]
    fn a_commit_syncs_the_segments_before_too() {
        let directory = tempfile::tempdir().unwrap();
        let log = open(&directory.path().join("store"));
        log.shared.lock().unsynced.push((unsyncable(99), Sequence(u64::MAX)));
        let end = log.append_note(b"lost").unwrap().sequence.next();
        assert_eq!(log.commit(end), Err(LogError::Failed(Errno::EINVAL)));
    }

    #[test]
    fn every_segment_that_is_left_for_the_next_one_is_to_be_synced() {
        let directory = tempfile::tempdir().unwrap();
        let log = open(&directory.path().join("store"));
        while log.shared.lock().ready.len() < 2 {
            std::thread::yield_now();
        }
        // Its threads end: nothing is committed any more.
        log.shared.lock().is_ending = true;
        log.shared.commit_wanted.notify_all();
        let first = log.shared.identity.first_segment();
        while log.append_note(&[1; 3000]).unwrap().position.segment < first + 2 {}
        let state = log.shared.lock();
        let numbers: Vec<_> = state.unsynced.iter().map(|(segment, _)| segment.number).collect();
        assert_eq!(numbers, [first, first + 1]);
        let (_, end) = state.unsynced[1];
        assert_eq!(end.next().next(), state.tail.next(), "behind it the next one's beginning, and one note");
    }
}
