//! The job of a drain: the backing file system follows the tree.
//!
//! One task does what is to be done, in the tree's order (`forebay_write::Landing`). A file's contents are written to a draft, read back and compared, and take their name when they are whole and durable. A step that fails is tried again, and later ones
//! wait: the order is the promise.
//!
//! The task waits without a thread for all that the backing file system and other nodes do. Threads that may wait for this node's own disk go on
//! with it (`pool_task`).

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay_write::Turn;
use forebay_write::timing::LANDS_AFTER;
use tokio::time::Instant;

use super::early_writer::{EarlyWriter, PART_BYTES};
use super::failure::Failure;
use super::meter::Meter;
use super::progress::Progress;
use super::publishing;
use super::room;
use super::steps::Steps;
use crate::options::DrainPolicy;
use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::tree::checkpoint::{self, Parts};
use crate::write::tree::leader::Leader;

/// How long nothing happens after something failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long a change is waited for at most, before it is looked whether all is to end; and how often the store is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// See the module.
pub struct Drainer {
    leader: Arc<Leader>,
    commits: Arc<Commits>,
    steps: Steps,
    early_writer: EarlyWriter,
    /// How much is sent.
    pub meter: Arc<Meter>,
    policy: DrainPolicy,
    /// Steps below it may be followed.
    allowed: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Drainer {
    pub fn new(
        (leader, backing): (&Arc<Leader>, &Path),
        reader: &Arc<Reader>,
        commits: &Arc<Commits>,
        policy: DrainPolicy,
    ) -> Arc<Self> {
        let meter = Arc::new(Meter::new(leader.local.calls.drain_bytes_per_s()));
        let allowed = AtomicU64::new(if policy.waits_for_drain() { 0 } else { u64::MAX });
        Arc::new(Self {
            leader: Arc::clone(leader),
            commits: Arc::clone(commits),
            steps: Steps::new(leader, backing, reader, &meter),
            early_writer: EarlyWriter::new(leader, reader, commits, &meter),
            meter,
            policy,
            allowed,
            trouble: Mutex::default(),
        })
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let attempt_bytes = self.meter.attempt_bytes();
        let (steps, landed_steps, to_land) = {
            let tree = self.leader.tree();
            (tree.steps_to_land(), tree.steps_end() - tree.steps_to_land() as u64, tree.to_land())
        };
        let now = self.leader.nodes.now();
        // The tree knows of whole stripes, the attempt of each block.
        let bytes = to_land.bytes.saturating_sub(to_land.sent_bytes.max(attempt_bytes));
        let (takes, is_known) = self.meter.time_for((bytes, steps), now);
        let in_ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Progress {
            steps,
            why: self.trouble().clone(),
            has_lost_changes: false,
            is_final: false,
            landed_steps,
            attempt_bytes,
            bytes,
            files: to_land.files,
            landed_bytes: self.meter.sent_bytes(),
            bytes_per_s: self.meter.bytes_per_s(now),
            time_left_ms: if bytes == 0 && steps == 0 { Some(0) } else { is_known.then(|| in_ms(takes)) },
        }
    }

    /// A drain has begun: all changes until now are followed whatever the policy.
    pub fn allow(&self) {
        self.allowed.fetch_max(self.leader.tree().steps_end(), Ordering::Relaxed);
    }

    /// Follows until all is over.
    pub async fn follow(&self) {
        let (began, mut looked_at, mut count) = (Instant::now(), Instant::now(), publishing::FILES_MAX);
        let may_have_another = self.leader.local.leadership().term > 0 && !self.leader.nodes.voters().is_empty();
        let lands_after = if may_have_another { LANDS_AFTER } else { Duration::ZERO };
        while !self.leader.nodes.is_ending() {
            if looked_at.elapsed() >= POLL_INTERVAL {
                let parts = Parts { leader: Some(&self.leader), second: None };
                checkpoint::write_if_due(&self.leader.local, parts, &self.commits.files);
                self.leader.verify_logs().await;
                looked_at = Instant::now();
            }
            if self.leader.has_failed() {
                // Refused changes are in the tree, and must not be followed.
                *self.trouble() =
                    Some("the store has failed: nothing can be recorded any more, so nothing lands".to_owned());
                self.leader.nodes.pause(RETRY_DELAY).await;
            } else if let Some(why) = self.leader.election.why_not() {
                *self.trouble() = Some(why);
                self.leader.wait_for_change(POLL_INTERVAL).await;
            } else if began.elapsed() < lands_after {
                self.leader.wait_for_change(POLL_INTERVAL).await;
            } else {
                count = self.take_next(count).await;
            }
        }
    }

    /// Takes so many steps at most, and sends ahead. How many are to be taken next.
    async fn take_next(&self, count: usize) -> usize {
        let turns = self.next_turns(count);
        let taken = self.meter.measure(|| self.leader.nodes.now(), self.steps.take(&turns)).await;
        // After a failure, steps are taken singly: the one that fails is found.
        let count = if taken.is_ok() { publishing::FILES_MAX } else { 1 };
        let sent = match (taken, self.policy) {
            (Ok(()), DrainPolicy::Auto) => self.early_writer.send_ahead(!turns.is_empty()).await,
            (taken, _) => taken.map(|()| false),
        };
        match sent {
            Ok(has_sent) => {
                *self.trouble() = None;
                if turns.is_empty() && !has_sent {
                    self.leader.wait_for_change(POLL_INTERVAL).await;
                }
            }
            Err(_) if self.leader.nodes.is_ending() => {}
            Err(failed) => {
                let has_room = self.make_room(&failed, turns.first()).await;
                if !has_room {
                    tracing::warn!(%failed, "landing failed and is tried again");
                    *self.trouble() = Some(failed.to_string());
                    self.leader.nodes.pause(RETRY_DELAY).await;
                }
            }
        }
        count
    }

    /// Makes room for what failed, and was to do the `first` of some steps, or to send ahead. Whether it is to be tried again at once.
    async fn make_room(&self, failed: &Failure, first: Option<&Turn>) -> bool {
        if !failed.is_for_room() {
            return false;
        }
        let bytes = match first {
            Some(turn) => self.leader.tree().bytes_to_land(turn),
            None => PART_BYTES,
        };
        let made = room::make(&self.leader, self.allowed.load(Ordering::Relaxed), bytes).await;
        made.unwrap_or_else(|errno| {
            tracing::warn!(%errno, "a file that programs have removed could not be removed before its turn");
            false
        })
    }

    fn next_turns(&self, count: usize) -> Vec<Turn> {
        let allowed = self.allowed.load(Ordering::Relaxed);
        let mut turns = self.leader.tree().next_landings(count, publishing::BYTES_MAX);
        turns.retain(|turn| turn.step < allowed);
        turns
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
