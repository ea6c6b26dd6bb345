//! The end of a job: nothing is changed after its last drain, and what has not landed by then is named.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use forebay_types::{Errno, NodeRank};
use forebay_wire::write_message::WriteMessage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::drain::drafts::remove_unlinked;
use super::drain::drain_messages;
use super::drain::progress::Progress;
use super::parts::{NODE_TIMEOUT, WriteParts};

/// How long changes that are being made when the job ends may take. Together with what a kernel may take to send what it has gathered, less
/// than `NODE_TIMEOUT`.
const CHANGES_WITHIN: Duration = Duration::from_secs(2);

/// How long a leader that ends waits for its standby to hear of the last changes.
const STANDBY_WITHIN: Duration = Duration::from_millis(500);

/// Files that one node names at most: the others are counted.
const NAMED_MAX: usize = 100;

/// Ranges of one file that are told at most: the others are counted.
const RANGES_MAX: usize = 1000;

/// A node's data that has not landed when its daemon ends.
#[derive(Serialize, Deserialize, Debug)]
pub struct Left {
    node: u32,
    /// Its store.
    #[serde(default)]
    store: String,
    /// Bytes that its programs have written and not committed.
    uncommitted_bytes: u64,
    /// Its kernel may have had more, in maps.
    #[serde(default)]
    has_unsent: bool,
    /// The whole job's, on the node that leads the tree: changes that the backing file system has not followed.
    steps: usize,
    /// The files that these are about, by path.
    files: Vec<LeftFile>,
    /// How many more there are.
    more_files: usize,
}

/// A file that has not landed.
#[derive(Serialize, Deserialize, Debug)]
struct LeftFile {
    path: String,
    /// So much of it only stores have.
    missing_bytes: u64,
    /// Where: offset and length.
    missing: Vec<(u64, u64)>,
    /// How many ranges more there are.
    more_ranges: usize,
}

impl Left {
    /// As `down` has it from the daemons.
    pub fn as_json(&self) -> Value {
        json!(self)
    }
}

impl WriteParts {
    /// The node ends with this daemon, which has no part in who leads the tree any more.
    pub fn retire(&self) {
        self.election.retire();
    }

    /// Programs do not wait for locks any more: the mount is taken away.
    pub fn end_lock_waits(&self) {
        self.locking.end();
    }

    /// Ends the landing. Where nobody goes on, a store of which all has landed goes. May wait for the node's own disk.
    pub async fn end(&self, is_last: bool) {
        // A daemon may end and its job go on.
        let ends_with_job = is_last && self.freeze.is_frozen();
        match self.leader() {
            Some(leader) if ends_with_job => remove_unlinked(leader).await,
            // Else names that are needed no more would keep the standby's store, and this one.
            Some(leader) if is_last => {
                let _ = tokio::time::timeout(STANDBY_WITHIN, leader.replicator.wait_for_standby()).await;
            }
            _ => {}
        }
        self.nodes.end();
        self.election.wake();
        self.local.calls.end();
        self.nodes.until_tasks_end().await;
        // A store that the node has not come to terms with may be of another run.
        let is_known = self.joined.is_served() || !self.has_something();
        if is_last && is_known {
            self.wipe_unneeded(ends_with_job);
        }
    }

    /// The first daemon of a node ends before it has served any program: its store goes, unless an earlier job has left something there.
    pub fn never_served(&self) {
        if !self.has_something() {
            self.wipe_unneeded(true);
        }
    }

    /// The store goes if all in it has landed.
    fn wipe_unneeded(&self, ends_with_job: bool) {
        let has_landed = !self.is_needed(ends_with_job) && self.files.all().iter().all(|open| !open.is_dirty());
        if has_landed && let Err(error) = self.local.log.wipe() {
            tracing::warn!(%error, "the store stays");
        }
    }

    /// Where the job does not end in order, other nodes may have written to files whose names this store alone has.
    fn is_needed(&self, ends_with_job: bool) -> bool {
        let (own, leads) = (self.local.rank, self.nodes.leadership().leader);
        let Some(leader) = self.leader() else {
            let mirrored = || self.second.as_ref()?.mirror().as_ref().map(|of| of.is_needed_beside(&[own, leads]));
            return self.local.log.space().live_bytes > 0 || !ends_with_job && mirrored() == Some(true);
        };
        if !self.absent_openers().is_empty() {
            return true;
        }
        let tree = leader.tree();
        // Where stores land without their job, all that are there have said what they have.
        let is_told = !self.has_kernel || !tree.is_open_beside(&[own]) && leader.replicator.standby_has_all();
        let is_settled = ends_with_job || is_told && tree.unlinked_with_drafts().is_empty();
        tree.is_needed() || !is_settled
    }

