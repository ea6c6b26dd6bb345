//! The corpus of the fuzz target `wire_write`, decoded as that does: what fuzzing once found is checked by every test run.
#![allow(clippy::disallowed_methods, reason = "the crate touches no files; its corpus is some")]

use std::collections::BTreeMap;
use std::fs;

use forebay_types::{
    Attributes, BackingId, Errno, ExtendedRule, FileId, FileSystem, Generation, Kind, LogPosition, Name, NodeRank,
    OperationId, Rights, Timestamp, ViewPath,
};
use forebay_wire::exercise::WRITE_KINDS;
use forebay_wire::journal::{Drained, ImportedEntry, JournalEntry, LandedContents, LeaderEntry, StepOutcome};
use forebay_wire::message::encode;
use forebay_wire::write::{
    AttributeChanges, BURST_ROOT, Caller, Change, CommitAt, Copy, Done, FileState, HeldLock, LockKind, LockRequest,
    Operation, Piece, Place, RenameRule, Source, TimeChange, WrittenExtent,
};
use forebay_wire::write_message::{
    Answer, Changed, Contents, Entries, Followed, Leadership, LogPart, Question, Renewal, Replayed, ReplicatedIndex,
    Seek, Stripe, ToCopy, VoteReply, VoteRequest, WriteMessage,
};
use forebay_wire::{Envelope, Request};

const CORPUS: &str = "../../../fuzz/corpus/wire_write";
const FILE: FileId = FileId { creator: NodeRank(1), serial: 5 };
const AT: LogPosition = LogPosition { segment: 3, offset: 80 };
const EXTENT: WrittenExtent = WrittenExtent { offset: 4096, len: 100, node: NodeRank(1), position: AT, skip: 8 };
const OWNS: Leadership = Leadership { term: 2, leader: NodeRank(0) };
const HAVE: ReplicatedIndex = ReplicatedIndex { incarnation: 77, count: 9 };
const LOCK: LockRequest = LockRequest {
    owner: 4,
    start: 0,
    end: u64::MAX,
    kind: Some(LockKind::Shared),
    pid: 12,
    is_flock: false,
    handle: 3,
};

#[test]
fn the_files_are_what_their_names_say() {
    let mut found = BTreeMap::new();
    for file in fs::read_dir(CORPUS).unwrap() {
        let path = file.unwrap().path();
        let (name, bytes) = (path.file_name().unwrap().to_str().unwrap(), fs::read(&path).unwrap());
        let is_kind: Vec<(&str, bool)> = WRITE_KINDS.map(|(kind, exercise)| (kind, exercise(&bytes))).to_vec();
        let (kind, _) = name.split_once('-').unwrap_or((name, ""));
        if let Some((_, is_one)) = is_kind.iter().find(|(of, _)| *of == kind) {
            assert_eq!(*is_one, !name.contains("lying"), "{name}");
            *found.entry(kind.to_owned()).or_insert(0) += usize::from(*is_one);
        }
    }
    assert!(WRITE_KINDS.iter().all(|(kind, _)| found.contains_key(*kind)), "{found:?}");
}

/// Cut short or with a bit changed at any place, nothing panics.
#[test]
fn seeds_cut_and_changed() {
    for (_, seed) in seeds() {
        for at in 0..seed.len() {
            let mut changed = seed.clone();
            changed[at] ^= 1 << (at % 8);
            for (_, exercise) in WRITE_KINDS {
                let _ = (exercise(&seed[..at]), exercise(&changed));
            }
        }
    }
}

#[test]
#[ignore = "writes the corpus anew, which is due when messages change"]
fn the_corpus_is_written() {
    fs::create_dir_all(CORPUS).unwrap();
    for (name, bytes) in seeds() {
        fs::write(format!("{CORPUS}/{name}"), bytes).unwrap();
    }
}

