//! Contents that are sent ahead read as before, whatever happens while they are sent.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{FileId, LogPosition, NodeRank};
use forebay_wire::journal::{Drained, LeaderEntry, StepOutcome};
use forebay_wire::write::{AttributeChanges, CommitAt, Operation, Source, WrittenExtent};
use forebay_write::{Ahead, Drain, Tree, Turn};
use proptest::prelude::*;

use crate::tree::support::{Asked, ROOT, backed, id, in_root};

const FILE: FileId = id(1);

/// An event of a file's life.
#[derive(Clone, Debug)]
enum Event {
    Write {
        offset: u64,
        len: u64,
    },
    Truncate {
        size_bytes: u64,
    },
    /// A part is written to the draft, and leaves the log or not.
    Send {
        bytes_max: u64,
        is_kept: bool,
    },
    /// And noted.
    Note,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..60_u64, 1..20_u64).prop_map(|(offset, len)| Event::Write { offset, len }),
        1 => (0..80_u64).prop_map(|size_bytes| Event::Truncate { size_bytes }),
        2 => (1..40_u64, any::<bool>()).prop_map(|(bytes_max, is_kept)| Event::Send { bytes_max, is_kept }),
        2 => Just(Event::Note),
    ]
}

/// The byte of a record at a place: each record has its own.
fn byte(position: LogPosition, at: u64) -> u8 {
    (position.segment * 7 + at) as u8 | 1
}

/// Writes to the draft what is missing, as the daemon does before it is published.
fn publish(tree: &Tree, draft: &mut Vec<u8>) {
    let size_bytes = tree.state(FILE).unwrap().attributes.size_bytes;
    let extents = tree.pieces(FILE, 0..size_bytes).unwrap().into_iter().filter_map(|piece| match piece.source {
        Source::Log(extent) => Some(extent),
        _ => None,
    });
    let drain = Drain { file: FILE, version: 0, size_bytes, is_there: false, extents: extents.collect() };
    send(&drain, tree, draft);
}

/// Writes to the draft as the daemon does.
fn send(drain: &Drain, tree: &Tree, draft: &mut Vec<u8>) {
    let old_len = draft.len();
    draft.resize(drain.size_bytes as usize, 0);
    for piece in tree.pieces(FILE, 0..drain.size_bytes).unwrap() {
        let range = piece.offset as usize..(piece.offset + piece.len) as usize;
        match piece.source {
            Source::Hole if range.start < old_len => draft[range].fill(0),
            Source::Log(extent) if drain.extents.contains(&extent) && !tree.is_sent(FILE, &extent) => {
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
        asked.note(LeaderEntry::Landed { step, outcome: StepOutcome::LeftOut }).unwrap();
        let (mut sent, mut written) = (None::<(Drain, bool)>, 0);
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
                Event::Send { bytes_max, is_kept } if sent.is_none() => {
                    let (nodes, last) = (BTreeSet::from([NodeRank(0)]), LogPosition { segment: number as u64, offset: 0 });
                    let last = BTreeMap::from([(NodeRank(0), last)]);
                    let ahead = if is_kept { Ahead::Old(&last) } else { Ahead::OfNodes(&nodes) };
                    sent = asked.tree.next_drain(ahead, bytes_max).map(|drain| (drain, is_kept));
                    if let Some((drain, _)) = &sent {
                        send(drain, &asked.tree, &mut draft);
                    }
                }
                Event::Send { .. } => {}
                Event::Note => {
                    if let Some((Drain { file, version, size_bytes, extents, .. }, is_kept)) = sent.take() {
                        let drained = Drained { version, size_bytes, backed: backed(0), extents, is_kept };
                        asked.note(LeaderEntry::Drained { file, drained }).unwrap();
                    }
                }
            }
            prop_assert_eq!(&read(&asked.tree, &draft), &expected);
        }
        publish(&asked.tree, &mut draft);
        prop_assert_eq!(&draft, &expected, "the draft is whole with what was not sent");
        let freed: u64 = asked.released.extents.iter().map(|extent| extent.len).sum();
        let kept: u64 = asked.tree.written().map(|extent| extent.len).sum();
        prop_assert_eq!(freed + kept, written, "each byte is freed once");
    }
}

/// Of files that are on the backing file system already nothing is sent for its age: others would see a mixture.
#[test]
fn old_bytes_are_sent_of_files_that_are_not_there() {
    let mut asked = Asked::new();
    let commit = |asked: &mut Asked, file, segment| {
        let position = LogPosition { segment, offset: 0 };
        let extents = vec![WrittenExtent { offset: segment * 10, len: 10, node: NodeRank(0), position, skip: 0 }];
        asked.ask(&ROOT, Operation::Commit { file, extents, at: CommitAt::Start }).unwrap();
    };
    let old = |segment| BTreeMap::from([(NodeRank(0), LogPosition { segment, offset: 0 })]);
    asked.make(&ROOT, in_root("there"), 2, 0o100_644).unwrap();
    commit(&mut asked, id(2), 0);
    asked.land_all();
    asked.make(&ROOT, in_root("new"), 1, 0o100_644).unwrap();
    for file in [id(1), id(2)] {
        asked.ask(&ROOT, Operation::Open { file }).unwrap();
    }
    [(id(1), 1), (id(1), 2), (id(2), 3), (id(1), 4)]
        .into_iter()
        .for_each(|(file, segment)| commit(&mut asked, file, segment));
    let segments = |drain: Option<Drain>| -> Vec<(FileId, u64)> {
        drain
            .iter()
            .flat_map(|drain| drain.extents.iter().map(|extent| (drain.file, extent.position.segment)))
            .collect()
    };
    assert_eq!(segments(asked.tree.next_drain(Ahead::Old(&old(0)), 100)), []);
    assert_eq!(segments(asked.tree.next_drain(Ahead::Old(&old(3)), 100)), [(id(1), 1), (id(1), 2)]);
    assert_eq!(segments(asked.tree.next_drain(Ahead::Old(&BTreeMap::new()), 100)), []);
    asked.ask(&ROOT, Operation::Close { file: id(1), handle: 0 }).unwrap();
    assert_eq!(segments(asked.tree.next_drain(Ahead::Old(&old(9)), 100)), [], "it lands as a whole");
}
