//! A daemon's findings in its node's log: the tree as it was, if it owns it, and what its programs had written and not
//! committed.
//!
//! The leader's notes are changes, carried out again in their order. Those of other nodes are the commits that they sent: what
//! was not answered is sent again. Bytes that no commit has named are pending again, in the order of writing: their
//! programs may still have the file open.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use forebay_log::{Capacity, Owner as StoreOwner, RecoveredRecord, Recovery, Settings};
use forebay_types::{FileId, LogPosition, NodeRank, OperationId, Time, ViewPath};
use forebay_wire::journal::{JournalEntry, LeaderEntry};
use forebay_wire::log_record::RecordData;
use forebay_wire::message::{decode, encode};
use forebay_wire::write::{Change, Copy, Operation, WrittenExtent};
use forebay_wire::write_message::Leadership;
use forebay_write::{Backlog, Copies, Entries, Lineage, Released, Tree};

use super::calls::BackingCalls;
use super::copying::Copying;
use super::files::Files;
use super::kernel_ids::unknown_writer;
use super::local::{Local, landing_place};
use super::lost_changes::{Overtaken, Unheard, unheard};
use super::notes::{Note, StoreTree};
use super::tree::checkpoint::Checkpoint;
use super::tree::standby::Mirror;
use crate::environment::Environment;
use crate::options::Copied;

/// A store with what was found in it.
pub struct OpenedStore {
    pub local: Arc<Local>,
    /// The leader, as far as its node knows.
    pub leadership: Leadership,
    /// If its node owns it.
    pub tree: Option<Tree>,
    /// The node that it has taken the tree over from, if it has not begun with it yet.
    pub leader_before: Option<NodeRank>,
    /// How it came to be so.
    pub history: (Lineage, Entries<Vec<u8>>),
    /// If it has its standby here.
    pub mirror: Option<Mirror>,
    /// With names of files that have not landed, or that other nodes may have written to.
    pub has_mirrored: bool,
    /// Whether a loss of power may have taken the log's end.
    pub may_lack_end: bool,
    /// With what is pending.
    pub files: Files,
    /// Operations that were sent, and may not have been carried out.
    pub unanswered: Vec<OperationId>,
    /// Those of its programs that it carried out as the leader, before another node was that, which may not have heard of them.
    pub unheard: Vec<Unheard>,
    /// Writes that were pending when another node came to lead the tree in its place, and still are.
    pub overtaken: Vec<Overtaken>,
}

impl OpenedStore {
    /// The tree that the store is about, if that is known.
    pub fn tree_number(&self) -> Option<u64> {
        let own = self.tree.as_ref().map(Tree::number);
        own.or_else(|| self.local.tree_number()).or_else(|| Some(self.mirror.as_ref()?.tree.number()))
    }
}

/// Opens the store at `path` and reads it. A partner copies of what is written to it what `copied` says; what it does not get on with
/// for so long, has no room there.
///
/// # Errors
/// As `open`.
pub fn open_store(
    path: &Path,
    store_owner: &StoreOwner,
    capacity: Capacity,
    (environment, calls): (&Arc<dyn Environment>, BackingCalls),
    (copied, copied_within): (Copied, Duration),
) -> anyhow::Result<OpenedStore> {
    let place = landing_place(&store_owner.landing)?;
    // One that is only read to its end may lie anywhere.
    let settings = Settings { is_forced: capacity == Capacity::AsFound, ..Settings::of(capacity) };
    let mut recovery = Recovery::open(path, store_owner, &settings)?;
    let root = place.attributes(&ViewPath::root())?;
    let mut found = Found::new(store_owner.node, Tree::new(root, true, recovery.identity()));
    if let Some(checkpoint) = recovery.checkpoint() {
        let checkpoint = decode(&checkpoint.contents).context("the checkpoint of the store cannot be read")?;
        found.begin(checkpoint, |segment| recovery.holds(segment))?;
    }
    while let Some(record) = recovery.next()? {
        found.take(record.position, record.record)?;
    }
    let mut live = found.live();
    if found.leadership != Leadership::default() {
        // The tree came from another node, which may have known of more than a loss of power has left here (`verifying`).
        live.retain(|(position, _)| recovery.keeps(position.segment));
    }
    let may_lack_end = recovery.is_of_another_boot();
    let log = recovery.finish(live)?;
    // No two daemons of a node begin at the same time.
    let incarnation = environment.unix_time().as_nanos() as u64;
    let uncopied = std::mem::take(&mut found.uncopied);
    let uncopied = Backlog::begin(incarnation, uncopied, Time::default());
    let copying = (copied != Copied::Nothing).then(|| Copying::new(uncopied, copied, copied_within));
    let node = (store_owner.node, store_owner.job.clone(), found.leadership, found.store_tree);
    let local = Arc::new(Local::new(
        node,
        (log, copying, std::mem::take(&mut found.copies)),
        (place, calls),
        Arc::clone(environment),
        (found.next_serial, found.last_record),
    ));
    let (overtaken, has_mirrored) = (found.overtaken(), found.has_mirrored());
    let (files, unanswered) = found.files(&local);
    let Found { leadership, tree, leader_before, lineage, recent, mirror, unheard, .. } = found;
    let history = (lineage, recent);
    Ok(OpenedStore {
        local,
        leadership,
        tree,
        leader_before,
        history,
        mirror,
        has_mirrored,
        may_lack_end,
        files,
        unanswered,
        unheard,
        overtaken,
    })
}

