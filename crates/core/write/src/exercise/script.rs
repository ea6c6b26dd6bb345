//! A script of changes, read from any bytes.

use forebay_types::{
    Attributes, BackingId, ExtendedAttributes, ExtendedRule, FileId, Generation, Kind, LogPosition, Name, NodeRank,
    OperationId, Rights, Timestamp,
};
use forebay_wire::journal::{Drained, ImportedEntry, JournalEntry, LandedContents, LeaderEntry, StepOutcome};
use forebay_wire::message::decode;
use forebay_wire::write::{
    AttributeChanges, Caller, Change, CommitAt, Copy, LockKind, LockRequest, Operation, Place, RenameRule, TimeChange,
    WrittenExtent,
};

/// Kinds of steps that have a spelling of their own.
const KINDS: u8 = 33;

/// Numbers at which something may go wrong.
const NUMBERS: [u64; 12] = [
    u64::MAX,
    u64::MAX - 1,
    i64::MAX as u64 + 1,
    i64::MAX as u64,
    i64::MAX as u64 - 1,
    (1 << 40) - 1,
    1 << 40,
    (1 << 40) - 2,
    1 << 32,
    u32::MAX as u64,
    8 << 20,
    1 << 20,
];

/// The rest of it.
pub struct Script<'a> {
    bytes: &'a [u8],
    /// The newest operation of the session that has most.
    serial: u64,
}

