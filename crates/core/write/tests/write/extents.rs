//! The map of a file against the file itself.

use std::collections::BTreeMap;

use forebay_types::{LogPosition, NodeRank};
use forebay_wire::write::{Piece, Source, WrittenExtent};
use forebay_write::Extents;
use proptest::prelude::*;

/// Bytes of the files tested.
const FILE_BYTES: u64 = 64;

#[derive(Clone, Debug)]
enum Step {
    Write { offset: u64, len: u64 },
    Truncate { size_bytes: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..FILE_BYTES, 0..20_u64).prop_map(|(offset, len)| Step::Write { offset, len }),
        1 => (0..FILE_BYTES).prop_map(|size_bytes| Step::Truncate { size_bytes }),
    ]
}

/// Where a byte is: in which record, at which byte of its contents.
type Byte = Option<(u64, u32)>;

/// The model: what each byte of the file is, written bytes and how much of the base counts.
struct Model {
    written: BTreeMap<u64, (u64, u32)>,
    backing_len: u64,
}

impl Model {
    fn write(&mut self, record: u64, offset: u64, len: u64) {
        self.written.extend((0..len).map(|at| (offset + at, (record, at as u32))));
    }

    fn truncate(&mut self, size_bytes: u64) {
        self.written.split_off(&size_bytes);
        self.backing_len = self.backing_len.min(size_bytes);
    }
}

fn extent(record: u64, offset: u64, len: u64) -> WrittenExtent {
    let position = LogPosition { segment: record, offset: 0 };
    WrittenExtent { offset, len, node: NodeRank(0), position, skip: 0 }
}

fn bytes_of(extent: &WrittenExtent) -> impl Iterator<Item = (u64, (u64, u32))> {
    let (offset, skip, record) = (extent.offset, extent.skip, extent.position.segment);
    (0..extent.len).map(move |at| (offset + at, (record, skip + at as u32)))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Log,
    Backing,
    Hole,
}

impl Kind {
    fn of(source: &Source) -> Self {
        match source {
            Source::Log(_) => Self::Log,
            Source::Backing => Self::Backing,
            Source::Hole => Self::Hole,
        }
    }
}

proptest! {
    #[test]
    fn every_byte_is_where_it_was_written_last(backing_len in 0..FILE_BYTES, steps in prop::collection::vec(step(), 0..40)) {
        let mut extents = Extents::over(backing_len);
        let mut model = Model { written: BTreeMap::new(), backing_len };
        let mut written_ever = vec![];
        let mut freed = vec![];
        for (record, step) in steps.iter().enumerate() {
            match *step {
                Step::Write { offset, len } => {
                    written_ever.extend(bytes_of(&extent(record as u64, offset, len)).map(|(_, byte)| byte));
                    extents.insert(extent(record as u64, offset, len), &mut freed);
                    model.write(record as u64, offset, len);
                }
                Step::Truncate { size_bytes } => {
                    extents.truncate(size_bytes, &mut freed);
                    model.truncate(size_bytes);
                }
            }
            check(&extents, &model)?;
        }
        // Every byte that was written is kept or given back, and given back once.
        let mut told: Vec<_> = freed.iter().chain(extents.written()).flat_map(bytes_of).map(|(_, byte)| byte).collect();
        told.sort_unstable();
        written_ever.sort_unstable();
        prop_assert_eq!(told, written_ever);
    }
}

fn check(extents: &Extents, model: &Model) -> Result<(), TestCaseError> {
    for range in [0..FILE_BYTES + 20, 7..41, 30..30] {
        let mut at = range.start;
        for piece in extents.pieces(range.clone()) {
            prop_assert_eq!(piece.offset, at);
            prop_assert!(piece.len > 0);
            for byte in 0..piece.len {
                let wanted: Byte = model.written.get(&(at + byte)).copied();
                match piece.source {
                    Source::Log(extent) => {
                        prop_assert_eq!(wanted, Some((extent.position.segment, extent.skip + byte as u32)));
                    }
                    Source::Backing => prop_assert!(wanted.is_none() && at + byte < model.backing_len),
                    Source::Hole => prop_assert!(wanted.is_none() && at + byte >= model.backing_len),
                }
            }
            at += piece.len;
        }
        prop_assert_eq!(at, range.end);
        for sought in [Kind::Log, Kind::Backing, Kind::Hole] {
            let is_sought = |piece: &Piece| Kind::of(&piece.source) == sought;
            let first = extents.pieces(range.clone()).into_iter().find(is_sought).map(|piece| piece.offset);
            prop_assert_eq!(extents.find(range.clone(), is_sought).map(|piece| piece.offset), first);
        }
    }
    Ok(())
}
