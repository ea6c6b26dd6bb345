//! Reports of the write path: how much is where, and how far a file is on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_latency::Register;
use forebay_types::{FileId, Kind, Name, NodeRank};
use forebay_wire::write::{BURST_ROOT, Caller, Piece, Place, Source};
use forebay_wire::write_message::WriteMessage;
use forebay_write::{LostFile, Way};
use serde::{Deserialize, Serialize};

use super::drain::drain_messages;
use super::drain::meter::Meter;
use super::drain::progress::Progress;
use super::kernel_ids::file_of;
use super::parts::WriteParts;
use super::time_limit::left_of;
use super::tree::leader::Leader;
use super::tree::paths::{backing_path, lies_aside};
use crate::options::DrainPolicy;

/// How long nodes that may have written to a file are asked what.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// Files to land that `status` names, and names that are looked at for them while the tree is locked: a millisecond.
const FILES_NAMED_MAX: usize = 16;
const NAMES_LOOKED_AT_MAX: usize = 20_000;

/// The burst tier of a node in `status --json`.
#[derive(Serialize, Deserialize)]
pub struct BurstStatus {
    mount: String,
    /// How long changes of this node's programs are still refused, since a `down` has begun; `null` where they are not.
    #[serde(default)]
    changes_refused_ms: Option<u64>,
    /// The directory that programs see, and where it lands.
    #[serde(default)]
    dir: String,
    #[serde(default)]
    backing: String,
    /// `--drain`.
    #[serde(default)]
    drain: DrainPolicy,
    capacity_bytes: u64,
    /// Room of the store that no record takes, whole segments.
    #[serde(default)]
    free_bytes: Option<u64>,
    /// Writers that wait for room in the store now.
    #[serde(default)]
    waiting_writers: u64,
    /// How long ago a write was last refused for want of room; `null` where none was.
    #[serde(default)]
    refused_ms_ago: Option<u64>,
    /// How long ago an `fsync` last failed because the partner had no room for copies; `null` where none did.
    #[serde(default)]
    copies_refused_ms_ago: Option<u64>,
    /// Written, and not committed.
    dirty_bytes: u64,
    /// Committed, and not on the backing file system.
    committed_bytes: u64,
    /// Copies of other nodes' writes in this node's store.
    #[serde(default)]
    copies_bytes: u64,
    /// The node that copies what this one writes; `null` without one.
    partner: Option<u32>,
    /// Bytes that this node's partner does not have; `null` without one, or while it does not answer.
    uncopied_bytes: Option<u64>,
    /// Stripes of large files that this node has written to the backing file system since its daemon began.
    stripes_written: u64,
    /// The whole job's, on the node that leads the tree.
    #[serde(flatten)]
    landing: Option<LandingStatus>,
    /// Changes that the backing file system has not followed.
    steps_to_land: usize,
    /// The obstacle to them, if any.
    why: Option<String>,
}

/// How a job's landing goes.
#[derive(Serialize, Deserialize)]
struct LandingStatus {
    /// Of the file that is being sent: bytes that are not on the backing file system, verified.
    draining_bytes: u64,
    /// Sent and verified since the leader's daemon began.
    landed_bytes: u64,
    /// Bytes that the backing file system does not have, and files that have some.
    #[serde(default)]
    left_bytes: u64,
    #[serde(default)]
    left_files: u64,
    /// The files that have most of them.
    #[serde(default)]
    largest_left: Vec<FileLeft>,
    /// How fast that went lately; 0 where too little was sent.
    drain_bytes_per_s: u64,
    /// How long what is committed takes, as it went lately, milliseconds; `null` where that is not known.
    time_left_ms: Option<u64>,
    /// Bytes that only silent nodes have.
    lost_bytes: u64,
    /// Changes that the standby does not have; `null` where none follows.
    second_home_behind: Option<u64>,
    /// How long the job has by its time limit; `null` without one.
    ends_in_ms: Option<u64>,
    /// Whether all lands until then, as it went lately.
    is_in_time: Option<bool>,
}

