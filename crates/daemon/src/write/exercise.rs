//! For fuzzing and for its corpus: what is made of a node's log, whatever its records hold.

use std::fmt::Debug;

use forebay_log::RecoveredRecord;
use forebay_types::{Attributes, FileId, LogPosition, NodeRank};
use forebay_wire::log_record::RecordData;
use forebay_wire::message::{Checked, decode, encode};
use forebay_wire::write::COMMIT_EXTENTS_MAX;
use forebay_write::Tree;
use serde::{Deserialize, Serialize};

use super::notes::Note;
use super::recovery::Found;
use super::tree::checkpoint::Checkpoint;

/// Records of one log.
const RECORDS_MAX: usize = 300;

/// The first byte before a record that is no note.
const WRITTEN: u8 = 0xf0;
const WRITTEN_FIELDS: usize = 18;

/// Reads bytes as what a checkpoint holds, and checks what must hold then; whether they are that.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn read_checkpoint(bytes: &[u8]) -> bool {
    comes_back::<Checkpoint>(bytes)
}

/// The same of a note.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn read_note(bytes: &[u8]) -> bool {
    comes_back::<Note>(bytes)
}

fn comes_back<T: Checked + PartialEq + Debug + Serialize + for<'a> Deserialize<'a>>(bytes: &[u8]) -> bool {
    let Ok(message) = decode::<T>(bytes) else { return false };
    // Equal messages, not equal bytes: a varint may be written longer than it need be, and files are in no order.
    assert_eq!(decode::<T>(&encode(&message)).as_ref(), Ok(&message));
    true
}

/// Recovers what the records of a log hold: the node's rank, then records, each with its length before it. How many are taken.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn recover(bytes: &[u8]) -> usize {
    let Some((rank, mut rest)) = bytes.split_first() else { return 0 };
    let root = Attributes { mode: 0o040_777, nlink: 2, ..Attributes::default() };
    let mut found = Found::new(NodeRank(u32::from(rank & 1)), Tree::new(root, rank & 2 != 0, 1));
    let mut taken = 0;
    while let Some((kind, behind)) = rest.split_first()
        && taken < RECORDS_MAX
    {
        let position = LogPosition { segment: 1 + taken as u64 / 4, offset: (taken as u32 % 4) * 4096 };
        let len = if *kind >= WRITTEN { WRITTEN_FIELDS } else { usize::from(*kind) };
        let (contents, behind) = behind.split_at(len.min(behind.len()));
        rest = behind;
        let record =
            if *kind >= WRITTEN { written(*kind, contents) } else { RecoveredRecord::Note(contents.to_vec().into()) };
        if found.take(position, record).is_err() {
            return taken;
        }
        taken += 1;
    }
    let live = found.live();
    assert!(live.len() <= taken * COMMIT_EXTENTS_MAX, "{} places of {taken} records", live.len());
    if let Some(tree) = found.tree() {
        forebay_write::exercise::check(tree);
    }
    taken
}

