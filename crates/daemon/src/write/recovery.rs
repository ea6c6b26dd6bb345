//! What a daemon finds in its node's log: the tree as it was, if it owns it, and what its programs had written and not
//! committed.
//!
//! The owner's notes are changes, carried out again in their order. Those of other nodes are the commits that they sent: what
//! was not answered is sent again. Bytes that no commit has named are pending again, in the order of writing: their
//! programs may still have the file open.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use forebay_log::{Owner as StoreOwner, RecoveredRecord, Recovery, Settings, boot_identity};
use forebay_types::{FileId, LogPosition, NodeRank, OperationId, ViewPath};
use forebay_wire::message::decode;
use forebay_wire::write::{Change, Operation, WrittenExtent};
use forebay_write::{Released, Tree};

use super::checkpoint::Checkpoint;
use super::files::Files;
use super::local::{APPENDED, Local, landing_place};
use super::network::Network;
use super::parts::{Beginning, WriteParts};
use super::remote::{Nodes, OWNER};
use crate::environment::Environment;
use crate::options::BurstOptions;
use crate::shared::node::Node;

/// Opens the store of a node and goes on where the daemon before stopped, or begins. `made_at_ms` tells the mount from those
/// before it.
///
/// # Errors
/// What is wrong with the store or the directory of the backing file system.
pub fn open(node: &Arc<Node>, options: &BurstOptions, mount: &Path, made_at_ms: u64) -> anyhow::Result<WriteParts> {
    let store_owner = StoreOwner {
        job: node.options.job.clone(),
        node: node.rank(),
        nodes: node.options.nodes.len() as u32,
        landing: fs::canonicalize(&options.backing).with_context(|| options.backing.display().to_string())?,
        boot: boot_identity().context("this boot has no identity")?,
    };
    let opened = open_store(&options.store, &store_owner, options.capacity_bytes, &node.environment)?;
    let kept = &node.options.kept;
    let beginning = Beginning {
        dir: options.dir.clone(),
        mount: mount.to_owned(),
        drain: options.drain,
        drain_bytes_per_s: options.drain_bytes_per_s,
        ends_at: options.ends_at_ms.map(Duration::from_millis),
        made_at_ms,
        daemon: u64::from(kept.restarts) + u64::from(kept.replaced),
        deadline: node.options.deadline,
        files: opened.files,
        unanswered: opened.unanswered,
    };
    let nodes = Nodes::new(Network { node: Arc::clone(node) });
    Ok(WriteParts::new(nodes, &opened.local, opened.tree, beginning))
}

/// A store with what was found in it.
pub struct OpenedStore {
    pub local: Arc<Local>,
    /// If its node owns it.
    pub tree: Option<Tree>,
    /// With what is pending.
    pub files: Files,
    /// What was sent, and may not have been carried out.
    pub unanswered: Vec<OperationId>,
}

/// Opens the store at `path` and reads it.
///
/// # Errors
/// As `open`.
pub fn open_store(
    path: &Path,
    store_owner: &StoreOwner,
    capacity_bytes: u64,
    environment: &Arc<dyn Environment>,
) -> anyhow::Result<OpenedStore> {
    let place = landing_place(&store_owner.landing)?;
    let mut recovery = Recovery::open(path, store_owner, &Settings::new(capacity_bytes))?;
    let tree = match store_owner.node {
        OWNER => Some(Tree::new(place.attributes(&ViewPath::root())?, true, recovery.identity())),
        _ => None,
    };
    let mut found = Found::new(store_owner.node, tree);
    if let Some(checkpoint) = recovery.checkpoint() {
        let checkpoint = decode(&checkpoint.contents).context("the checkpoint of the store cannot be read")?;
        found.begin(checkpoint, |segment| recovery.holds(segment))?;
    }
    while let Some(record) = recovery.next()? {
        found.take(record.position, record.record)?;
    }
    let live = found.live();
    let log = recovery.finish(live)?;
    let local = Arc::new(Local::new(store_owner.node, log, place, Arc::clone(environment), found.next_serial));
    let (files, unanswered) = found.files(&local);
    Ok(OpenedStore { local, tree: found.tree, files, unanswered })
}

/// What has been found so far.
struct Found {
    rank: NodeRank,
    /// If it is this node's.
    tree: Option<Tree>,
    /// All data, where it is not known what of them the tree needs.
    data: Vec<(LogPosition, u64)>,
    /// What was written and not committed, in the order of writing.
    uncommitted: BTreeMap<LogPosition, (FileId, WrittenExtent)>,
    /// Commits that were sent to another node, in their order.
    sent: Vec<Change>,
    /// Above all that this node has given.
    next_serial: u64,
}