/// A file that has bytes which have not landed.
#[derive(Serialize, Deserialize)]
struct FileLeft {
    path: String,
    bytes: u64,
}

/// A file in `landed --json`.
#[derive(Serialize, Deserialize, Debug)]
pub struct Landed {
    path: String,
    state: String,
    bytes: u64,
    landed_bytes: u64,
    missing: Vec<(u64, u64)>,
    why: Option<String>,
    /// The nodes whose stores have its bytes, and how many.
    #[serde(default)]
    nodes: Vec<(NodeRank, u64)>,
}

impl WriteParts {
    /// How much is where.
    pub fn status(&self) -> BurstStatus {
        let space = self.local.log.space();
        let dirty_bytes: u64 = self.files.all().iter().map(|open| open.pending_bytes()).sum();
        let copies_bytes = self.local.copies().bytes();
        let progress = self.progress();
        BurstStatus {
            mount: forebay_keeper::own_paths::base(&self.mount, &self.dir).to_string_lossy().into_owned(),
            changes_refused_ms: self.freeze.closed_for().map(in_ms),
            dir: self.dir.to_string_lossy().into_owned(),
            backing: self.backing.to_string_lossy().into_owned(),
            drain: self.drain,
            capacity_bytes: space.capacity_bytes,
            free_bytes: Some((space.capacity_bytes + space.kept_by_notes_bytes).saturating_sub(space.used_bytes)),
            waiting_writers: self.local.waiting.load(Ordering::Relaxed) as u64,
            refused_ms_ago: self.local.refused_ago().map(in_ms),
            copies_refused_ms_ago: self.local.copying.as_ref().and_then(|copying| copying.refused_ago()).map(in_ms),
            dirty_bytes,
            committed_bytes: space.live_bytes.saturating_sub(dirty_bytes + copies_bytes),
            copies_bytes,
            partner: self.nodes.partners_of(self.local.rank).first().map(|partner| partner.0),
            uncopied_bytes: self.local.copying.as_ref().and_then(|copying| copying.behind_bytes(&self.nodes)),
            stripes_written: self.local.stripes_written.load(Ordering::Relaxed),
            landing: self.landing_status(&progress),
            steps_to_land: progress.steps,
            why: progress.why,
        }
    }

    /// Bytes that programs of this node wrote since its daemon began, and those that landed, which the leader knows.
    pub fn written_and_landed_bytes(&self) -> (u64, u64) {
        let written_bytes = self.local.written_bytes.load(Ordering::Relaxed);
        (written_bytes, self.meter().map_or(0, Meter::sent_bytes))
    }

    /// Bytes of the job that have not landed; 0 except on the leader, which looks at each file for it.
    pub fn left_bytes(&self) -> u64 {
        self.progress().bytes
    }

    fn landing_status(&self, progress: &Progress) -> Option<LandingStatus> {
        let (leader, meter) = (self.leader()?, self.meter()?);
        let (left, lost_bytes, largest) = {
            let tree = leader.tree();
            let lost = tree.written().filter(|extent| tree.is_lost_extent(extent));
            let largest = tree.largest_to_land(FILES_NAMED_MAX, NAMES_LOOKED_AT_MAX);
            (left_of(&tree), lost.map(|extent| extent.len).sum(), largest)
        };
        let named = |(path, bytes): (Vec<u8>, u64)| {
            let path = self.dir.join(OsStr::from_bytes(&path)).to_string_lossy().into_owned();
            FileLeft { path, bytes }
        };
        let now = leader.nodes.now();
        let takes = meter.time_for(left, now).0;
        let ends_in = self.ends_at.map(|ends_at| ends_at.saturating_sub(self.local.unix_time()));
        Some(LandingStatus {
            draining_bytes: meter.under_way_bytes(),
            landed_bytes: meter.sent_bytes(),
            left_bytes: progress.bytes,
            left_files: progress.files,
            largest_left: largest.into_iter().map(named).collect(),
            drain_bytes_per_s: progress.bytes_per_s.unwrap_or(0),
            time_left_ms: progress.time_left_ms,
            lost_bytes,
            second_home_behind: leader.replicator.second_home_behind(),
            ends_in_ms: ends_in.map(in_ms),
            is_in_time: ends_in.map(|ends_in| takes <= ends_in),
        })
    }