/// The findings so far.
pub struct Found {
    rank: NodeRank,
    leadership: Leadership,
    /// The tree that the store is about.
    store_tree: Option<StoreTree>,
    /// If it is this node's.
    tree: Option<Tree>,
    /// The node that it was taken over from, if no daemon has begun with it since.
    leader_before: Option<NodeRank>,
    /// How it came to be so.
    lineage: Lineage,
    /// Its newest changes.
    recent: Entries<Vec<u8>>,
    /// If it has its standby here.
    mirror: Option<Mirror>,
    copies: Copies,
    /// Records of its own that its partner may not have.
    uncopied: BTreeMap<LogPosition, u32>,
    /// Bytes of all data by segment: what of them the tree needs only its owner knows.
    data: BTreeMap<u64, u64>,
    /// Extents that were written and not committed, in the order of writing.
    uncommitted: BTreeMap<LogPosition, (FileId, WrittenExtent)>,
    /// Commits that were sent to another node, in their order.
    sent: Vec<Change>,
    /// Changes that the leader after this node may not have heard of, oldest first.
    unheard: Vec<Unheard>,
    /// The versions that files of uncommitted extents had in this node's tree when another came to lead it.
    versions_then: BTreeMap<LogPosition, u64>,
    /// Above all that this node has given.
    next_serial: u64,
    /// The last of the log's records.
    last_record: Option<LogPosition>,
}

impl Found {
    /// `tree` is that of a job that begins.
    pub fn new(rank: NodeRank, tree: Tree) -> Self {
        let leadership = Leadership::default();
        Self {
            rank,
            leadership,
            store_tree: None,
            tree: (leadership.leader == rank).then_some(tree),
            leader_before: None,
            lineage: Lineage::default(),
            recent: Entries::default(),
            mirror: None,
            copies: Copies::default(),
            uncopied: BTreeMap::new(),
            data: BTreeMap::new(),
            uncommitted: BTreeMap::new(),
            sent: vec![],
            unheard: vec![],
            versions_then: BTreeMap::new(),
            next_serial: 1,
            last_record: None,
        }
    }

    /// Takes what a checkpoint stands for. Segments may have gone since.
    fn begin(&mut self, checkpoint: Checkpoint, holds: impl Fn(u64) -> bool) -> anyhow::Result<()> {
        let Checkpoint { leadership, store_tree, tree, lineage, mirror, copies, uncopied, .. } = checkpoint;
        let (pending, sent, held, next_serial) =
            (checkpoint.pending, checkpoint.sent, checkpoint.held, checkpoint.next_serial);
        self.lineage = lineage;
        (self.copies, self.uncopied) = (copies, uncopied.into_iter().collect());
        self.copies.drop_at(|to| !holds(to.segment));
        ensure!(tree.is_some() == (leadership.leader == self.rank), "the store belongs to another node of the job");
        (self.leadership, self.tree, self.mirror, self.next_serial, self.sent) =
            (leadership, tree, mirror, next_serial, sent);
        self.store_tree = store_tree;
        self.data = held.into_iter().filter(|(segment, _)| holds(*segment)).collect();
        for (file, extents) in pending {
            self.uncommitted.extend(extents.into_iter().map(|extent| (extent.position, (file, extent))));
        }
        // They are pending by what they name.
        for change in self.sent.clone() {
            self.commit(&change);
        }
        Ok(())
    }

