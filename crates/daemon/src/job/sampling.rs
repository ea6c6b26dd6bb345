//! Samples of a node's counters over time, and their file in the job's directory: the daemon that goes on where this one died reads it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_launch::JobDirectory;
use tokio::time::Instant;

use super::history::{History, Recorder, Work};
use super::kept_file;
use crate::read::ReadParts;
use crate::shared::node::Node;
use crate::write::WriteParts;

/// The file is not written more often than this.
const WRITE_INTERVAL: Duration = Duration::from_secs(3);

/// Nor less often than this, however long slots are. So much of the history is lost with a daemon at most.
const SAMPLE_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// The file, bytes: 240 slots of eight numbers of 20 digits are 40 KiB.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// To count what is left to land, the leader looks at every file that has not landed. It takes one part in so many of its time.
const LEFT_SHARE: u32 = 100;

/// The sampler of a node.
pub struct Sampler {
    /// When the daemon began, and the time then, milliseconds since 1970: a clock that is set meanwhile moves no slots.
    began: (Instant, u64),
    state: Mutex<State>,
}

struct State {
    recorder: Recorder,
    left_bytes: u64,
    /// When that is counted next.
    count_left_at: Instant,
}

impl Sampler {
    /// The sampler of a daemon that begins; its history goes on where that of the daemon before ended.
    pub fn new(node: &Node) -> Self {
        let before = if node.options.kept.is_first() { None } else { kept_file::read(&place(node), FILE_BYTES_MAX) };
        let (now, unix_ms) = (Instant::now(), unix_ms(node));
        let recorder = Recorder::new(before, unix_ms);
        Self { began: (now, unix_ms), state: Mutex::new(State { recorder, left_bytes: 0, count_left_at: now }) }
    }

    /// Takes a sample; the history until now.
    pub fn sample(&self, read: &ReadParts, write: Option<&WriteParts>) -> History {
        let left_bytes = write.and_then(|write| self.count_left(write));
        let mut state = self.state();
        state.left_bytes = left_bytes.unwrap_or(state.left_bytes);
        let left_bytes = state.left_bytes;
        // Under the lock: counters that a slower thread brings later would seem to have fallen.
        state.recorder.sample(self.unix_ms(), work(read, write), left_bytes);
        state.recorder.history().clone()
    }

    /// Bytes that have not landed, if it is time to count them. The lock is not held meanwhile.
    fn count_left(&self, write: &WriteParts) -> Option<u64> {
        let began = Instant::now();
        if self.state().count_left_at > began {
            return None;
        }
        let left_bytes = write.left_bytes();
        self.state().count_left_at = Instant::now() + began.elapsed() * LEFT_SHARE;
        Some(left_bytes)
    }

    fn due_in(&self) -> Duration {
        let now = self.unix_ms();
        Duration::from_millis(self.state().recorder.due_in_ms(now))
    }

    fn unix_ms(&self) -> u64 {
        let (began, unix_ms) = self.began;
        unix_ms.saturating_add(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes samples as long as the daemon runs.
pub async fn sample_regularly(
    sampler: Arc<Sampler>,
    node: Arc<Node>,
    read: Arc<ReadParts>,
    write: Option<Arc<WriteParts>>,
) {
    let path = place(&node);
    let mut written_at: Option<Instant> = None;
    loop {
        tokio::time::sleep(sampler.due_in().min(SAMPLE_INTERVAL_MAX)).await;
        let is_due = written_at.is_none_or(|at| at.elapsed() >= WRITE_INTERVAL);
        written_at = if is_due { Some(Instant::now()) } else { written_at };
        if !is_due && write.is_none() {
            // Of counters alone: another thread would take longer to wake.
            sampler.sample(&read, None);
            continue;
        }
        let to = is_due.then(|| path.clone());
        let (sampler, read, write) = (Arc::clone(&sampler), Arc::clone(&read), write.clone());
        // The tree's lock may be held over an append to the log.
        let sampled = node.block(move || {
            let history = sampler.sample(&read, write.as_deref());
            to.map_or(Ok(()), |to| kept_file::write(&to, &history))
        });
        if let Some(Err(error)) = sampled.await {
            tracing::debug!(path = %path.display(), %error, "the history is not kept for the next daemon");
        }
    }
}

fn place(node: &Node) -> PathBuf {
    JobDirectory::metrics_place(&node.options.job_directory, node.rank(), "history")
}

pub fn unix_ms(node: &Node) -> u64 {
    u64::try_from(node.environment.unix_time().as_millis()).unwrap_or(u64::MAX)
}

fn work(read: &ReadParts, write: Option<&WriteParts>) -> Work {
    let counts = read.view.session().map(|session| session.message_counts());
    let backing = read.backing.counters();
    let (written_bytes, landed_bytes) = write.map(WriteParts::written_and_landed_bytes).unwrap_or_default();
    Work {
        requests: counts.map_or(0, |counts| counts.total()),
        read_bytes: counts.map_or(0, |counts| counts.bytes_read()),
        backing_requests: backing.listings + backing.stats + backing.opens + backing.reads,
        backing_bytes: backing.bytes,
        written_bytes,
        landed_bytes,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_longest_history_is_read_back_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics-0.history");
        let longest = json!({"slot_ms": 250, "from_unix_ms": 0, "slots": vec![[u64::MAX; 8]; 240]});
        let longest: History = serde_json::from_value(longest).unwrap();
        kept_file::write(&path, &longest).unwrap();
        assert_eq!(kept_file::read(&path, FILE_BYTES_MAX), Some(longest));
        std::fs::write(&path, "{\"slot_ms\": 250}").unwrap();
        assert_eq!(kept_file::read::<History>(&path, FILE_BYTES_MAX), None);
    }
}