    /// How long programs' requests take; `None` until the burst mount is served.
    pub fn program_latencies(&self) -> Option<&Register> {
        self.latencies.get().map(|latencies| &**latencies)
    }

    /// How long calls on the backing file system take.
    pub fn backing_latencies(&self) -> &Register {
        &self.local.calls.latencies
    }

    /// How long appends to the log and its syncs take.
    pub fn log_latencies(&self) -> &Register {
        self.local.log.latencies()
    }

    /// A file's path by its inode number. The leader of the tree knows it.
    pub fn path_by_inode(&self, inode: u64) -> Option<String> {
        let path = backing_path(&self.leader()?.tree(), file_of(inode))?;
        Some(format!("{}{path}", self.dir.display()))
    }

    /// `drain`, by the leader wherever it is.
    ///
    /// # Errors
    /// Why nothing is known of it.
    pub async fn drain_job(&self, wait: Duration) -> Result<Progress, String> {
        if self.leader().is_some() {
            return Ok(self.drain(wait).await);
        }
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        self.nodes.ask_leader_for_text(&WriteMessage::Drain { wait_ms }).await
    }

    /// `landed`, by the leader wherever it is.
    ///
    /// # Errors
    /// As `landed`.
    pub async fn landed_in_job(&self, path: &Path) -> Result<Landed, String> {
        // Each node has a mount of its own.
        let below = [&self.mount, &self.dir].into_iter().find_map(|base| path.strip_prefix(base).ok());
        let outside = || format!("{} is not in the burst tier, which is at {}", path.display(), self.dir.display());
        let path = self.dir.join(below.ok_or_else(outside)?);
        if self.leader().is_some() {
            return self.landed(&path).await;
        }
        let path = path.to_str().ok_or("only paths that are valid UTF-8 can be named")?.to_owned();
        self.nodes.ask_leader_for_text::<Result<Landed, String>>(&WriteMessage::Landed { path }).await?
    }

    /// How far the file at `path` is, below the directory that programs see. Asked of the leader.
    ///
    /// # Errors
    /// Why nothing can be said of it.
    pub async fn landed(&self, path: &Path) -> Result<Landed, String> {
        let leader = self.leader().ok_or("another node leads the burst tree")?;
        let told = |why: String| format!("{}: {why}", path.display());
        let gone = |errno| told(format!("{errno}"));
        let file = find(leader, path.strip_prefix(&self.dir).unwrap_or(path)).await.map_err(told)?;
        let pending = self.uncommitted(leader, file).await.map_err(told)?;
        let tree = leader.tree();
        let (state, way) = (tree.state(file).map_err(gone)?, tree.way(file).map_err(gone)?);
        let (mut missing, lost) = (tree.written_ranges(file), tree.lost_of(file));
        let second = lies_aside(&tree, file).then(|| backing_path(&tree, file)).flatten();
        let of_others = tree.bytes_of_others(file);
        let nodes = nodes_of(&tree.pieces(file, 0..state.attributes.size_bytes).map_err(gone)?);
        drop(tree);
        let end = pending.iter().map(|(offset, len)| offset + len).max().unwrap_or(0);
        let bytes = state.attributes.size_bytes.max(end);
        let state = match way {
            Way::Lost => "lost",
            _ if !pending.is_empty() => "dirty",
            Way::Open => "dirty",
            Way::Queued => "committed",
            Way::Draining => "draining",
            Way::Verified => "verified",
            Way::Landed => "landed",
        };
        missing.extend(pending);
        if state == "lost" {
            missing.clone_from(&lost.ranges);
        }
        let missing_bytes: u64 = missing.iter().map(|(_, len)| len).sum();
        let why = match state {
            "landed" => second.map(|second| aside_in_words(&format!("{}{second}", self.backing.display()), of_others)),
            "lost" => Some(lost_in_words(&lost, &leader.partners_away(&lost.nodes))),
            _ => self.progress().why,
        };
        let (path, state) = (path.to_string_lossy().into_owned(), state.to_owned());
        Ok(Landed { path, state, bytes, landed_bytes: bytes.saturating_sub(missing_bytes), missing, why, nodes })
    }