    /// A record of the log.
    ///
    /// # Errors
    /// When the store cannot be recovered.
    pub fn take(&mut self, position: LogPosition, record: RecoveredRecord) -> anyhow::Result<()> {
        self.last_record = Some(position);
        match record {
            RecoveredRecord::Data { data, bytes } => self.take_data(position, data, bytes),
            RecoveredRecord::Note(bytes) => {
                match decode::<Note>(&bytes).context("a note of the store cannot be read")? {
                    Note::Own(count, entry) => self.take_own(count, &entry)?,
                    Note::Sent(change) => self.take_sent(change),
                    Note::Followed(count, entry) => self.follow(count, &entry),
                    Note::Leadership(leadership) => self.take_leadership(leadership)?,
                    Note::Line(incarnation) => self.take_line(incarnation),
                    Note::Tree(tree) => {
                        self.store_tree = Some(tree);
                        self.mirror = self.mirror.take().filter(|mirror| mirror.tree.number() == tree.number);
                    }
                }
            }
            RecoveredRecord::Damaged => {
                ensure!(false, "the device has lost part of the store: notes at {position:?} are missing");
            }
        }
        Ok(())
    }

    fn take_data(&mut self, position: LogPosition, data: RecordData, bytes: u32) {
        *self.data.entry(position.segment).or_default() += u64::from(bytes);
        let (file, is_copied) = match data {
            RecordData::Copy { of, from } => {
                self.copies.insert(of, Copy { from, to: position, len: bytes });
                return;
            }
            RecordData::Written { file, offset, is_copied } => {
                let extent = WrittenExtent { offset, len: bytes.into(), node: self.rank, position, skip: 0 };
                self.uncommitted.insert(position, (file, extent));
                (file, is_copied)
            }
            RecordData::Appended { file, is_copied } => (file, is_copied),
        };
        self.given(file);
        if is_copied {
            self.uncopied.insert(position, bytes);
        }
    }

    fn take_leadership(&mut self, leadership: Leadership) -> anyhow::Result<()> {
        let before = std::mem::replace(&mut self.leadership, leadership).leader;
        let was_own = before == self.rank;
        match leadership.leader == self.rank {
            true if was_own => {}
            true => {
                let mirror =
                    self.mirror.take().context("the tree that this node took over is missing from its store")?;
                self.tree = Some(mirror.tree);
                self.leader_before = Some(before);
                // No other node has followed what was added to it since.
                (self.lineage, self.recent) = Default::default();
            }
            false => {
                if let Some(tree) = self.tree.take() {
                    self.unheard = self.own_of_recent();
                    let version = |(position, (file, _)): (&LogPosition, &(FileId, WrittenExtent))| {
                        Some((*position, tree.state(*file).ok()?.version))
                    };
                    self.versions_then = self.uncommitted.iter().filter_map(version).collect();
                }
            }
        }
        Ok(())
    }

    /// The newest changes of this node's programs: all that `Entries` keeps.
    fn own_of_recent(&self) -> Vec<Unheard> {
        let entries = self.recent.iter().filter_map(|entry| decode::<JournalEntry>(entry).ok());
        let own = |entry| match entry {
            JournalEntry::Request(change) if change.id.node == self.rank => Some(unheard(&change)),
            _ => None,
        };
        entries.filter_map(own).collect()
    }

    fn take_line(&mut self, incarnation: u64) {
        match (&self.tree, &mut self.mirror) {
            (Some(_), _) => {
                self.lineage.begin(incarnation);
                self.leader_before = None;
            }
            (None, Some(mirror)) => mirror.have.incarnation = incarnation,
            (None, None) => {}
        }
    }