impl Found {
    fn new(rank: NodeRank, tree: Option<Tree>) -> Self {
        Self { rank, tree, data: vec![], uncommitted: BTreeMap::new(), sent: vec![], next_serial: 1 }
    }

    /// What a checkpoint stands for. Segments may have gone since.
    fn begin(&mut self, checkpoint: Checkpoint, holds: impl Fn(u64) -> bool) -> anyhow::Result<()> {
        let Checkpoint { tree, pending, sent, held, next_serial } = checkpoint;
        ensure!(tree.is_some() == self.tree.is_some(), "the store belongs to another node of the job");
        (self.tree, self.next_serial, self.sent) = (tree, next_serial, sent);
        let held = held.into_iter().filter(|(segment, _)| holds(*segment));
        self.data = held.map(|(segment, bytes)| (LogPosition { segment, offset: 0 }, bytes)).collect();
        for (file, extents) in pending {
            self.uncommitted.extend(extents.into_iter().map(|extent| (extent.position, (file, extent))));
        }
        // They are pending by what they name.
        for change in self.sent.clone() {
            self.commit(&change);
        }
        Ok(())
    }

    fn take(&mut self, position: LogPosition, record: RecoveredRecord) -> anyhow::Result<()> {
        match record {
            RecoveredRecord::Data { file, file_offset, bytes } => {
                self.given(file);
                if self.tree.is_none() {
                    self.data.push((position, bytes.into()));
                }
                if file_offset < APPENDED {
                    let extent =
                        WrittenExtent { offset: file_offset, len: bytes.into(), node: self.rank, position, skip: 0 };
                    self.uncommitted.insert(position, (file, extent));
                }
            }
            RecoveredRecord::Note(bytes) => {
                let change = decode::<Change>(&bytes).context("a note of the store cannot be read")?;
                self.take_change(change);
            }
            RecoveredRecord::Damaged => {
                ensure!(false, "the device has lost part of the store: notes at {position:?} are missing");
            }
        }
        Ok(())
    }

    fn take_change(&mut self, change: Change) {
        match &change.operation {
            Operation::Create { file, .. } => self.given(*file),
            Operation::Adopt { entries, .. } => entries.iter().for_each(|entry| self.given(entry.file)),
            _ => {}
        }
        self.commit(&change);
        let Some(tree) = &mut self.tree else {
            self.sent.retain(|sent| sent.id.session == change.id.session && sent.id.serial >= change.oldest);
            return self.sent.push(change);
        };
        // It was carried out before: it has the same outcome again.
        let _ = tree.apply(&change, &mut Released::default());
    }

    /// What a commit names is not pending.
    fn commit(&mut self, change: &Change) {
        if let Operation::Commit { extents, .. } = &change.operation {
            for extent in extents.iter().filter(|extent| extent.node == self.rank) {
                self.uncommitted.remove(&extent.position);
            }
        }
    }

    fn given(&mut self, file: FileId) {
        if file.creator == self.rank {
            self.next_serial = self.next_serial.max(file.serial + 1);
        }
    }

    /// What of the log is needed, as far as that is known. What was written to files that are gone is not.
    fn live(&mut self) -> Vec<(LogPosition, u64)> {
        let Self { tree, uncommitted, rank, data, .. } = self;
        let Some(tree) = tree else { return std::mem::take(data) };
        uncommitted.retain(|_, (file, _)| tree.state(*file).is_ok());
        let committed =
            tree.written().filter(|extent| extent.node == *rank).map(|extent| (extent.position, extent.len));
        committed.chain(uncommitted.values().map(|(_, extent)| (extent.position, extent.len))).collect()
    }

    /// The files with what is pending: what was sent and perhaps not carried out, then what was not sent. And the names of the
    /// former.
    fn files(&mut self, local: &Local) -> (Files, Vec<OperationId>) {
        let (files, sent) = (Files::default(), std::mem::take(&mut self.sent));
        for change in &sent {
            if let Operation::Commit { file, extents, .. } = &change.operation {
                let open = files.entry(*file);
                for extent in extents {
                    open.note(*extent, change.now);
                }
                open.note_unanswered(change.clone());
            }
        }
        for (file, extent) in std::mem::take(&mut self.uncommitted).into_values() {
            files.entry(file).note(extent, local.now());
        }
        (files, sent.into_iter().map(|change| change.id).collect())
    }
}
