//! The mark beside a file of which bytes are missing, and the record that says so.

use forebay_mpiio::file::{Answer, File, Passing};
use forebay_mpiio::missing::Missing;
use forebay_mpiio::opening::Opening;
use forebay_mpiio::record::{Record, State};
use forebay_mpiio::view::Extent;

use crate::ranks::on_ranks;
use crate::{AS_ALWAYS, BOTH, open, row};

/// Also the mark of a run that died while it held bytes.
#[test]
fn bytes_that_mpi_writes_count_for_a_mark() {
    let directory = tempfile::tempdir().unwrap();
    let (path, mark) = (directory.path().join("file"), directory.path().join("file.forebay-incomplete"));
    std::fs::write(&path, [1; 200]).unwrap();
    for (makes_it, is_marked) in [(false, true), (true, false)] {
        std::fs::write(&mark, "file is being written:\nbytes 0 to 9223372036854775807: it was not closed\n").unwrap();
        on_ranks(2, |rank| {
            let number = rank.number() as u64;
            let mut file = open(rank, &path, &[("forebay_hold", "automatic")], BOTH);
            let answer = file.write_collective(number * 100, Some(&row(&mut [1; 100]))).unwrap();
            assert_eq!(answer, Answer::Pass(Passing::NotHeld));
            if makes_it {
                file.passed();
            }
            file.close().unwrap();
        });
        assert_eq!(mark.exists(), is_marked);
    }
}

/// A file that was closed with an error is marked by what is missing, not by all that was held.
#[test]
fn a_mark_names_what_is_missing_when_the_file_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    on_ranks(2, |rank| {
        let at = [0, i64::MAX as u64 - 1000][rank.number()];
        let mut file = open(rank, &path, &[("striping_unit", "4096")], BOTH);
        let _ = file.write_collective(at, Some(&row(&mut [1; 1000]))).unwrap();
        assert!(file.close().is_err());
    });
    let text = std::fs::read_to_string(directory.path().join("file.forebay-incomplete")).unwrap();
    let missing = Missing::of_mark(&text);
    let expected = [Extent { offset: i64::MAX as u64 - 1000, len: 1000 }];
    assert_eq!(missing.extents(), expected, "{text}");
}

#[test]
fn a_record_of_held_calls_without_bytes_ends_complete() {
    let directory = tempfile::tempdir().unwrap();
    let (path, records) = (directory.path().join("file"), directory.path().join("records"));
    std::fs::write(&path, b"").unwrap();
    on_ranks(2, |rank| {
        let hints = [("forebay_hold", "yes"), ("forebay_aggregation", "enable")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let name = path.to_str().unwrap().as_bytes();
        let opening = Opening { name, hints: &hints, records: Some(&records), ..AS_ALWAYS };
        let mut file = File::open(rank, &opening).unwrap().unwrap();
        for _ in 0..3 {
            assert_eq!(file.write_collective(0, Some(&row(&mut []))).unwrap(), Answer::Done(0));
        }
        file.close().unwrap();
    });
    let record = Record::read(&records, &path).unwrap();
    assert_eq!((record.state, record.held_calls, record.bytes_written), (State::Complete, 3, 0));
    assert!(!directory.path().join("file.forebay-incomplete").exists());
}

/// The mark of an earlier run goes when the bytes that it names are written, not when as many are; until then no record says
/// that the file is complete.
#[test]
fn a_mark_stays_until_its_bytes_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let (path, records) = (directory.path().join("file"), directory.path().join("records"));
    let mark = directory.path().join("file.forebay-incomplete");
    std::fs::write(&path, [1; 2000]).unwrap();
    std::fs::write(&mark, "it is incomplete:\nbytes 1000 to 2000: rank 0, round 1: full\n").unwrap();
    let write = |at: [u64; 2], len: usize, deletes: bool| {
        on_ranks(2, |rank| {
            let at = at[rank.number()];
            let hints = [("forebay_aggregation".to_owned(), "enable".to_owned())];
            let name = path.to_str().unwrap().as_bytes();
            let opening = Opening { name, hints: &hints, deletes, records: Some(&records), ..AS_ALWAYS };
            let mut file = File::open(rank, &opening).unwrap().unwrap();
            for _ in 0..2 {
                let _ = file.write_collective(at, Some(&row(&mut vec![2; len]))).unwrap();
                file.flush().unwrap();
            }
            file.close().unwrap();
        });
        (Record::read(&records, &path).unwrap().state, mark.exists())
    };
    assert_eq!(write([0, 500], 500, false), (State::Incomplete, true), "twice the first half");
    assert_eq!(write([1000, 1400], 500, false), (State::Incomplete, true), "not to the end");
    assert_eq!(write([1000, 1500], 500, false), (State::Complete, false), "the second half");
    std::fs::write(&mark, "").unwrap();
    assert_eq!(write([0, 500], 500, false), (State::Incomplete, true), "which bytes is not known, so all");
    assert_eq!(write([0, 1000], 1000, false), (State::Complete, false));
    std::fs::write(&mark, "").unwrap();
    assert!(!write([0, 0], 1, true).1, "the file is deleted");
    std::fs::write(&mark, "").unwrap();
    std::fs::write(&path, "").unwrap();
    assert_eq!(write([0, 0], 1, false), (State::Complete, false), "a file that begins anew");
}

/// A program that ends without closing reports an error by the mark only.
#[test]
fn files_with_bytes_lost_at_the_end_of_the_program_are_marked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    on_ranks(2, |rank| {
        let number = rank.number();
        let mut file = open(rank, &path, &[], BOTH);
        // Beyond the largest file of any file system that tests are run on.
        let at = if number == 1 { i64::MAX as u64 - 1000 } else { 0 };
        let _ = file.write_collective(at, Some(&row(&mut [1; 1000]))).unwrap();
        file.leave();
    });
    let text = std::fs::read_to_string(directory.path().join("file.forebay-incomplete")).unwrap();
    assert!(text.contains("bytes 9223372036854774807 to 9223372036854775807: rank 1"), "{text}");
    assert_eq!(std::fs::read(&path).unwrap(), [1; 1000]);
}
