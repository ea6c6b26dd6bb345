//! For fuzzing and for its corpus: what nodes tell each other about a burst tree, from anybody.

use std::collections::BTreeMap;
use std::fmt::Debug;

use forebay_types::{Errno, NodeRank};
use serde::{Deserialize, Serialize};

use crate::journal::{JournalEntry, LeaderEntry};
use crate::log_record::RECORD_CONTENTS_BYTES_MAX;
use crate::message::{Checked, decode, encode};
use crate::write::{Change, Copy, Operation, WrittenExtent, is_in_file};
use crate::write_message::{
    Answer, CONTENTS_BYTES_MAX, Changed, Followed, Leadership, Question, Replayed, ToCopy, VoteReply, WriteMessage,
};
use crate::{Envelope, Message};

/// Decodes bytes, checks what must hold then, and tells whether they were well formed.
pub type Exercise = fn(&[u8]) -> bool;

/// All messages, by their names.
pub const WRITE_KINDS: [(&str, Exercise); 16] = [
    ("request", request),
    ("change", change),
    ("entry", entry),
    ("changed", comes_back::<Changed>),
    ("told", told),
    ("handed", handed),
    ("followed", comes_back::<Followed>),
    ("verdict", comes_back::<VoteReply>),
    ("owns", comes_back::<Leadership>),
    ("renewed", comes_back::<Result<(), Leadership>>),
    ("copy", to_copy),
    ("copies", comes_back::<Vec<Copy>>),
    ("segments", comes_back::<BTreeMap<u64, u64>>),
    ("done", comes_back::<Result<(), Errno>>),
    ("rescued", comes_back::<Result<bool, Errno>>),
    ("uncommitted", uncommitted),
];

fn decoded<T>(bytes: &[u8]) -> Option<T>
where
    T: Checked + PartialEq + Debug + Serialize + for<'a> Deserialize<'a>,
{
    let message = decode::<T>(bytes).ok()?;
    assert!(message.is_within_limits());
    // Equal messages, not equal bytes: a varint may be written longer than it need be.
    assert_eq!(decode::<T>(&encode(&message)).as_ref(), Ok(&message));
    Some(message)
}

fn comes_back<T>(bytes: &[u8]) -> bool
where
    T: Checked + PartialEq + Debug + Serialize + for<'a> Deserialize<'a>,
{
    decoded::<T>(bytes).is_some()
}

/// Sums that nodes make of the numbers of a message do not overflow.
fn request(bytes: &[u8]) -> bool {
    let Some(Envelope { request, .. }) = decoded::<Envelope>(bytes) else { return false };
    let Message::Write(message) = request.message else { return false };
    assert!(message.body_bytes() <= CONTENTS_BYTES_MAX);
    match &message {
        WriteMessage::Change(change) => assert_change(change),
        WriteMessage::Question { question: Question::Lock { request, .. }, .. } => {
            assert!(request.start <= request.end)
        }
        WriteMessage::Question { question: Question::Contents { range, .. }, .. } => assert!(range.start <= range.end),
        WriteMessage::Question { question: Question::Seek { seek, .. }, .. } => assert!(is_in_file(seek.from, 0)),
        WriteMessage::Stripe(stripe) => stripe.extents.iter().for_each(assert_extent),
        _ => {}
    }
    !message.word().is_empty()
}

fn change(bytes: &[u8]) -> bool {
    decoded::<Change>(bytes).is_some_and(|change| {
        assert_change(&change);
        true
    })
}

fn entry(bytes: &[u8]) -> bool {
    let Some(entry) = decoded::<JournalEntry>(bytes) else { return false };
    match &entry {
        JournalEntry::Request(change) => assert_change(change),
        JournalEntry::Leader(LeaderEntry::Drained { drained, .. }) => drained.extents.iter().for_each(assert_extent),
        JournalEntry::Leader(_) => {}
    }
    true
}

fn told(bytes: &[u8]) -> bool {
    let Some(told) = decoded::<Result<Answer, Errno>>(bytes) else { return false };
    if let Ok(Answer::Contents(contents)) = told {
        for piece in contents.pieces {
            let middle = piece.offset + piece.len / 2;
            for part in [piece.part(0..u64::MAX), piece.part(middle..middle + 1), piece.part(0..middle)] {
                assert!(part.is_none_or(|part| part.is_within_limits() && part.len <= piece.len));
            }
        }
    }
    true
}

fn handed(bytes: &[u8]) -> bool {
    decoded::<Replayed>(bytes).is_some_and(|Replayed(changes)| {
        changes.iter().for_each(|(_, change)| assert_change(change));
        true
    })
}

fn to_copy(bytes: &[u8]) -> bool {
    let Some(copy) = decoded::<ToCopy>(bytes) else { return false };
    assert!(copy.records.iter().map(|(_, len)| u64::from(*len)).sum::<u64>() <= CONTENTS_BYTES_MAX);
    true
}

fn uncommitted(bytes: &[u8]) -> bool {
    let Some(ranges) = decoded::<Vec<(u64, u64)>>(bytes) else { return false };
    assert!(ranges.iter().all(|(offset, len)| i64::try_from(offset + len).is_ok()));
    true
}

fn assert_change(change: &Change) {
    let node = change.id.node;
    assert_eq!(change.check_sender(NodeRank(node.0 ^ 1)), Err(Errno::EPERM), "a node speaks for itself alone");
    match &change.operation {
        Operation::Commit { extents, .. } => extents.iter().for_each(assert_extent),
        Operation::Lock { request, .. } => assert!(request.start <= request.end),
        _ => {}
    }
}

fn assert_extent(extent: &WrittenExtent) {
    assert!(i64::try_from(extent.offset + extent.len).is_ok());
    assert!(u64::from(extent.skip) + extent.len <= RECORD_CONTENTS_BYTES_MAX.into());
}
