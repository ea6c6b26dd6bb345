//! A peer's offsets and lengths are those that a file or a record can have.

use forebay_types::{Errno, FileId, LogPosition, NodeRank, OperationId, Timestamp};
use forebay_wire::log_record::RECORD_CONTENTS_BYTES_MAX;
use forebay_wire::message::{decode, encode};
use forebay_wire::write::{BURST_ROOT, Caller, Change, CommitAt, Operation, Piece, Source, StepOutcome, WrittenExtent};
use forebay_wire::write_message::{Contents, Question, Told, WriteMessage};
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

#[test]
fn an_owner_tells_of_pieces_that_there_can_be() {
    let told = |pieces: Vec<Piece>| {
        let state = forebay_wire::write::FileState { file: BURST_ROOT, attributes: Default::default(), version: 0 };
        let told: Result<Told, Errno> = Ok(Told::Contents(Contents { state, pieces, backing: None }));
        decode::<Result<Told, Errno>>(&encode(&told)).is_ok()
    };
    let piece = |offset, len, source| Piece { offset, len, source };
    assert!(told(vec![piece(0, 9, Source::Hole), piece(9, 4, Source::Log(extent(9, 4, 3)))]));
    assert!(!told(vec![piece(u64::MAX, 9, Source::Hole)]));
    assert!(!told(vec![piece(9, 4, Source::Log(extent(9, 5, 3)))]), "it says two things");
    assert!(!told(vec![piece(9, 4, Source::Log(extent(9, 4, u32::MAX)))]));
}

/// `Landed`, `Moved`, `Lost`, `Adopt` and their like change what the tree believes of the backing file system and of other nodes.
#[test]
fn what_the_owner_decides_on_comes_from_no_other_node() {
    let from = |node, operation| change(1, operation).may_come_from(NodeRank(node));
    assert!(from(1, Operation::Open { file: FILE }) && !from(2, Operation::Open { file: FILE }));
    assert!(from(1, Operation::CloseAll { node: NodeRank(1) }) && !from(1, Operation::CloseAll { node: NodeRank(0) }));
    let owners = [
        Operation::Landed { step: 0, outcome: StepOutcome::Done },
        Operation::Moved { node: NodeRank(0), to: NodeRank(1), copies: vec![] },
        Operation::Lost { nodes: vec![NodeRank(0)] },
        Operation::Adopt { directory: BURST_ROOT, entries: vec![], is_last: true },
        Operation::Unlist { directory: BURST_ROOT },
        Operation::Publish { file: FILE },
        Operation::Drafting { file: FILE, directory: BURST_ROOT },
        Operation::Changing { file: FILE },
    ];
    for operation in owners {
        assert!(operation.is_owners() && !from(1, operation.clone()), "{operation:?}");
    }
}