    /// A mirror that lacks a change is dropped: its next leader would not notice.
    fn follow(&mut self, count: u64, entry: &JournalEntry) {
        let Some(mirror) = &mut self.mirror else { return };
        if count == mirror.have.count + 1 {
            mirror.follow(entry);
        } else {
            tracing::error!(
                count,
                known = mirror.have.count,
                "changes are missing from the store: the standby has none"
            );
            self.mirror = None;
        }
    }

    fn take_own(&mut self, count: u64, entry: &JournalEntry) -> anyhow::Result<()> {
        match entry {
            JournalEntry::Request(change) => self.given_by(change),
            JournalEntry::Leader(LeaderEntry::Import { entries, .. }) => {
                entries.iter().for_each(|entry| self.given(entry.file));
            }
            JournalEntry::Leader(_) => {}
        }
        let Some(tree) = &mut self.tree else {
            // One that was noted after another node had come to lead the tree never happened: its bytes are pending.
            if let JournalEntry::Request(change) = entry
                && !matches!(change.operation, Operation::Commit { .. })
            {
                self.unheard.extend(Some(unheard(change)).filter(|_| change.id.node == self.rank));
            }
            return Ok(());
        };
        let known = self.lineage.have().count;
        ensure!(
            count == known + 1,
            "the device has lost part of the store: after change {known} of the tree comes {count}"
        );
        // It was carried out before: it has the same outcome again.
        let _ = tree.apply(entry, &mut Released::default());
        self.lineage.note();
        self.recent.note(encode(entry));
        if let JournalEntry::Request(change) = entry {
            self.commit(change);
        }
        Ok(())
    }

    fn take_sent(&mut self, change: Change) {
        self.given_by(&change);
        self.commit(&change);
        self.sent.retain(|sent| sent.id.session == change.id.session && sent.id.serial >= change.oldest);
        self.sent.push(change);
    }

    fn given_by(&mut self, change: &Change) {
        if let Operation::Create { file, .. } | Operation::CreateUnnamed { file, .. } = &change.operation {
            self.given(*file);
        }
    }

    /// Extents that a commit names are not pending.
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

    /// The tree, if it is this node's.
    pub fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// Parts of the log that are needed, as far as that is known. Writes to files that are gone are not.
    pub fn live(&mut self) -> Vec<(LogPosition, u64)> {
        let Self { tree, uncommitted, sent, rank, data, copies, .. } = self;
        let Some(tree) = tree else {
            let first = |segment| LogPosition { segment, offset: 0 };
            return data.iter().map(|(segment, bytes)| (first(*segment), *bytes)).collect();
        };
        uncommitted.retain(|_, (file, _)| tree.state(*file).is_ok());
        let moved = tree.records_of(*rank);
        copies.drop_at(|to| moved.contains(&to));
        let copied = copies.nodes().into_iter().flat_map(|of| copies.all_of(of)).map(|copy| (copy.to, copy.len.into()));
        let committed =
            tree.written().filter(|extent| extent.node == *rank).map(|extent| (extent.position, extent.len));
        // The node that led before has not carried them out, or has not told this one, which carries them out now.
        let unanswered = sent.iter().filter(|change| !tree.has_carried_out(change.id));
        let unanswered = unanswered.flat_map(|change| match &change.operation {
            Operation::Commit { file, extents, .. } if tree.state(*file).is_ok() => &extents[..],
            _ => &[],
        });
        let pending = uncommitted.values().map(|(_, extent)| extent).chain(unanswered);
        let pending = pending.filter(|extent| extent.node == *rank).map(|extent| (extent.position, extent.len));
        committed.chain(copied).chain(pending).collect()
    }

    /// Whether names are here of files that have not landed, or that nodes beside this one and the leader may have written to.
    fn has_mirrored(&self) -> bool {
        let nodes = [self.rank, self.leadership.leader];
        self.mirror.as_ref().is_some_and(|mirror| mirror.is_needed_beside(&nodes))
    }

    /// Extents that are pending since before another node led the tree.
    fn overtaken(&self) -> Vec<Overtaken> {
        let since = |(record, (file, _)): (&LogPosition, &(FileId, WrittenExtent))| {
            Some(Overtaken { file: *file, version: *self.versions_then.get(record)?, record: *record })
        };
        self.uncommitted.iter().filter_map(since).collect()
    }