/// One of each kind, and what must be refused.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = vec![];
    for message in messages() {
        let name = format!("request-{}-{}", message.word(), seeds.len());
        seeds.push((name, encode(&Envelope { remaining_ms: 1000, request: Request::from(message) })));
    }
    for (index, operation) in operations().into_iter().enumerate() {
        seeds.push((format!("change-{index:02}"), encode(&change(operation))));
    }
    seeds.push(("entry-request".to_owned(), encode(&JournalEntry::from(change(Operation::Open { file: FILE })))));
    for (index, entry) in leader_entries().into_iter().enumerate() {
        seeds.push((format!("entry-{index:02}"), encode(&JournalEntry::from(entry))));
    }
    for (index, told) in answers().into_iter().enumerate() {
        seeds.push((format!("told-{index:02}"), encode(&told)));
    }
    let reversed = Operation::Lock { file: FILE, request: LockRequest { start: 9, end: 8, ..LOCK } };
    let far = WrittenExtent { offset: u64::MAX, ..EXTENT };
    let commit = Operation::Commit { file: FILE, extents: vec![far], at: CommitAt::Start };
    let more = [
        ("change-lying-lock", encode(&change(reversed))),
        ("change-lying-extent", encode(&change(commit))),
        ("changed", encode(&Changed { outcome: Ok(Done::File(state())), have: Some(HAVE), safe: None })),
        ("changed-not", encode(&Changed { outcome: Err(Errno::EEXIST), have: None, safe: Some(HAVE) })),
        ("handed", encode(&Replayed(vec![(HAVE, change(Operation::Open { file: FILE }))]))),
        ("followed-changes", encode(&Followed::Changes { have: HAVE, changes: vec![vec![1, 2], vec![]] })),
        ("followed-tree", encode(&Followed::Parts { have: HAVE, first: 0, next: Some(9), tree: vec![7; 20] })),
        ("verdict-newer", encode(&VoteReply::Newer(OWNS))),
        ("verdict-early", encode(&VoteReply::TooEarly)),
        ("owns", encode(&OWNS)),
        ("renewed", encode(&Ok::<(), Leadership>(()))),
        ("renewed-not", encode(&Err::<(), Leadership>(OWNS))),
        ("copy", encode(&ToCopy { have: HAVE, records: vec![(AT, 4096)] })),
        ("copy-lying", encode(&ToCopy { have: HAVE, records: vec![(AT, u32::MAX); 3] })),
        ("copies", encode(&vec![Copy { from: AT, to: AT, len: 5 }])),
        ("segments", encode(&BTreeMap::from([(3_u64, 4096_u64), (4, 1)]))),
        ("done", encode(&Ok::<(), Errno>(()))),
        ("done-not", encode(&Err::<(), Errno>(Errno::EIO))),
        ("rescued", encode(&Ok::<bool, Errno>(true))),
        ("uncommitted", encode(&vec![(0_u64, 10_u64), (4096, 1)])),
        ("uncommitted-lying", encode(&vec![(u64::MAX, 10_u64)])),
    ];
    seeds.extend(more.map(|(name, bytes)| (name.to_owned(), bytes)));
    seeds
}

fn change(operation: Operation) -> Change {
    let id = OperationId { node: NodeRank(1), session: 7, serial: 300 };
    let caller = Caller { uid: 1000, gid: 100, groups: vec![10, 20] };
    Change { id, oldest: 290, caller, now: Timestamp { seconds: 1_700_000_000, nanos: 5 }, operation }
}

fn place(name: &str) -> Place {
    Place { directory: BURST_ROOT, name: Name::new(name.as_bytes()).unwrap() }
}

fn backed() -> BackingId {
    BackingId {
        generation: Generation { ino: 12, size_bytes: 100, ..Generation::default() },
        born: Timestamp::default(),
        kind: Kind::File,
    }
}

fn state() -> FileState {
    FileState { file: FILE, attributes: Attributes { mode: 0o100_644, nlink: 1, ..Attributes::default() }, version: 3 }
}

fn messages() -> Vec<WriteMessage> {
    let question = |question| WriteMessage::Question { caller: Caller::default(), question, is_leased: true };
    let path = || ViewPath::new(b"run/out").unwrap();
    let stripe = Stripe { leadership: OWNS, path: path(), draft: backed(), extents: vec![EXTENT] };
    let renewal = Renewal { leadership: OWNS, incarnation: 77, number: 3, is_followed: true };
    vec![
        WriteMessage::Change(change(Operation::Unlink { place: place("a") })),
        question(Question::Lookup { place: place("a") }),
        question(Question::State { file: FILE }),
        question(Question::Access { file: FILE, wanted: 4 }),
        question(Question::Target { file: FILE }),
        question(Question::List { directory: BURST_ROOT }),
        question(Question::Contents { file: FILE, range: 0..4096 }),
        question(Question::Lock { file: FILE, request: LOCK }),
        question(Question::FileSystem),
        question(Question::Needed { of: Some(NodeRank(2)), is_filling: true }),
        question(Question::NextSerial),
        question(Question::LastCommitted),
        question(Question::Tree(Some(9))),
        question(Question::Durable),
        question(Question::Copied { file: FILE }),
        WriteMessage::Contents { parts: vec![LogPart { position: AT, skip: 4, len: 100 }] },
        WriteMessage::Unlinked { file: FILE, offset: 10, len: 4096 },
        WriteMessage::CommitAll,
        WriteMessage::Invalidate { files: vec![FILE, BURST_ROOT] },
        WriteMessage::Follow { have: Some(HAVE), parts: Some((HAVE, 4)) },
        WriteMessage::Copy { have: Some(HAVE) },
        WriteMessage::Pending,
        WriteMessage::Copies { of: NodeRank(2), after: Some(AT) },
        WriteMessage::Failover { node: NodeRank(2) },
        WriteMessage::Uncommitted { file: FILE },
        WriteMessage::Reclaim,
        WriteMessage::Drain { wait_ms: 500 },
        WriteMessage::Landed { path: "run/out".to_owned() },
        WriteMessage::Renew(renewal),
        WriteMessage::Vote(VoteRequest { leadership: OWNS, incarnation: 77, is_trial: false }),
        WriteMessage::WhoLeads,
        WriteMessage::Replay { leadership: OWNS, after: HAVE },
        WriteMessage::Stripe(stripe),
        WriteMessage::EndChanges,
        question(Question::Seek { file: FILE, seek: Seek { from: 3, is_hole: true, backing_until: 4096 } }),
        question(Question::Extended { file: FILE, name: Some(b"user.a".to_vec()) }),
        WriteMessage::Change(change(Operation::SetExtended {
            file: FILE,
            name: b"user.a".to_vec(),
            value: Some(b"of it".to_vec()),
            rule: ExtendedRule::New,
        })),
        question(Question::CarriedOut { id: OperationId { node: NodeRank(2), session: 5, serial: 7 } }),
    ]
}

