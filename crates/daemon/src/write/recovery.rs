//! What a daemon finds in its node's log: the tree as it was, and what its programs had written and not committed.
//!
//! Notes are changes, carried out again in their order. Bytes that no commit has named are pending again, in the order of
//! writing: their programs may still have the file open.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use forebay_log::{Owner as StoreOwner, RecoveredRecord, Recovery, Settings, boot_identity};
use forebay_store::LandingPlace;
use forebay_types::{FileId, LogPosition, NodeRank};
use forebay_wire::message::decode;
use forebay_wire::write::{Change, Operation, WrittenExtent};
use forebay_write::{Released, Tree};

use super::files::Files;
use super::owner::Owner;
use super::parts::WriteParts;
use crate::options::BurstOptions;
use crate::shared::node::Node;

/// Opens the store of a node and goes on where the daemon before stopped, or begins.
///
/// # Errors
/// What is wrong with the store or the directory of the backing file system.
pub fn open(node: &Node, options: &BurstOptions, mount: &Path) -> anyhow::Result<WriteParts> {
    let place = LandingPlace::open(&options.backing)
        .map_err(|errno| anyhow::anyhow!("{}: {errno}", options.backing.display()))
        .context("cannot use the directory that the burst tier lands in")?;
    let root = place.attributes(&forebay_types::ViewPath::root())?;
    let mut found = Found::new(node.rank(), Tree::new(root, true));
    let owner =
        StoreOwner { job: node.options.job.clone(), boot: boot_identity().context("this boot has no identity")? };
    let mut recovery = Recovery::open(&options.store, &owner, &Settings::new(options.capacity_bytes))?;
    while let Some(record) = recovery.next()? {
        found.take(record.position, record.record)?;
    }
    let live = found.live();
    let log = recovery.finish(live)?;
    let Found { tree, uncommitted, next_serial, .. } = found;
    let files = Files::default();
    let environment = Arc::clone(&node.environment);
    let owner = Owner::new(node.rank(), tree, log, place, environment, next_serial);
    for (file, extent) in uncommitted.into_values() {
        files.entry(file).note(extent, owner.now());
    }
    Ok(WriteParts::new(options.dir.clone(), mount.to_owned(), owner, files))
}

/// What has been found so far.
struct Found {
    rank: NodeRank,
    tree: Tree,
    /// What was written and not committed, in the order of writing.
    uncommitted: BTreeMap<LogPosition, (FileId, WrittenExtent)>,
    /// Above all that this node has given.
    next_serial: u64,
}

impl Found {
    fn new(rank: NodeRank, tree: Tree) -> Self {
        Self { rank, tree, uncommitted: BTreeMap::new(), next_serial: 1 }
    }

    fn take(&mut self, position: LogPosition, record: RecoveredRecord) -> anyhow::Result<()> {
        match record {
            RecoveredRecord::Data { file, file_offset, bytes } => {
                let extent =
                    WrittenExtent { offset: file_offset, len: bytes.into(), node: self.rank, position, skip: 0 };
                self.uncommitted.insert(position, (file, extent));
            }
            RecoveredRecord::Note(bytes) => {
                let change = decode::<Change>(&bytes).context("a note of the store cannot be read")?;
                self.carry_out(&change);
            }
            RecoveredRecord::Damaged => {
                ensure!(false, "the device has lost part of the store: notes at {position:?} are missing");
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, change: &Change) {
        match &change.operation {
            Operation::Create { file, .. } => self.given(*file),
            Operation::Adopt { entries, .. } => entries.iter().for_each(|entry| self.given(entry.file)),
            Operation::Commit { extents, .. } => {
                for extent in extents {
                    self.uncommitted.remove(&extent.position);
                }
            }
            _ => {}
        }
        // It was carried out before: it has the same outcome again.
        let _ = self.tree.apply(change, &mut Released::default());
    }

    fn given(&mut self, file: FileId) {
        if file.creator == self.rank {
            self.next_serial = self.next_serial.max(file.serial + 1);
        }
    }

    /// What of the log is needed. What was written to files that are gone is not.
    fn live(&mut self) -> Vec<(LogPosition, u64)> {
        let Self { tree, uncommitted, rank, .. } = self;
        uncommitted.retain(|_, (file, _)| tree.state(*file).is_ok());
        let committed =
            tree.written().filter(|extent| extent.node == *rank).map(|extent| (extent.position, extent.len));
        committed.chain(uncommitted.values().map(|(_, extent)| (extent.position, extent.len))).collect()
    }
}