    /// The files with what is pending: what was sent and perhaps not carried out, then what was not sent. And the names of the
    /// former.
    fn files(&mut self, local: &Local) -> (Files, Vec<OperationId>) {
        let (files, sent) = (Files::default(), std::mem::take(&mut self.sent));
        for change in &sent {
            if let Operation::Commit { file, extents, .. } = &change.operation {
                let open = files.entry(*file);
                for extent in extents {
                    open.note(*extent, change.now, Some(unknown_writer()));
                }
                open.note_unanswered(change.clone());
            }
        }
        for (file, extent) in std::mem::take(&mut self.uncommitted).into_values() {
            files.entry(file).note(extent, local.now(), Some(unknown_writer()));
        }
        (files, sent.into_iter().map(|change| change.id).collect())
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::{Attributes, Name, Timestamp};
    use forebay_wire::write::{BURST_ROOT, Caller, CommitAt, Place};
    use forebay_wire::write_message::ReplicatedIndex;

    use super::*;

    const OWN: NodeRank = NodeRank(1);
    const FILE: FileId = FileId { creator: OWN, serial: 1 };
    const AT: LogPosition = LogPosition { segment: 1, offset: 4096 };

    fn change(serial: u64, operation: Operation) -> Change {
        let id = OperationId { node: OWN, session: 1, serial };
        Change { id, oldest: 1, caller: Caller::default(), now: Timestamp::default(), operation }
    }

    /// The store of a standby that has taken the tree over. Its program had a commit sent to the leader before, which did not answer any more.
    fn found() -> Found {
        let root = Attributes { mode: 0o040_755, nlink: 2, ..Attributes::default() };
        let mut tree = Tree::new(root, false, 7);
        let create = Operation::Create {
            place: Place { directory: BURST_ROOT, name: Name::new(b"a").unwrap() },
            file: FILE,
            mode: 0o100_644,
            rdev: 0,
            target: vec![],
            is_opened: true,
            is_exclusive: false,
        };
        tree.apply(&JournalEntry::Request(change(1, create)), &mut Released::default()).unwrap();
        let mirror = Mirror { have: ReplicatedIndex { incarnation: 1, count: 1 }, tree };
        let checkpoint = Checkpoint { mirror: Some(mirror), ..Checkpoint::default() };
        let mut found = Found::new(OWN, Tree::new(root, false, 8));
        found.begin(checkpoint, |_| true).unwrap();
        let data = RecordData::Written { file: FILE, offset: 0, is_copied: false };
        found.take(AT, RecoveredRecord::Data { data, bytes: 1024 }).unwrap();
        found.take(AT, RecoveredRecord::Note(Note::sent(&commit()).into())).unwrap();
        let taken_over = Note::leadership(Leadership { term: 1, leader: OWN });
        found.take(AT, RecoveredRecord::Note(taken_over.into())).unwrap();
        found
    }

    fn commit() -> Change {
        let extent = WrittenExtent { offset: 0, len: 1024, node: OWN, position: AT, skip: 0 };
        change(2, Operation::Commit { file: FILE, extents: vec![extent], at: CommitAt::Start })
    }

    /// A standby counts on from where the leader before was, and that may have gone on differently: a follower of that one gets the whole tree.
    #[test]
    fn changes_of_a_takeover_are_none_of_the_incarnation_before() {
        let mut found = found();
        found.take(AT, RecoveredRecord::Note(Note::incarnation(2).into())).unwrap();
        found.take(AT, RecoveredRecord::Note(Note::own(1, &commit()).into())).unwrap();
        assert_eq!(found.lineage.have(), ReplicatedIndex { incarnation: 2, count: 1 });
        assert!((0..3).all(|count| !found.lineage.covers(ReplicatedIndex { incarnation: 1, count })));
    }

    #[test]
    fn bytes_of_a_commit_that_was_not_answered_are_kept_at_a_takeover() {
        let mut found = found();
        assert_eq!(found.live(), [(AT, 1024)]);
        let noted = Note::own(1, &commit());
        found.take(AT, RecoveredRecord::Note(noted.into())).unwrap();
        assert_eq!(found.live(), [(AT, 1024)], "once it has been carried out, they are counted once");
    }
}
