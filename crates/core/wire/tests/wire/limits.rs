//! A peer's offsets and lengths are those that a file or a record can have.

use forebay_types::{Attributes, Errno, FileId, LogPosition, Name, NodeRank, OperationId, Timestamp};
use forebay_wire::log_record::RECORD_CONTENTS_BYTES_MAX;
use forebay_wire::message::{decode, encode};
use forebay_wire::write::{
    BURST_ROOT, Caller, Change, CommitAt, Done, FileState, LockRequest, Operation, Piece, Place, Source, WrittenExtent,
};
use forebay_wire::write_message::{
    Answer, Changed, Contents, EPOCHS_END, Followed, Leadership, Question, Renewal, ReplicatedIndex, VoteReply,
    VoteRequest, WriteMessage,
};
use forebay_wire::{Envelope, Request};

const FILE: FileId = FileId { creator: NodeRank(1), serial: 5 };

fn extent(offset: u64, len: u64, skip: u32) -> WrittenExtent {
    WrittenExtent { offset, len, node: NodeRank(1), position: LogPosition { segment: 0, offset: 0 }, skip }
}

fn change(node: u32, operation: Operation) -> Change {
    let id = OperationId { node: NodeRank(node), session: 1, serial: 1 };
    Change { id, oldest: 1, caller: Caller::default(), now: Timestamp::default(), operation }
}

/// Whether a node that gets it looks at it.
fn is_heard(message: WriteMessage) -> bool {
    decode::<Envelope>(&encode(&Envelope { remaining_ms: 1, request: Request::from(message) })).is_ok()
}

fn commit(extents: Vec<WrittenExtent>) -> Change {
    change(1, Operation::Commit { file: FILE, extents, at: CommitAt::Start })
}

/// Landing was busy for ever with an extent of 2^62 bytes, and additions overflowed.
#[test]
fn extents_that_no_record_or_file_can_have_are_not_taken() {
    let (max, record) = (i64::MAX as u64, u64::from(RECORD_CONTENTS_BYTES_MAX));
    let is_taken = |extent| {
        let change = commit(vec![extent]);
        decode::<Change>(&encode(&change)).is_ok() && is_heard(WriteMessage::Change(change))
    };
    for good in
        [extent(0, 1, 0), extent(max - 1, 1, 7), extent(5, record, 0), extent(5, 1, RECORD_CONTENTS_BYTES_MAX - 1)]
    {
        assert!(is_taken(good), "{good:?}");
    }
    for bad in [
        extent(0, 1 << 62, 0),
        extent(max, 1, 0),
        extent(u64::MAX, 1, 0),
        extent(1, u64::MAX, 0),
        extent(0, record + 1, 0),
        extent(0, record, 1),
        extent(0, 1, RECORD_CONTENTS_BYTES_MAX),
        extent(0, 1, u32::MAX),
    ] {
        assert!(!is_taken(bad), "{bad:?}");
    }
}

#[test]
fn ranges_that_no_file_can_have_are_not_taken() {
    let max = i64::MAX as u64;
    let asks = |range| {
        let question = Question::Contents { file: FILE, range };
        let message = WriteMessage::Question { caller: Caller::default(), question, is_leased: false };
        is_heard(message)
    };
    assert!(asks(0..max) && asks(5..5));
    assert!(!asks(0..max + 1) && !asks(u64::MAX - 1..u64::MAX));
    #[allow(clippy::reversed_empty_ranges, reason = "a peer may send one")]
    let is_reversed_taken = asks(6..5);
    assert!(!is_reversed_taken);
    let unlinked = |offset, len| {
        let message = WriteMessage::Unlinked { file: FILE, offset, len };
        is_heard(message)
    };
    assert!(unlinked(max - 1, 1) && !unlinked(max, 1) && !unlinked(u64::MAX, 2));
    assert!(decode::<Vec<(u64, u64)>>(&encode(&vec![(0_u64, max)])).is_ok());
    assert!(decode::<Vec<(u64, u64)>>(&encode(&vec![(1_u64, max)])).is_err());
}

/// An inode number that was made of one overflowed.
#[test]
fn identities_that_no_inode_number_can_have_are_not_taken() {
    let create = |creator, serial| Operation::Create {
        place: Place { directory: BURST_ROOT, name: Name::new(b"a").unwrap() },
        file: FileId { creator: NodeRank(creator), serial },
        mode: 0o100_644,
        rdev: 0,
        target: vec![],
        is_opened: false,
        is_exclusive: false,
    };
    let is_taken = |creator, serial| decode::<Change>(&encode(&change(creator, create(creator, serial)))).is_ok();
    assert!(is_taken(1, 1) && is_taken((1 << 20) - 1, (1 << 40) - 1));
    assert!(!is_taken(1 << 20, 1) && !is_taken(1, 1 << 40) && !is_taken((1 << 24) - 1, (1 << 40) - 1));
    let is_told = |creator, serial, size_bytes| {
        let file = FileId { creator: NodeRank(creator), serial };
        let state = FileState { file, attributes: Attributes { size_bytes, ..Attributes::default() }, version: 1 };
        let changed = Changed { outcome: Ok(Done::File(state)), have: None, safe: None };
        let told: Result<Answer, Errno> = Ok(Answer::State(state));
        let told = decode::<Result<Answer, Errno>>(&encode(&told)).is_ok();
        assert_eq!(told, decode::<Changed>(&encode(&changed)).is_ok());
        told
    };
    assert!(is_told(1, 1, 0) && is_told(0, 0, i64::MAX as u64));
    assert!(!is_told(1 << 20, 1, 0) && !is_told(1, 1 << 40, 0) && !is_told(1, 1, 1 << 63));
}