/// A record with bytes of a file.
fn written(kind: u8, contents: &[u8]) -> RecoveredRecord {
    let mut fields = [0; WRITTEN_FIELDS];
    fields[..contents.len()].copy_from_slice(contents);
    let long = |at: usize| fields[at..at + 8].iter().rev().fold(0, |long, byte| long << 8 | u64::from(*byte));
    // As the head of a record is checked.
    let (bytes, offset) = (u32::from(fields[17]) << 10, long(8).min(u64::MAX - (1 << 20)));
    let (of, is_copied) = (NodeRank(fields[16].into()), kind & 4 != 0);
    let file = FileId { creator: of, serial: long(0) };
    let data = match kind & 3 {
        0 | 1 => RecordData::Written { file, offset, is_copied },
        2 => RecordData::Appended { file, is_copied },
        _ => RecordData::Copy { of, from: LogPosition { segment: long(0), offset: long(8) as u32 } },
    };
    RecoveredRecord::Data { data, bytes }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use forebay_types::{Name, OperationId, Timestamp};
    use forebay_wire::journal::LeaderEntry;
    use forebay_wire::write::{BURST_ROOT, Caller, Change, CommitAt, Operation, Place, WrittenExtent};
    use forebay_wire::write_message::Leadership;

    use super::*;
    use crate::write::notes::StoreTree;

    const CORPUS: &str = "../../fuzz/corpus/store_notes";
    const FILE: FileId = FileId { creator: NodeRank(0), serial: 1 };
    const STORE_TREE: StoreTree = StoreTree { number: 7, mount_made_at_ms: 1 };
    const AT: LogPosition = LogPosition { segment: 1, offset: 4096 };
    const EXTENT: WrittenExtent = WrittenExtent { offset: 0, len: 1024, node: NodeRank(0), position: AT, skip: 0 };

    fn corpus() -> Vec<(String, Vec<u8>)> {
        let files = fs::read_dir(CORPUS).unwrap().map(|file| file.unwrap().path());
        files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect()
    }

    #[test]
    fn the_files_are_what_their_names_say() {
        let mut most = 0;
        for (name, bytes) in corpus() {
            let is_one = (read_checkpoint(&bytes), read_note(&bytes));
            assert!(is_one.0 || !name.starts_with("checkpoint-"), "{name}");
            assert!(is_one.1 || !name.starts_with("note-"), "{name}");
            most = most.max(recover(&bytes));
        }
        assert_eq!(most, 11, "records of the longest log");
    }

    /// Cut short or with a bit changed at any place, nothing panics.
    #[test]
    fn seeds_cut_and_changed() {
        for (_, seed) in corpus() {
            for at in 0..seed.len() {
                let mut changed = seed.clone();
                changed[at] ^= 1 << (at % 8);
                for bytes in [&seed[..at], &changed[..]] {
                    let _ = (read_checkpoint(bytes), read_note(bytes), recover(bytes));
                }
            }
        }
    }

    #[test]
    #[ignore = "writes the corpus anew, which is due when notes or checkpoints change"]
    fn the_corpus_is_written() {
        fs::create_dir_all(CORPUS).unwrap();
        let put = |name: &str, bytes: Vec<u8>| fs::write(format!("{CORPUS}/{name}"), bytes).unwrap();
        let notes = notes();
        for (index, note) in notes.iter().enumerate() {
            put(&format!("note-{index}"), note.clone());
        }
        let record = |note: &Vec<u8>| [&[u8::try_from(note.len()).unwrap()], &note[..]].concat();
        let written =
            [WRITTEN, WRITTEN | 6, WRITTEN | 3].map(|kind| [&[kind][..], &encode_written()].concat()).concat();
        let log = |rank: u8, notes: &[Vec<u8>]| {
            let records: Vec<u8> = notes.iter().flat_map(record).collect();
            [&[rank][..], &written, &records].concat()
        };
        put("log-of-owner", log(0, &notes[..8]));
        put("log-of-other", log(1, &notes[5..9]));
        put("checkpoint-empty", encode(&Checkpoint::default()));
        let root = Attributes { mode: 0o040_755, nlink: 2, ..Attributes::default() };
        let mut found = Found::new(NodeRank(0), Tree::new(root, false, 7));
        for note in &notes[..4] {
            found.take(AT, RecoveredRecord::Note(note.clone().into())).unwrap();
        }
        let tree = found.tree().cloned();
        let pending = vec![(FILE, vec![EXTENT])];
        let held = vec![(1, 1024)];
        let checkpoint =
            Checkpoint { store_tree: Some(STORE_TREE), tree, pending, held, next_serial: 2, ..Checkpoint::default() };
        put("checkpoint-tree", encode(&checkpoint));
    }

    fn encode_written() -> [u8; WRITTEN_FIELDS] {
        let mut fields = [0; WRITTEN_FIELDS];
        (fields[0], fields[17]) = (1, 1);
        fields
    }

    fn notes() -> Vec<Vec<u8>> {
        let place = |name: &[u8]| Place { directory: BURST_ROOT, name: Name::new(name).unwrap() };
        let create = Operation::Create {
            place: place(b"a"),
            file: FILE,
            mode: 0o100_644,
            rdev: 0,
            target: vec![],
            is_opened: true,
            is_exclusive: false,
        };
        let commit = Operation::Commit { file: FILE, extents: vec![EXTENT], at: CommitAt::Start };
        let operations =
            [create, commit, Operation::Close { file: FILE, handle: 0 }, Operation::Unlink { place: place(b"b") }];
        let change = |(serial, operation)| {
            let id = OperationId { node: NodeRank(0), session: 1, serial };
            Change { id, oldest: 1, caller: Caller::default(), now: Timestamp::default(), operation }
        };
        let changes: Vec<Change> = (1..).zip(operations).map(change).collect();
        let own = (1..).zip(&changes).map(|(count, change)| Note::own(count, change));
        let more = [
            Note::own(5, &LeaderEntry::Lost { nodes: vec![NodeRank(1)] }),
            Note::sent(&changes[1]),
            Note::tree(STORE_TREE),
            Note::leadership(Leadership { term: 0, leader: NodeRank(0) }),
            Note::followed(1, &changes[0]),
            Note::leadership(Leadership { term: 1, leader: NodeRank(1) }),
        ];
        own.chain(more).collect()
    }
}
