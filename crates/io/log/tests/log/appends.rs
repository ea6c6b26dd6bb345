//! Appended records are read back, by the log that took them and by the next one.

use std::fs;

use forebay_log::{LogError, RecoveredRecord, Recovery};
use forebay_types::LogPosition;
use forebay_wire::log_record::{RecordData, RecordKind, Sequence};

use crate::fixture::{FILE, SEGMENT_BYTES, all, contents, directory, open, owner, segment, settings, store};

#[test]
fn a_record_is_read_back_whole_and_in_part() {
    let directory = directory();
    let log = open(&store(&directory), 8);
    let bytes = contents(1, 5000);
    let appended = log.append_data(RecordData::written(FILE, 1 << 40), &bytes).unwrap();
    let (head, whole) = log.read_record(appended.position).unwrap();
    assert_eq!((head.kind, head.sequence), (RecordKind::Data(RecordData::written(FILE, 1 << 40)), appended.sequence));
    assert_eq!(whole, bytes);
    let mut part = [0; 100];
    log.read(appended.position, 4321, &mut part).unwrap();
    assert_eq!(part, bytes[4321..4421]);
}

#[test]
fn the_next_log_finds_all_in_order() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 64);
    let mut expected = Vec::new();
    for tag in 0..300u64 {
        let bytes = contents(tag, (tag * 37 % 3000) as usize);
        let appended = if tag % 3 == 0 {
            log.append_note(&bytes)
        } else {
            log.append_data(RecordData::written(FILE, tag), &bytes)
        }
        .unwrap();
        expected.push((appended, tag, bytes));
    }
    assert!(expected.last().unwrap().0.position.segment > 10, "over many segments");
    drop(log);
    let mut recovery = Recovery::open(&path, &owner(1), &settings(64)).unwrap();
    let found = all(&mut recovery);
    assert_eq!(found.len(), expected.len());
    let log = recovery.finish(found.iter().map(|record| (record.position, 0))).unwrap();
    for (record, (appended, tag, bytes)) in found.iter().zip(expected) {
        assert_eq!((record.position, record.sequence), (appended.position, appended.sequence));
        match &record.record {
            RecoveredRecord::Note(note) => assert!(tag % 3 == 0 && *note == bytes),
            RecoveredRecord::Data { data, bytes: length } => {
                assert_eq!((*data, *length as usize), (RecordData::written(FILE, tag), bytes.len()));
                assert_eq!(log.read_record(record.position).unwrap().1, bytes);
            }
            RecoveredRecord::Damaged => panic!("{record:?}"),
        }
    }
}

/// A program copies the log into a file of the tier, and so into the log. None of the copies is taken for a record, even where
/// a torn record makes the recovery look for the next one among them.
#[test]
fn a_copy_of_the_log_within_the_log_is_no_record() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 16);
    for tag in 0..20 {
        log.append_note(&contents(tag, 100)).unwrap();
    }
    let first = log.append_note(b"where").unwrap().position.segment;
    let segment = segment(&path, first);
    let copy = fs::read(&segment).unwrap()[..8000].to_vec();
    let torn = log.append_data(RecordData::written(FILE, 0), &copy).unwrap();
    let last = log.append_note(b"last").unwrap();
    drop(log);
    let mut bytes = fs::read(&segment).unwrap();
    bytes[torn.position.offset as usize..][..72].fill(0);
    fs::write(&segment, bytes).unwrap();
    let mut recovery = Recovery::open(&path, &owner(1), &settings(16)).unwrap();
    let found = all(&mut recovery);
    assert_eq!(found.len(), 22);
    assert_eq!(found.last().unwrap().position, last.position);
}

#[test]
fn data_larger_than_one_record_are_refused() {
    let directory = directory();
    let log = open(&store(&directory), 4);
    let max_bytes = log.contents_bytes_max();
    assert_eq!(max_bytes, SEGMENT_BYTES / 4);
    let bytes = vec![1; max_bytes as usize + 1];
    let refused = log.append_note(&bytes).unwrap_err();
    assert_eq!(refused, LogError::TooLong { bytes: bytes.len(), max_bytes });
    assert_eq!(log.end(), Sequence(2), "nothing was written");
    log.append_note(&bytes[1..]).unwrap();
}

#[test]
fn a_changed_byte_is_noticed_by_who_reads_the_record() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    let appended = log.append_data(RecordData::written(FILE, 0), &contents(1, 1000)).unwrap();
    log.commit(log.end()).unwrap();
    let segment = segment(&path, appended.position.segment);
    let mut bytes = fs::read(&segment).unwrap();
    bytes[appended.position.offset as usize + 500] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert_eq!(log.read_record(appended.position), Err(LogError::Damaged(appended.position)));
    let elsewhere = LogPosition { offset: appended.position.offset + 8, ..appended.position };
    assert_eq!(log.read_record(elsewhere), Err(LogError::Absent(elsewhere)));
    let nowhere = LogPosition { segment: 99, offset: 0 };
    assert_eq!(log.read(nowhere, 0, &mut [0; 8]), Err(LogError::Absent(nowhere)));
}

/// Committed records that the device loses are named, and hide no record behind them.
#[test]
fn lost_records_are_named_and_hide_none() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 8);
    let appended: Vec<_> = (0..10).map(|tag| log.append_note(&contents(tag, 200)).unwrap()).collect();
    log.commit(log.end()).unwrap();
    log.append_note(b"says what is durable").unwrap();
    log.commit(log.end()).unwrap();
    drop(log);
    let segment = segment(&path, appended[0].position.segment);
    let mut bytes = fs::read(&segment).unwrap();
    // The heads of two records in a row, and one byte of the contents of a third.
    bytes[appended[3].position.offset as usize..appended[5].position.offset as usize].fill(0);
    bytes[appended[7].position.offset as usize + 100] ^= 1;
    fs::write(&segment, bytes).unwrap();
    for boot in [1, 2] {
        let mut recovery = Recovery::open(&path, &owner(boot), &settings(8)).unwrap();
        let found = all(&mut recovery);
        let damaged = found.iter().filter(|record| record.record == RecoveredRecord::Damaged);
        let damaged: Vec<_> = damaged.map(|record| (record.position, record.sequence)).collect();
        let expected = [3, 7].map(|index: usize| (appended[index].position, appended[index].sequence));
        assert_eq!(damaged, expected);
        assert_eq!(found.len(), 10, "eight notes and two that name what is lost");
    }
}