/// The rest of a lock without such a range would be in two parts that overlap.
#[test]
fn locks_of_empty_ranges_are_not_taken() {
    let request = |start, end| LockRequest { owner: 1, start, end, kind: None, pid: 1, is_flock: false, handle: 0 };
    let is_taken = |start, end| {
        let request = request(start, end);
        let question = Question::Lock { file: FILE, request };
        let asked = WriteMessage::Question { caller: Caller::default(), question, is_leased: false };
        let taken =
            [is_heard(asked), is_heard(WriteMessage::Change(change(1, Operation::Lock { file: FILE, request })))];
        assert_eq!(taken[0], taken[1]);
        taken[0]
    };
    assert!(is_taken(0, u64::MAX) && is_taken(7, 7) && !is_taken(8, 7) && !is_taken(u64::MAX, 0));
}

#[test]
fn a_leader_tells_of_pieces_that_there_can_be() {
    let told = |pieces: Vec<Piece>| {
        let state = forebay_wire::write::FileState { file: BURST_ROOT, attributes: Default::default(), version: 0 };
        let told: Result<Answer, Errno> = Ok(Answer::Contents(Contents { state, pieces, backing: None }));
        decode::<Result<Answer, Errno>>(&encode(&told)).is_ok()
    };
    let piece = |offset, len, source| Piece { offset, len, source };
    assert!(told(vec![piece(0, 9, Source::Hole), piece(9, 4, Source::Log(extent(9, 4, 3)))]));
    assert!(!told(vec![piece(u64::MAX, 9, Source::Hole)]));
    assert!(!told(vec![piece(9, 4, Source::Log(extent(9, 5, 3)))]), "it says two things");
    assert!(!told(vec![piece(9, 4, Source::Log(extent(9, 4, u32::MAX)))]));
}

/// Names, identities and records are those of the node that sends them; what only the leader decides on is of another type (`LeaderEntry`).
#[test]
fn a_node_speaks_for_itself() {
    let check = |sender, operation| change(1, operation).check_sender(NodeRank(sender));
    let create = |creator| Operation::Create {
        place: Place { directory: BURST_ROOT, name: Name::new(b"a").unwrap() },
        file: FileId { creator: NodeRank(creator), serial: 5 },
        mode: 0o100_644,
        rdev: 0,
        target: vec![],
        is_opened: false,
        is_exclusive: false,
    };
    let unnamed = |creator| Operation::CreateUnnamed {
        directory: BURST_ROOT,
        file: FileId { creator: NodeRank(creator), serial: 5 },
        mode: 0o600,
        may_be_named: true,
    };
    let commit = |node| Operation::Commit {
        file: FILE,
        extents: vec![extent(0, 1, 0), WrittenExtent { node: NodeRank(node), ..extent(1, 1, 0) }],
        at: CommitAt::Start,
    };
    let own = [Operation::Open { file: FILE }, Operation::CloseAll, create(1), unnamed(1), commit(1)];
    for operation in own {
        assert_eq!(check(1, operation.clone()), Ok(()), "{operation:?}");
        assert_eq!(check(2, operation.clone()), Err(Errno::EPERM), "by another's name: {operation:?}");
    }
    for of_others in [create(0), unnamed(2), commit(2)] {
        assert_eq!(check(1, of_others.clone()), Err(Errno::EPERM), "{of_others:?}");
    }
}

/// A node that took such an epoch for the newest could lead the tree never again, and the number after it overflowed.
#[test]
fn leaders_after_which_there_can_be_none_are_not_taken() {
    let leadership = |term| Leadership { term, leader: NodeRank(2) };
    let is_taken = |term| {
        let renewal = Renewal { leadership: leadership(term), incarnation: 1, number: 1, is_followed: true };
        let after = ReplicatedIndex { incarnation: 1, count: 1 };
        let heard = [
            is_heard(WriteMessage::Renew(renewal)),
            is_heard(WriteMessage::Vote(VoteRequest { leadership: leadership(term), incarnation: 1, is_trial: true })),
            is_heard(WriteMessage::Replay { leadership: leadership(term), after }),
            decode::<Leadership>(&encode(&leadership(term))).is_ok(),
            decode::<Result<(), Leadership>>(&encode(&Err::<(), _>(leadership(term)))).is_ok(),
            decode::<VoteReply>(&encode(&VoteReply::Newer(leadership(term)))).is_ok(),
        ];
        assert!(heard.iter().all(|is_heard| *is_heard == heard[0]), "{heard:?}");
        heard[0]
    };
    assert!(is_taken(0) && is_taken(EPOCHS_END - 1) && !is_taken(EPOCHS_END) && !is_taken(u64::MAX));
    assert_eq!(leadership(7).next(NodeRank(3)), Some(Leadership { term: 8, leader: NodeRank(3) }));
    assert_eq!((leadership(EPOCHS_END - 1).next(NodeRank(3)), leadership(u64::MAX).next(NodeRank(3))), (None, None));
    let follows = |count| {
        let have = ReplicatedIndex { incarnation: 1, count };
        decode::<Followed>(&encode(&Followed::Changes { have, changes: vec![] })).is_ok()
    };
    assert!(follows(5) && !follows(u64::MAX), "the count after it overflowed");
}
