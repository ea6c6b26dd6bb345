//! What is sent ahead reads as before, whatever happens while it is sent.

use std::collections::BTreeSet;

use forebay_types::{FileId, LogPosition, NodeRank};
use forebay_wire::write::{AttributeChanges, CommitAt, Drained, Operation, Source, StepOutcome, WrittenExtent};
use forebay_write::{Drain, Tree, Turn};
use proptest::prelude::*;

use crate::support::{Asked, ROOT, backed, id, in_root};

const FILE: FileId = id(1);

/// What happens to a file.
#[derive(Clone, Debug)]
enum Event {
    Write {
        offset: u64,
        len: u64,
    },
    Truncate {
        size_bytes: u64,
    },
    /// A part is written to the draft.
    Send {
        bytes_max: u64,
    },
    /// And noted.
    Note,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..60_u64, 1..20_u64).prop_map(|(offset, len)| Event::Write { offset, len }),
        1 => (0..80_u64).prop_map(|size_bytes| Event::Truncate { size_bytes }),
        2 => (1..40_u64).prop_map(|bytes_max| Event::Send { bytes_max }),
        2 => Just(Event::Note),
    ]
}

/// The byte of a record at a place: each record has its own.
fn byte(position: LogPosition, at: u64) -> u8 {
    (position.segment * 7 + at) as u8 | 1
}

/// Writes to the draft as the daemon does.
fn send(drain: &Drain, tree: &Tree, draft: &mut Vec<u8>) {
    let old_len = draft.len();
    draft.resize(drain.size_bytes as usize, 0);
    for piece in tree.pieces(FILE, 0..drain.size_bytes).unwrap() {
        let range = piece.offset as usize..(piece.offset + piece.len) as usize;
        match piece.source {
            Source::Hole if range.start < old_len => draft[range].fill(0),
            Source::Log(extent) if drain.extents.contains(&extent) => {
                for (index, into) in draft[range].iter_mut().enumerate() {
                    *into = byte(extent.position, u64::from(extent.skip) + index as u64);
                }
            }
            _ => {}
        }
    }
}

fn read(tree: &Tree, draft: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    for piece in tree.pieces(FILE, 0..u64::MAX).unwrap() {
        bytes.extend((0..piece.len).map(|index| match piece.source {
            Source::Log(extent) => byte(extent.position, u64::from(extent.skip) + index),
            Source::Backing => draft[(piece.offset + index) as usize],
            Source::Hole => 0,
        }));
    }
    bytes
}

proptest! {
    #[test]
    fn a_file_reads_the_same_wherever_it_is(events in prop::collection::vec(event(), 1..80)) {
        let (mut asked, mut draft, mut expected) = (Asked::new(), vec![], vec![]);
        asked.make(&ROOT, in_root("file"), 1, 0o100_644).unwrap();
        let Turn { step, .. } = asked.tree.next_landing().unwrap();
        asked.ask(&ROOT, Operation::Open { file: FILE }).unwrap();
        asked.ask(&ROOT, Operation::Landed { step, outcome: StepOutcome::LeftOut }).unwrap();
        let (mut sent, mut written) = (None::<Drain>, 0);
        for (number, event) in events.into_iter().enumerate() {
            match event {
                Event::Write { offset, len } => {
                    let position = LogPosition { segment: number as u64, offset: 0 };
                    let extents = vec![WrittenExtent { offset, len, node: NodeRank(0), position, skip: 0 }];
                    written += len;
                    asked.ask(&ROOT, Operation::Commit { file: FILE, extents, at: CommitAt::Start }).unwrap();
                    expected.resize(expected.len().max((offset + len) as usize), 0);
                    (0..len).for_each(|index| expected[(offset + index) as usize] = byte(position, index));
                }
                Event::Truncate { size_bytes } => {
                    let changes = AttributeChanges { size_bytes: Some(size_bytes), ..AttributeChanges::default() };
                    asked.ask(&ROOT, Operation::SetAttributes { file: FILE, changes }).unwrap();
                    expected.resize(size_bytes as usize, 0);
                }
                Event::Send { bytes_max } if sent.is_none() => {
                    sent = asked.tree.next_drain(&BTreeSet::from([NodeRank(0)]), bytes_max);
                    if let Some(drain) = &sent {
                        send(drain, &asked.tree, &mut draft);
                    }
                }
                Event::Send { .. } => {}
                Event::Note => {
                    if let Some(Drain { file, version, size_bytes, extents, .. }) = sent.take() {
                        let drained = Drained { version, size_bytes, backed: backed(0), extents };
                        asked.ask(&ROOT, Operation::Drained { file, drained }).unwrap();
                    }
                }
            }
            prop_assert_eq!(&read(&asked.tree, &draft), &expected);
        }
        let freed: u64 = asked.released.extents.iter().map(|extent| extent.len).sum();
        let kept: u64 = asked.tree.written().map(|extent| extent.len).sum();
        prop_assert_eq!(freed + kept, written, "each byte is freed once");
    }
}
