//! A tree and how tests ask it for changes.

use forebay_types::{Attributes, BackingId, Errno, FileId, Generation, Kind, Name, NodeRank, OperationId, Timestamp};
use forebay_wire::journal::{JournalEntry, LandedContents, LeaderEntry, StepOutcome};
use forebay_wire::write::{BURST_ROOT, Caller, Change, Done, FileState, Operation, Place};
use forebay_write::{Action, Refusal, Released, Tree, Turn};

pub const ROOT: Caller = Caller { uid: 0, gid: 0, groups: vec![] };

/// A file of the backing file system with an inode number.
pub fn backed(ino: u64) -> BackingId {
    BackingId { generation: Generation { ino, ..Generation::default() }, born: Timestamp::default(), kind: Kind::File }
}

/// A tree, with everything that was asked of it.
pub struct Asked {
    pub tree: Tree,
    pub released: Released,
    pub entries: Vec<JournalEntry>,
}

impl Asked {
    pub fn new() -> Self {
        Self { tree: empty(), released: Released::default(), entries: vec![] }
    }

    /// The next operation of node 0.
    pub fn ask(&mut self, caller: &Caller, operation: Operation) -> Result<Done, Refusal> {
        self.ask_of(NodeRank(0), caller, operation)
    }

    pub fn ask_of(&mut self, node: NodeRank, caller: &Caller, operation: Operation) -> Result<Done, Refusal> {
        let serial = self.entries.len() as u64 + 1;
        let id = OperationId { node, session: 1, serial };
        let now = Timestamp { seconds: serial as i64, nanos: 0 };
        self.apply(Change { id, oldest: 0, caller: caller.clone(), now, operation }.into())
    }

    /// A finding of the leader.
    pub fn note(&mut self, entry: LeaderEntry) -> Result<Done, Refusal> {
        self.apply(entry.into())
    }

    /// The request that was made last.
    pub fn last_request(&self) -> Change {
        match self.entries.last() {
            Some(JournalEntry::Request(change)) => change.clone(),
            other => panic!("no request: {other:?}"),
        }
    }

    fn apply(&mut self, entry: JournalEntry) -> Result<Done, Refusal> {
        let outcome = self.tree.apply(&entry, &mut self.released);
        self.entries.push(entry);
        outcome
    }

    /// Makes a file at a path of one name, by number.
    pub fn make(&mut self, caller: &Caller, place: Place, serial: u64, mode: u32) -> Result<FileState, Refusal> {
        self.ask(caller, create(place, serial, mode)).map(file)
    }

    /// Follows the tree on the backing file system to its end; the files whose contents have landed, in their order.
    pub fn land_all(&mut self) -> Vec<FileId> {
        let mut landed = vec![];
        while let Some(Turn { step, action, is_over }) = self.tree.next_landing() {
            let outcome = match action {
                _ if is_over => StepOutcome::LeftOut,
                Action::Publish { file, version, .. }
                | Action::Update { file, version, .. }
                | Action::UpdateUnnamed { file, version } => {
                    landed.push(file);
                    StepOutcome::Contents(LandedContents { version, backed: backed(0), blocks: 1 })
                }
                _ => StepOutcome::Done,
            };
            self.note(LeaderEntry::Landed { step, outcome }).unwrap();
        }
        landed.dedup();
        landed
    }

    pub fn lookup(&self, place: &Place) -> Option<FileState> {
        self.tree.lookup(&ROOT, place).ok()
    }
}

pub fn empty() -> Tree {
    Tree::new(Attributes { mode: 0o040_755, nlink: 2, ..Attributes::default() }, false, 1)
}

pub fn create(place: Place, serial: u64, mode: u32) -> Operation {
    let target = if mode >> 12 == 0o12 { b"target".to_vec() } else { vec![] };
    Operation::Create { place, file: id(serial), mode, rdev: 0, target, is_opened: false, is_exclusive: false }
}

pub const fn id(serial: u64) -> FileId {
    FileId { creator: NodeRank(0), serial }
}

pub fn in_root(name: &str) -> Place {
    within(BURST_ROOT, name)
}

pub fn within(directory: FileId, name: &str) -> Place {
    Place { directory, name: Name::new(name.as_bytes()).unwrap() }
}

pub fn file(done: Done) -> FileState {
    match done {
        Done::File(state) => state,
        Done::Nothing => panic!("no file was told"),
    }
}

pub fn refused<T: std::fmt::Debug>(result: Result<T, Refusal>) -> Errno {
    match result.unwrap_err() {
        Refusal::Errno(errno) => errno,
        other => panic!("something is to be imported first: {other:?}"),
    }
}