    /// Ranges that nodes which have a file open have written and not committed.
    async fn uncommitted(&self, leader: &Leader, file: FileId) -> Result<Vec<(u64, u64)>, String> {
        let mut ranges = self.files.find(file).map_or_else(Vec::new, |open| open.pending_ranges());
        let open_on = leader.tree().open_on(file).map_err(|errno| errno.to_string())?;
        for node in open_on.into_iter().filter(|node| *node != self.local.rank) {
            let uncommitted = WriteMessage::Uncommitted { file };
            let asked = self.nodes.answer_of::<Vec<(u64, u64)>>(node, &uncommitted, NODE_TIMEOUT).await;
            ranges.extend(asked.map_err(|errno| format!("node {node}, which has it open, does not answer: {errno}"))?);
        }
        Ok(ranges)
    }
}

fn in_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How many bytes lie in which node's log.
fn nodes_of(pieces: &[Piece]) -> Vec<(NodeRank, u64)> {
    let mut nodes = BTreeMap::<NodeRank, u64>::new();
    for piece in pieces {
        if let Source::Log(extent) = &piece.source {
            *nodes.entry(extent.node).or_default() += piece.len;
        }
    }
    nodes.into_iter().collect()
}

fn aside_in_words(second: &str, of_others: u64) -> String {
    let why =
        "because others have put something at its name, or at that of a directory above it, or changed what was there";
    match of_others {
        0 => format!("it is at {second}, {why}"),
        bytes => {
            format!("it is at {second}, {why}; {bytes} bytes that the job had not written are as others left them")
        }
    }
}

fn lost_in_words(lost: &LostFile, away: &BTreeSet<NodeRank>) -> String {
    let bytes: u64 = lost.ranges.iter().map(|(_, len)| len).sum();
    if lost.nodes.is_empty() {
        return format!(
            "{bytes} bytes were only in its file on the backing file system, which others have removed or replaced, \
             or cut short"
        );
    }
    let nodes = drain_messages::list(&lost.nodes);
    if lost.is_gone && !away.is_empty() {
        let away = drain_messages::list(away);
        return format!(
            "{bytes} bytes are not in the stores of their nodes any more ({nodes}), and nodes that may have copies do not answer ({away})"
        );
    }
    if lost.is_gone {
        return format!("{bytes} bytes are gone: they were not synced when the power of nodes went ({nodes})");
    }
    format!("{bytes} bytes are only in the stores of nodes that do not answer ({nodes})")
}

async fn find(leader: &Leader, path: &Path) -> Result<FileId, String> {
    use forebay_wire::write_message::{Answer, Question};
    let (caller, mut file, mut kind) = (Caller::default(), BURST_ROOT, Kind::Directory);
    for name in path.components() {
        let name = Name::new(name.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        let question = Question::Lookup { place: Place { directory: file, name } };
        let told = leader.tell_on_task(&caller, question).await.map_err(|errno| errno.to_string())?;
        let Answer::State(state) = told else { return Err("no answer".to_owned()) };
        (file, kind) = (state.file, state.attributes.kind());
    }
    if kind == Kind::File { Ok(file) } else { Err("not a file".to_owned()) }
}
