//! Open files, and what is pending of them.

use forebay_types::{FileId, LogPosition, NodeRank, OperationId, Timestamp};
use forebay_wire::write::{Caller, Change, CommitAt, Operation, WrittenExtent};

use super::files::Files;

const FILE: FileId = FileId { creator: NodeRank(1), serial: 7 };

/// A thread of the daemon has the file meanwhile, so that it is not forgotten when it is closed.
#[test]
fn a_file_that_is_opened_anew_is_asked_about_its_partner_anew() {
    let files = Files::default();
    files.open(FILE, 0o644, false);
    let held = files.entry(FILE);
    assert!(!held.note_copied(false));
    files.open(FILE, 0o644, false);
    assert!(!held.note_copied(true), "it is open");
    files.close(FILE, true);
    files.close(FILE, true);
    files.forget_if_over(FILE);
    files.open(FILE, 0o644, false);
    assert!(held.note_copied(true));
}

fn extent(offset: u32) -> WrittenExtent {
    let position = LogPosition { segment: 1, offset };
    WrittenExtent { offset: u64::from(offset), len: 8, node: NodeRank(1), position, skip: 0 }
}

#[test]
fn writes_that_no_commit_has_named_are_dropped_alone() {
    let (files, now) = (Files::default(), Timestamp::default());
    let open = files.entry(FILE);
    for offset in [0, 8, 16] {
        let _ = open.note(extent(offset), now, None);
    }
    let id = OperationId { node: NodeRank(1), session: 1, serial: 1 };
    let operation = Operation::Commit { file: FILE, extents: vec![extent(0)], at: CommitAt::Start };
    open.note_unanswered(Change { id, oldest: 1, caller: Caller::default(), now, operation });
    assert!(files.has_pending(extent(16).position));
    assert_eq!([0, 8, 16].map(|offset| files.has_uncommitted(extent(offset).position)), [false, true, true]);
    // The first one is named.
    let records = [0, 16].map(|offset| extent(offset).position).into();
    assert_eq!(files.drop_records(FILE, &records), 1);
    assert_eq!([0, 8, 16].map(|offset| files.has_pending(extent(offset).position)), [true, true, false]);
    assert_eq!(files.drop_uncommitted(), 1);
    assert_eq!([0, 8, 16].map(|offset| files.has_pending(extent(offset).position)), [true, false, false]);
    assert_eq!(files.with_pending_bytes(|| ()).1.into_values().sum::<u64>(), 8);
}
