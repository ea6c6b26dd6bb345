//! The last status of a node, which its daemon keeps in the job's directory: from time to time while it runs, and at its orderly end. A report can be
//! made of these when no daemon answers any more.
//!
//! No request waits for the file, and it takes one part in a hundred of a thread's time at most.

use std::sync::Arc;
use std::time::Duration;

use forebay_launch::JobDirectory;
use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::kept_file;
use super::requests::Job;
use super::sampling::unix_ms;
use super::status::{JobStatus, NodeStatus, Status, Totals};
use crate::write::{Left, WriteParts};

/// The file is not written more often than this: so much of the figures is lost with a daemon that is killed.
const INTERVAL_MIN: Duration = Duration::from_secs(5);

/// It takes one part in so many of the time: the leader of the burst tree looks at every file that has not landed.
const SHARE: u32 = 100;

/// How long the end of a daemon waits for it.
const END_WAIT: Duration = Duration::from_millis(200);

/// The file, bytes: 100 files that have not landed, with 1,000 ranges of 42 bytes each, and the figures.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The last status of a node.
#[derive(Serialize, Deserialize)]
pub struct LastStatus {
    /// When it was taken, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The orderly end of the daemon; `None` if it runs, or was killed.
    pub end: Option<LastEnd>,
    /// Its store, where it has a part of the burst tier.
    pub store: Option<LastStore>,
    job: JobStatus,
    node: NodeStatus,
}

/// The orderly end of a daemon.
#[derive(Serialize, Deserialize)]
pub struct LastEnd {
    /// Whether `down` ended it, which makes the report.
    pub by_down: bool,
    /// Whether it led the burst tree, and so knew of all nodes' files.
    pub is_leader: bool,
    /// The files that, as far as it knows, have not landed, as `down` has them from it.
    pub left: Option<Value>,
}

/// The store of a node.
#[derive(Serialize, Deserialize)]
pub struct LastStore {
    /// Its directory.
    pub path: std::path::PathBuf,
    /// Bytes in it that are needed.
    pub live_bytes: u64,
}

impl LastStatus {
    /// `by_down` is of a daemon that ends.
    fn of(job: &Job, by_down: Option<bool>) -> Self {
        let (node, write) = (&job.node, job.write.as_deref());
        let mut status = job.status_with_summed();
        if let Some(write) = write {
            status.name_burst_files(write);
        }
        let is_leader = write.is_some_and(WriteParts::leads);
        let left = || write?.left().as_ref().map(Left::as_json);
        let end = by_down.map(|by_down| LastEnd { by_down, is_leader, left: left() });
        let store = write.map(|write| {
            let (path, live_bytes) = write.store();
            LastStore { path: path.to_owned(), live_bytes }
        });
        Self { at_unix_ms: unix_ms(node), end, store, job: JobStatus::of(node), node: status }
    }

    /// The rank of its node.
    #[must_use]
    pub fn rank(&self) -> NodeRank {
        NodeRank(self.node.rank())
    }

    /// The nodes of the job.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.job.node_count()
    }

    /// When its daemon began, milliseconds since 1970.
    #[must_use]
    pub fn began_unix_ms(&self) -> u64 {
        self.at_unix_ms.saturating_sub(self.node.uptime_ms())
    }

    /// Those in the job's directory of this host, by rank.
    #[must_use]
    pub fn read_all(directory: &JobDirectory) -> Vec<Self> {
        let ranks = directory.last_status_ranks().into_iter();
        ranks
            .filter_map(|rank| kept_file::read(&JobDirectory::last_status(directory.path(), rank), FILE_BYTES_MAX))
            .collect()
    }

    /// The status of the job as far as these tell, in the form of `status --json`; `None` without any.
    #[must_use]
    pub fn combined(all: Vec<Self>) -> Option<Value> {
        let (mut job, mut nodes) = (None, vec![]);
        for last in all {
            job = Some(last.job);
            nodes.push(last.node);
        }
        Some(json!(Status { job: job?, totals: Totals::of(&mut nodes), nodes }))
    }
}

/// Keeps the status from time to time, the first time immediately.
pub async fn keep_regularly(job: Arc<Job>) {
    loop {
        let began = Instant::now();
        keep(&job, None).await;
        tokio::time::sleep(INTERVAL_MIN.max(began.elapsed() * SHARE)).await;
    }
}

/// Keeps the last status of a daemon that ends, after all that it served.
pub async fn keep_at_end(job: Arc<Job>, by_down: bool) {
    if tokio::time::timeout(END_WAIT, keep(&job, Some(by_down))).await.is_err() {
        tracing::debug!("the last status is not kept in time");
    }
}

async fn keep(job: &Arc<Job>, by_down: Option<bool>) {
    let path = JobDirectory::last_status(&job.node.options.job_directory, job.node.rank());
    let of = Arc::clone(job);
    // The tree's lock may be held over an append to the log.
    let kept = job.node.block(move || kept_file::write(&path, &LastStatus::of(&of, by_down)));
    if let Some(Err(error)) = kept.await {
        tracing::debug!(%error, "the last status is not kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_statuses_are_read_back_and_spoiled_ones_are_not() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&temporary.path().join("base"), "7").unwrap().unwrap();
        assert!(LastStatus::read_all(&directory).is_empty());
        assert!(LastStatus::combined(vec![]).is_none());
        for rank in [0, 2] {
            let end = LastEnd { by_down: false, is_leader: rank == 0, left: None };
            let store = LastStore { path: "/s".into(), live_bytes: 5 };
            let node = json!({"rank": rank, "host": "h", "state": "unreachable", "why": "w"});
            let node: NodeStatus = serde_json::from_value(node).unwrap();
            let last =
                LastStatus { at_unix_ms: 9, end: Some(end), store: Some(store), job: JobStatus::default(), node };
            kept_file::write(&JobDirectory::last_status(directory.path(), NodeRank(rank)), &last).unwrap();
        }
        std::fs::write(JobDirectory::last_status(directory.path(), NodeRank(1)), "{\"at_unix_ms\": 1").unwrap();
        let all = LastStatus::read_all(&directory);
        assert_eq!(all.iter().map(LastStatus::rank).collect::<Vec<_>>(), [NodeRank(0), NodeRank(2)]);
        assert!(all[0].end.as_ref().is_some_and(|end| end.is_leader));
        let status = LastStatus::combined(all).unwrap();
        assert_eq!(status["nodes"].as_array().unwrap().len(), 2);
        directory.remove_last_statuses();
        assert!(directory.last_status_ranks().is_empty());
    }
}