impl<'a> Script<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, serial: 0 }
    }

    /// The next byte; 0 behind the end.
    pub fn number(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// The next step.
    pub fn entry(&mut self) -> Option<JournalEntry> {
        loop {
            if self.bytes.is_empty() {
                return None;
            }
            let kind = self.number();
            if kind < 0xf0 {
                let (kind, who) = (kind % KINDS, self.number());
                return Some(match kind {
                    0..=14 | 27..=29 => self.request(kind, who).into(),
                    _ => self.of_leader(kind).into(),
                });
            }
            let len = usize::from(self.number()).min(self.bytes.len());
            let (message, rest) = self.bytes.split_at(len);
            self.bytes = rest;
            if let Ok(entry) = decode::<JournalEntry>(message) {
                return Some(entry);
            }
        }
    }

    fn request(&mut self, kind: u8, who: u8) -> Change {
        let node = NodeRank(u32::from(who & 3));
        let session = u64::from(who >> 2 & 3);
        // Most are new ones; some come again.
        self.serial += u64::from(who >> 4 != 15);
        let caller = match who >> 6 {
            1 => Caller { uid: 1000, gid: 100, groups: vec![7] },
            2 => Caller { uid: 1001, gid: 100, groups: vec![] },
            _ => Caller::default(),
        };
        let now = Timestamp { seconds: i64::from(who), nanos: 1 };
        let id = OperationId { node, session, serial: self.serial };
        let oldest = self.serial.saturating_sub(u64::from(who >> 4));
        Change { id, oldest, caller, now, operation: self.operation(kind, node) }
    }

    fn operation(&mut self, kind: u8, node: NodeRank) -> Operation {
        match kind {
            0..=2 => self.create(),
            3 => Operation::Link { file: self.file(), place: self.place() },
            4 => Operation::Unlink { place: self.place() },
            5 => Operation::RemoveDirectory { place: self.place() },
            6 | 7 => Operation::Rename { from: self.place(), to: self.place(), rule: self.rule() },
            8 => self.set_attributes(),
            9 => Operation::Open { file: self.file() },
            10 => {
                let file = self.file();
                Operation::Close { file, handle: file.serial & 3 }
            }
            11 => Operation::CloseAll,
            12 | 13 => self.commit(node),
            14 => self.lock(),
            28 => Operation::Allocate { file: self.file(), least_bytes: self.large() },
            29 => self.set_extended(),
            _ => {
                let (directory, file, how) = (self.file(), self.file(), self.number());
                Operation::CreateUnnamed { directory, file, mode: 0o100_644, may_be_named: how & 1 == 0 }
            }
        }
    }

    fn create(&mut self) -> Operation {
        let (place, file, how) = (self.place(), self.file(), self.number());
        let modes = [0o100_644, 0o040_777, 0o120_777, 0o020_600, 0o106_755, 0o042_777, 0o041_777, 0o644];
        let mode = modes[usize::from(how & 7)];
        let target = if how & 7 == 2 { b"target".to_vec() } else { vec![] };
        let (is_opened, is_exclusive) = (how & 8 != 0, how & 16 != 0);
        Operation::Create { place, file, mode, rdev: 0, target, is_opened, is_exclusive }
    }

    fn set_attributes(&mut self) -> Operation {
        let (file, which) = (self.file(), self.number());
        let has = |bit: u8| which & bit != 0;
        let changes = AttributeChanges {
            mode: has(1).then(|| u32::from(self.number()) << 4),
            uid: has(2).then(|| u32::from(self.number())),
            gid: has(4).then(|| u32::from(self.number())),
            size_bytes: has(8).then(|| self.large()),
            atime: has(16).then_some(TimeChange::Now),
            mtime: has(32).then(|| TimeChange::To(Timestamp { seconds: self.large().cast_signed(), nanos: u32::MAX })),
            is_through_descriptor: has(64),
        };
        Operation::SetAttributes { file, changes }
    }

    fn commit(&mut self, node: NodeRank) -> Operation {
        let (file, how) = (self.file(), self.number());
        let extents = (0..how & 3).map(|_| self.extent(node)).collect();
        Operation::Commit { file, extents, at: if how & 4 == 0 { CommitAt::Start } else { CommitAt::End } }
    }

    fn extent(&mut self, node: NodeRank) -> WrittenExtent {
        let (offset, len) = (self.large(), self.large());
        let (position, skip) = (self.position(), u32::from(self.number()));
        WrittenExtent { offset, len, node, position, skip }
    }

    fn lock(&mut self) -> Operation {
        let (file, how) = (self.file(), self.number());
        let owner = u64::from(how & 3);
        let request = LockRequest {
            owner,
            start: self.large(),
            end: self.large(),
            kind: [None, Some(LockKind::Shared), Some(LockKind::Exclusive)][usize::from(how >> 2 & 3).min(2)],
            pid: 1,
            is_flock: how & 16 != 0,
            handle: owner,
        };
        Operation::Lock { file, request }
    }

    fn of_leader(&mut self, kind: u8) -> LeaderEntry {
        match kind {
            15 => self.import(),
            16 => LeaderEntry::Publish { file: self.file() },
            17 | 18 => LeaderEntry::Landed { step: self.large(), outcome: self.outcome() },
            19 => LeaderEntry::Drafting { file: self.file(), directory: self.file() },
            20 if self.number() & 1 == 0 => LeaderEntry::Publishing { file: self.file(), backed: self.backed() },
            20 => LeaderEntry::Changing { file: self.file() },
            21 if self.number() & 1 == 0 => LeaderEntry::SetAside { place: self.place(), name: self.place().name },
            21 => LeaderEntry::NotThere { place: self.place() },
            22 => self.drained(),
            23 => {
                let nodes = self.number();
                LeaderEntry::Lost { nodes: (0..4).filter(|node| nodes >> node & 1 == 1).map(NodeRank).collect() }
            }
            24 => self.moved(),
            26 => LeaderEntry::Unlist { directory: self.file() },
            30 => {
                let (file, found) = (self.file(), self.extended());
                LeaderEntry::ImportExtended { file, found }
            }
            31 => LeaderEntry::GiveUp { node: NodeRank(u32::from(self.number() & 3)) },
            32 => LeaderEntry::LetGo,
            _ if self.number() & 1 == 0 => {
                let draft = (self.number() & 1 == 1).then(|| self.backed());
                let rights = Rights { mode: 0o640, uid: 7, gid: 8 };
                LeaderEntry::CopiedOnConflict { file: self.file(), draft, bytes: self.large(), rights }
            }
            _ => LeaderEntry::Verified {
                file: self.file(),
                version: self.large(),
                draft: self.backed(),
                stripe_bytes: self.large(),
                stripes: (0..self.number() & 3).map(|_| self.large()).collect(),
            },
        }
    }

    fn import(&mut self) -> LeaderEntry {
        let (directory, how) = (self.file(), self.number());
        let entries = (0..how & 3).map(|_| {
            let mode = [0o100_644, 0o040_755, 0o120_777, 0o644][usize::from(self.number() & 3)];
            let attributes = Attributes { mode, nlink: 9, size_bytes: self.large(), ..Attributes::default() };
            let (name, file) = (self.place().name, self.file());
            ImportedEntry { name, file, attributes, born: Timestamp::default(), target: vec![] }
        });
        LeaderEntry::Import { directory, entries: entries.collect(), is_last: how & 4 == 0 }
    }

    fn set_extended(&mut self) -> Operation {
        let (file, how) = (self.file(), self.number());
        let rule = [ExtendedRule::Any, ExtendedRule::New, ExtendedRule::Known, ExtendedRule::Any][usize::from(how & 3)];
        let value = (how & 4 == 0).then(|| vec![0; usize::from(how >> 3) << 11]);
        Operation::SetExtended { file, name: self.extended_name(), value, rule }
    }

    fn extended(&mut self) -> ExtendedAttributes {
        let mut found = ExtendedAttributes::default();
        for _ in 0..self.number() & 3 {
            let value = vec![1; self.number().into()];
            let name = self.extended_name();
            found = found.with(&name, Some(&value), ExtendedRule::Any).unwrap_or(found);
        }
        found
    }

    fn extended_name(&mut self) -> Vec<u8> {
        match self.number() & 7 {
            0 => b"trusted.a".to_vec(),
            letter => vec![b'u', b's', b'e', b'r', b'.', b'a' + letter],
        }
    }

    fn drained(&mut self) -> LeaderEntry {
        let (file, how) = (self.file(), self.number());
        let extents = (0..how & 3).map(|_| self.extent(NodeRank(u32::from(how >> 2 & 3)))).collect();
        let (version, size_bytes) = (self.large(), self.large());
        let drained = Drained { version, size_bytes, backed: self.backed(), extents, is_kept: how & 16 != 0 };
        LeaderEntry::Drained { file, drained }
    }

    fn moved(&mut self) -> LeaderEntry {
        let (how, node) = (self.number(), NodeRank(u32::from(self.number() & 3)));
        let to = if how & 8 == 0 { NodeRank(u32::from(how >> 4 & 3)) } else { crate::gone_from(node) };
        let copies = (0..how & 7).map(|_| Copy { from: self.position(), to: self.position(), len: 1 }).collect();
        LeaderEntry::Relocated { node, to, copies }
    }

    fn outcome(&mut self) -> StepOutcome {
        match self.number() & 7 {
            0 => StepOutcome::LeftOut,
            1 => StepOutcome::Made(self.backed()),
            2..=4 => {
                let version = self.large();
                StepOutcome::Contents(LandedContents { version, backed: self.backed(), blocks: self.large() })
            }
            _ => StepOutcome::Done,
        }
    }

    fn backed(&mut self) -> BackingId {
        let ino = u64::from(self.number() & 7);
        BackingId {
            generation: Generation { ino, ..Generation::default() },
            born: Timestamp::default(),
            kind: Kind::File,
        }
    }

    fn rule(&mut self) -> RenameRule {
        [RenameRule::Replace, RenameRule::Keep, RenameRule::Exchange][usize::from(self.number() % 3)]
    }

    fn position(&mut self) -> LogPosition {
        LogPosition { segment: u64::from(self.number() & 3), offset: u32::from(self.number() & 3) }
    }

    fn place(&mut self) -> Place {
        let (directory, name) = (self.file(), self.number());
        let name = [b'a' + (name & 3)];
        Place { directory, name: Name::new(&name).expect("a letter is a name") }
    }

    /// One of few, and rarely one with a large number.
    fn file(&mut self) -> FileId {
        let number = self.number();
        let creator = NodeRank(u32::from(number >> 4 & 3));
        match number >> 6 {
            0 => FileId { creator: NodeRank(0), serial: u64::from(number & 7) },
            3 if number & 8 != 0 => FileId { creator: NodeRank(self.large() as u32), serial: self.large() },
            _ => FileId { creator, serial: u64::from(number & 15) },
        }
    }

    /// A small number, or one of `NUMBERS`.
    fn large(&mut self) -> u64 {
        let number = self.number();
        NUMBERS.get(usize::from(u8::MAX - number)).copied().unwrap_or_else(|| u64::from(number))
    }
}