    /// `drain_job` for the last time: programs of no node change anything from now on (`freeze`).
    ///
    /// # Errors
    /// As `drain_job`.
    pub async fn drain_last(&self, wait: Duration) -> Result<Progress, String> {
        let (why, silent) = self.end_changes_everywhere().await;
        let progress = match self.leader() {
            Some(_) => self.drain_without(wait, &silent).await,
            None => self.drain_job(wait).await?,
        };
        // That it does not answer, the drain says of a node that has anything.
        Ok(Progress { why: progress.why.or(why), ..progress })
    }

    /// The obstacle that keeps an answering node from ending its programs' changes, if any; and nodes that do not answer.
    async fn end_changes_everywhere(&self) -> (Option<String>, Vec<NodeRank>) {
        let told = |node: NodeRank, errno: Errno| {
            Some(match errno {
                Errno::EAGAIN => drain_messages::unsent(node),
                Errno::EBUSY => format!("what programs of node {node} are changing just now has not ended"),
                errno => drain_messages::uncommitted(node, errno),
            })
        };
        let own = self.end_changes().await.err().and_then(|errno| told(self.local.rank, errno));
        let others = self.ask_others::<Result<(), Errno>>(&WriteMessage::EndChanges, NODE_TIMEOUT).await;
        let failed = |(node, answer): &(NodeRank, Result<_, Errno>)| match answer {
            Ok(Err(errno)) => told(*node, *errno),
            _ => None,
        };
        let why = own.or(others.iter().find_map(failed));
        (why, others.into_iter().filter(|(_, answer)| answer.is_err()).map(|(node, _)| node).collect())
    }

    /// Programs of this node change nothing from now on, and what they have written is committed.
    ///
    /// # Errors
    /// EBUSY where somebody still changes something, EAGAIN where a kernel has not sent all; what keeps it from being committed.
    pub(super) async fn end_changes(&self) -> Result<(), Errno> {
        self.end_changes_here().await?;
        self.commits.commit_all().await?;
        self.local.make_durable_for_all().await?;
        self.files.failed()
    }

    async fn end_changes_here(&self) -> Result<(), Errno> {
        self.freeze.close();
        // Data that has not come would be refused.
        self.flush().await?;
        self.freeze.freeze(CHANGES_WITHIN).await
    }

    /// The daemon is about to end: programs of this node change nothing from now on.
    pub async fn leave(&self) {
        let mut ended = self.end_changes_here().await;
        if ended == Err(Errno::EAGAIN) {
            self.freeze.note_unsent();
        }
        if ended.is_err() {
            ended = self.freeze.freeze(CHANGES_WITHIN).await;
        }
        if let Err(errno) = ended {
            tracing::warn!(%errno, "programs are still changing files of the burst tier");
        }
    }

    /// Whether this node leads the burst tree.
    pub fn leads(&self) -> bool {
        self.leader().is_some()
    }

    /// This node's store, and the bytes in it that are needed.
    pub fn store(&self) -> (&Path, u64) {
        (self.local.log.path(), self.local.log.space().live_bytes)
    }

    /// Data that this node knows not to have landed, if any. To be asked for after `leave`.
    pub fn left(&self) -> Option<Left> {
        let uncommitted_bytes = self.files.all().iter().map(|open| open.pending_bytes()).sum();
        let (mut steps, mut files) = (0, vec![]);
        if let Some(leader) = self.leader() {
            let tree = leader.tree();
            (steps, files) = (tree.steps_to_land(), tree.files_not_landed());
        }
        let has_unsent = self.freeze.has_unsent();
        let is_all = uncommitted_bytes == 0 && steps == 0 && files.is_empty() && !has_unsent;
        if is_all && self.absent_openers().is_empty() {
            return None;
        }
        let more_files = files.len().saturating_sub(NAMED_MAX);
        let named = files.into_iter().take(NAMED_MAX);
        let files = named.map(|(path, mut missing)| {
            let path = self.dir.join(std::ffi::OsStr::from_bytes(&path)).to_string_lossy().into_owned();
            let missing_bytes = missing.iter().map(|(_, len)| len).sum();
            let more_ranges = missing.len().saturating_sub(RANGES_MAX);
            missing.truncate(RANGES_MAX);
            LeftFile { path, missing_bytes, missing, more_ranges }
        });
        let store = self.local.log.path().to_string_lossy().into_owned();
        Some(Left {
            node: self.local.rank.0,
            store,
            uncommitted_bytes,
            has_unsent,
            steps,
            files: files.collect(),
            more_files,
        })
    }
}