fn operations() -> Vec<Operation> {
    let attributes =
        AttributeChanges { size_bytes: Some(10), mtime: Some(TimeChange::Now), ..AttributeChanges::default() };
    vec![
        Operation::Create {
            place: place("link"),
            file: FILE,
            mode: 0o120_777,
            rdev: 0,
            target: b"target".to_vec(),
            is_opened: false,
            is_exclusive: true,
        },
        Operation::Link { file: FILE, place: place("b") },
        Operation::Unlink { place: place("b") },
        Operation::RemoveDirectory { place: place("d") },
        Operation::Rename { from: place("a"), to: place("b"), rule: RenameRule::Exchange },
        Operation::SetAttributes { file: FILE, changes: attributes },
        Operation::Open { file: FILE },
        Operation::Close { file: FILE, handle: 3 },
        Operation::CloseAll,
        Operation::Commit { file: FILE, extents: vec![EXTENT, EXTENT], at: CommitAt::End },
        Operation::Lock { file: FILE, request: LOCK },
    ]
}

fn leader_entries() -> Vec<LeaderEntry> {
    let imported = ImportedEntry {
        name: place("old").name,
        file: FILE,
        attributes: state().attributes,
        born: Timestamp::default(),
        target: vec![],
    };
    let drained = Drained { version: 3, size_bytes: 9000, backed: backed(), extents: vec![EXTENT], is_kept: true };
    let contents = StepOutcome::Contents(LandedContents { version: 3, backed: backed(), blocks: 8 });
    vec![
        LeaderEntry::Import { directory: BURST_ROOT, entries: vec![imported], is_last: true },
        LeaderEntry::Publish { file: FILE },
        LeaderEntry::Landed { step: 4, outcome: contents },
        LeaderEntry::Drafting { file: FILE, directory: BURST_ROOT },
        LeaderEntry::Publishing { file: FILE, backed: backed() },
        LeaderEntry::SetAside { place: place("a"), name: place("a.1").name },
        LeaderEntry::NotThere { place: place("a") },
        LeaderEntry::Drained { file: FILE, drained },
        LeaderEntry::Lost { nodes: vec![NodeRank(2)] },
        LeaderEntry::Relocated { node: NodeRank(1), to: NodeRank(2), copies: vec![Copy { from: AT, to: AT, len: 5 }] },
        LeaderEntry::Changing { file: FILE },
        LeaderEntry::CopiedOnConflict {
            file: FILE,
            draft: Some(backed()),
            bytes: 5,
            rights: Rights { mode: 0o640, uid: 3, gid: 4 },
        },
        LeaderEntry::Verified {
            file: FILE,
            version: 3,
            draft: backed(),
            stripe_bytes: 1 << 20,
            stripes: vec![0, 1, 2],
        },
        LeaderEntry::GiveUp { node: NodeRank(2) },
        LeaderEntry::LetGo,
        LeaderEntry::Unlist { directory: BURST_ROOT },
    ]
}

fn answers() -> Vec<Result<Answer, Errno>> {
    let held =
        HeldLock { node: NodeRank(1), owner: 4, start: 0, end: 9, kind: LockKind::Exclusive, pid: 12, handle: 0 };
    let piece = |offset, len, source| Piece { offset, len, source };
    let pieces =
        vec![piece(0, 4096, Source::Backing), piece(4096, 100, Source::Log(EXTENT)), piece(4196, 4, Source::Hole)];
    let backing = Some((ViewPath::new(b"run/out").unwrap(), backed()));
    let entries = Entries { own: state(), parent: BURST_ROOT, entries: vec![(place("a").name, state())] };
    vec![
        Ok(Answer::Nothing),
        Ok(Answer::State(state())),
        Ok(Answer::Target(b"target".to_vec())),
        Ok(Answer::Entries(entries)),
        Ok(Answer::Contents(Contents { state: state(), pieces, backing })),
        Ok(Answer::Lock(Some(held))),
        Ok(Answer::FileSystem(FileSystem::default())),
        Ok(Answer::Needed(BTreeMap::from([(3, 4096)]))),
        Ok(Answer::NextSerial(8)),
        Ok(Answer::LastCommitted(Some(AT))),
        Ok(Answer::Tree(9)),
        Ok(Answer::Copied(true)),
        Err(Errno::ENOENT),
        Ok(Answer::CarriedOut(true)),
    ]
}
