//! Files that ranks have open together, without MPI: the ranks are threads, the file is real.
//!
//! Any calls by any number of ranks must leave the bytes that the calls would have left one after the other, and what a read
//! returns must be what is in the file. Every rank must hear of a disk's error.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod marks;
mod network;
#[path = "../ranks/mod.rs"]
mod ranks;
mod ways;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use forebay_mpiio::choice::FileSystem;
use forebay_mpiio::error::Error;
use forebay_mpiio::file::{Answer, File, Passing};
use forebay_mpiio::flat::{Flat, Piece};
use forebay_mpiio::group::Group;
use forebay_mpiio::memory::Buffer;
use forebay_mpiio::missing::Missing;
use forebay_mpiio::opening::{Opening, differs, identity};
use forebay_mpiio::storage::{Access, Storage};
use forebay_mpiio::view::{Extent, View};
use proptest::prelude::*;
use ranks::{Rank, on_ranks};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

const BOTH: Access = Access { reads: true, writes: true };

/// Bytes are held until the ranks flush, unless the hints say otherwise.
fn open(rank: Rank, path: &Path, hints: &[(&str, &str)], access: Access) -> File<Rank> {
    let hints = [("forebay_hold", "yes")].iter().chain(hints);
    let hints: Vec<(String, String)> = hints.map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let host = format!("host{}", rank.number() / 2);
    let name = path.to_str().unwrap().as_bytes();
    // Hosts 0 and 2 are on one switch, 1 and 3 on another.
    let switch = ["even", "odd"][rank.number() / 2 % 2];
    let switches: &[&str] = if hints.iter().any(|(name, _)| name == "slurm") { &["top", switch] } else { &[] };
    let opening = Opening { name, access, hints: &hints, host: &host, switches, ..AS_ALWAYS };
    File::open(rank, &opening).unwrap().unwrap()
}

/// The options that most tests do not care for.
const AS_ALWAYS: Opening<'_> = Opening {
    name: b"",
    access: BOTH,
    deletes: false,
    has_threads: true,
    doublings: 0,
    // There calls are held or left to MPI, whatever requests cost.
    file_system: Some(FileSystem::Nfs),
    layout_attribute: "user.lov",
    measured: None,
    hints: &[],
    host: "host",
    switches: &[],
    records: None,
};

/// Bytes in a row, as a program's buffer.
fn row(bytes: &mut [u8]) -> Buffer {
    // SAFETY: as many bytes are there as the row has, and the caller keeps them while it uses the buffer.
    unsafe { Buffer::new(bytes.as_mut_ptr(), Flat::dense(1), bytes.len() as u64) }.unwrap()
}

/// The extents of one rank in one call, as gaps and lengths.
type Call = Vec<(u64, u64)>;

fn view_of(call: &Call) -> (View, u64) {
    let mut offset = 0;
    let pieces = call.iter().map(|&(gap, len)| {
        let piece = Piece { offset: (offset + gap) as i64, len };
        offset += gap + len;
        piece
    });
    let pieces: Vec<Piece> = pieces.collect();
    let len = pieces.iter().map(|piece| piece.len).sum();
    let tile = if len == 0 { Flat::dense(1) } else { Flat::basic(pieces, 1 << 20).unwrap() };
    (View::new(0, 1, tile).unwrap(), len)
}

/// The contents that calls leave: by rank and call a byte of their own. Ranks of one call may overlap, then any of them may win.
fn model(calls: &[Vec<Call>]) -> Vec<Vec<u8>> {
    let mut file: Vec<Vec<u8>> = vec![];
    for (number, ranks) in calls.iter().enumerate() {
        let mut now: Vec<Vec<u8>> = vec![];
        for (rank, call) in ranks.iter().enumerate() {
            let mut offset = 0;
            for &(gap, len) in call {
                let end = (offset + gap + len) as usize;
                now.resize(now.len().max(end), vec![]);
                now[end - len as usize..end].iter_mut().for_each(|may| may.push(mark(number, rank)));
                offset = end as u64;
            }
        }
        file.resize(file.len().max(now.len()), vec![]);
        for (byte, new) in file.iter_mut().zip(now) {
            byte.extend(new);
        }
    }
    file
}

fn mark(call: usize, rank: usize) -> u8 {
    (call * 16 + rank + 1) as u8
}

fn calls() -> impl Strategy<Value = Vec<Vec<Call>>> {
    let call = prop::collection::vec((0u64..5000, 1u64..3000), 0..6);
    (1usize..5).prop_flat_map(move |ranks| prop::collection::vec(prop::collection::vec(call.clone(), ranks), 1..5))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_calls_leave_the_bytes_of_their_writers(
        calls in calls(), buffer in 4096u32..40_000, aggregators in 1u32..4, flushes: u8, enables: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"").unwrap();
        let (buffer, aggregators) = (buffer.to_string(), aggregators.to_string());
        let aggregation = if enables { "enable" } else { "automatic" };
        let hints = [("forebay_buffer_bytes", &*buffer), ("forebay_aggregators", &*aggregators),
            ("striping_unit", "4096"), ("forebay_aggregation", aggregation)];
        let passed = on_ranks(calls[0].len(), |rank| {
            let number = rank.number();
            let mut file = open(rank, &path, &hints, BOTH);
            let mut passed = false;
            for (index, ranks) in calls.iter().enumerate() {
                let (view, len) = view_of(&ranks[number]);
                let mut bytes = vec![mark(index, number); len as usize];
                file.set_view(Some(view));
                let answer = file.write_collective(0, Some(&row(&mut bytes))).unwrap();
                passed |= matches!(answer, Answer::Pass(_));
                match flushes >> (index * 2) & 3 {
                    1 => file.flush().unwrap(),
                    2 if number == 0 => file.write_own().unwrap(),
                    _ => {}
                }
                // A rank reads what it wrote, held or not; others' bytes only where they wrote too.
                let mut back = vec![0; len as usize];
                if index % 2 == 1 {
                    let answer = file.read_collective(0, Some(&row(&mut back))).unwrap();
                    if let Answer::Done(done) = answer {
                        assert_eq!(done, len);
                        assert!(back.iter().all(|byte| *byte != 0));
                    }
                }
            }
            file.close().unwrap();
            passed
        });
        prop_assert!(!enables || !passed.contains(&true), "enabled, nothing passes");
        if !passed.contains(&true) {
            let (file, may) = (std::fs::read(&path).unwrap(), model(&calls));
            prop_assert_eq!(file.len(), may.len());
            for (at, (byte, may)) in file.iter().zip(may).enumerate() {
                prop_assert!(may.contains(byte) || (may.is_empty() && *byte == 0), "byte {} is {}, not of {:?}", at, byte, may);
            }
        }
    }
}

/// As a program does that makes no other MPI call between, and once another: what becomes of each call, how many bytes the file had
/// after it, and whether it was marked.
#[test]
fn calls_are_held_when_some_have_followed_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let mark = directory.path().join("file.forebay-incomplete");
    let told = on_ranks(2, |rank| {
        let number = rank.number() as u64;
        let mut file = open(rank, &path, &[("forebay_hold", "automatic")], BOTH);
        let mut told = vec![];
        for call in 0..6 {
            let held = !matches!(
                file.write_collective((call * 2 + number) * 100, Some(&row(&mut [1; 100]))),
                Ok(Answer::Pass(_))
            );
            if call == 3 {
                // Before another MPI call, of which the program makes one.
                assert!(file.must_write_own().is_some());
                file.write_own().unwrap();
                file.interrupted();
            }
            told.push((held, file.must_write_own().is_some(), held && mark.exists()));
        }
        file.close().unwrap();
        (told, file_len(&path))
    });
    // Two that pass, two that are held, and after the mistake it takes more.
    let expected =
        [(false, false, false), (false, false, false), (true, true, true), (true, false, true), (false, false, false)];
    for (told, len) in told {
        assert_eq!((&told[..5], told[5], len), (&expected[..], (false, false, false), 800));
    }
    assert!(!mark.exists(), "the file is closed, and complete");
}

fn file_len(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Plain MPI-IO makes the collective calls of a file one after the other, whichever ranks write the same bytes in them.
#[test]
fn a_later_collective_call_wins_over_other_ranks() {
    let directory = tempfile::tempdir().unwrap();
    for (first, second) in [(0, 1), (1, 0)] {
        let path = directory.path().join(format!("file{first}"));
        std::fs::write(&path, b"").unwrap();
        on_ranks(2, |rank| {
            let number = rank.number();
            let mut file = open(rank, &path, &[("forebay_hold", "automatic"), ("forebay_aggregation", "enable")], BOTH);
            for (writer, value) in [(first, 1), (second, 2)] {
                let mut bytes = vec![value; if writer == number { 1000 } else { 0 }];
                let _ = file.write_collective(0, Some(&row(&mut bytes))).unwrap();
            }
            file.close().unwrap();
        });
        assert_eq!(std::fs::read(&path).unwrap(), [2; 1000], "rank {second} after rank {first}");
    }
}

/// The other call has no way to return it.
#[test]
fn an_error_before_another_mpi_call_is_that_of_the_next_collective_one() {
    let (_file, path) = that_cannot_grow(500);
    let heard = on_ranks(2, |rank| {
        let number = rank.number() as u64;
        let hints = [("forebay_hold", "automatic"), ("forebay_aggregation", "enable")];
        let mut file = open(rank, &path, &hints, BOTH);
        let held = file.write_collective(number * 1000, Some(&row(&mut [1; 100]))).is_ok();
        let own = file.write_own().is_ok();
        file.interrupted();
        let next = file.write_collective(number * 100, Some(&row(&mut [2; 100])));
        let next = next.map_err(|error| matches!(error, Error::Rank { rank: 1, errno: Errno::PERM }));
        file.close().unwrap();
        (held, own == (number == 0), next)
    });
    assert_eq!(heard, [(true, true, Err(true)); 2]);
}

/// Of bytes that one rank writes several times the last are in the file, whatever was flushed in between.
#[test]
fn the_last_call_of_a_rank_wins() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    on_ranks(3, |rank| {
        let number = rank.number() as u64;
        let mut file = open(rank, &path, &[("striping_unit", "4096"), ("forebay_buffer_bytes", "8192")], BOTH);
        for call in 0..8u8 {
            let _ = file.write_collective(number * 3000, Some(&row(&mut [call; 3000]))).unwrap();
        }
        file.close().unwrap();
    });
    assert_eq!(std::fs::read(&path).unwrap(), [7; 9000]);
}

/// If one rank cannot take a call apart, the call passes on all ranks, after the held bytes are written.
#[test]
fn all_ranks_agree_on_what_passes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let answers = on_ranks(3, |rank| {
        let number = rank.number();
        let mut file = open(rank, &path, &[("striping_unit", "4096")], BOTH);
        let mut small = [1; 100];
        let _ = file.write_collective(number as u64 * 100, Some(&row(&mut small))).unwrap();
        let none = file.write_collective(1000, (number != 1).then(|| row(&mut small)).as_ref()).unwrap();
        let held = std::fs::read(&path).unwrap().len();
        let large = file.write_collective(number as u64 * 40_000, Some(&row(&mut vec![2; 40_000]))).unwrap();
        file.set_atomic(true).unwrap();
        let atomic = file.write_collective(0, Some(&row(&mut small))).unwrap();
        file.close().unwrap();
        (none, held, large, atomic)
    });
    let pass = Answer::Pass;
    assert_eq!(answers, [(pass(Passing::Unsupported), 300, pass(Passing::Large), pass(Passing::Atomic)); 3]);
}

/// A file of so many bytes that cannot grow.
fn that_cannot_grow(bytes: u64) -> (OwnedFd, PathBuf) {
    let file = rustix::fs::memfd_create("file", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, path.into())
}

/// A rank that cannot write: everybody hears it, nobody waits for ever, and the file can be closed.
#[test]
fn an_error_of_one_rank_is_an_error_of_all() {
    let (_file, path) = that_cannot_grow(500);
    let heard = on_ranks(4, |rank| {
        let number = rank.number();
        let mut file = open(rank, &path, &[("striping_unit", "4096"), ("forebay_buffer_bytes", "4096")], BOTH);
        file.flush().unwrap();
        let held = file.write_collective(number as u64 * 1000, Some(&row(&mut [1; 1000])));
        let flushed = file.flush();
        let again = file.flush();
        file.close().unwrap();
        (held.is_ok(), flushed.map_err(|error| matches!(error, Error::Rank { .. })), again.is_ok())
    });
    assert_eq!(heard, [(true, Err(true), true); 4]);
}

/// The call that makes room for its bytes and hears of an error loses none of its own.
#[test]
fn a_call_that_flushes_in_vain_is_written_all_the_same() {
    let (handle, path) = that_cannot_grow(10_000);
    let hints = [("striping_unit", "4096"), ("forebay_buffer_bytes", "4096")];
    let heard = on_ranks(2, |rank| {
        let at = rank.number() as u64 * 3000;
        let mut file = open(rank, &path, &hints, BOTH);
        let first = file.write_collective(20_000 + at, Some(&row(&mut [1; 3000]))).is_ok();
        let second = file.write_collective(at, Some(&row(&mut [2; 3000]))).is_ok();
        (first, second, file.close().is_ok())
    });
    assert_eq!(heard, [(true, false, true); 2]);
    let mut bytes = [0; 6000];
    rustix::io::pread(&handle, &mut bytes, 0).unwrap();
    assert_eq!(bytes, [2; 6000]);
}

/// A call that passes to MPI after an error still passes, and fails with that error.
#[test]
fn a_call_that_passes_after_an_error_has_failed() {
    let (_file, path) = that_cannot_grow(10_000);
    let answers = on_ranks(2, |rank| {
        let number = rank.number();
        let mut file = open(rank, &path, &[("striping_unit", "4096")], BOTH);
        let _ = file.write_collective(20_000, Some(&row(&mut [1; 1000]))).unwrap();
        let passed = file.write_collective(0, (number == 0).then(|| row(&mut [1; 10])).as_ref()).unwrap();
        file.close().unwrap();
        passed
    });
    assert_eq!(answers, [Answer::PassFailed(Passing::Unsupported, Errno::PERM); 2]);
}

/// No file has bytes there, so there is no plan: what the other rank holds is in the file.
#[test]
fn without_a_plan_every_rank_writes_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let heard = on_ranks(2, |rank| {
        let at = [0, i64::MAX as u64 - 1000][rank.number()];
        let mut file = open(rank, &path, &[("striping_unit", "4096")], BOTH);
        let held = file.write_collective(at, Some(&row(&mut [1; 1000]))).is_ok();
        let flushed = file.flush().is_ok();
        let told: serde_json::Value = serde_json::from_str(&file.explain()).unwrap();
        // Reads of such places are MPI's.
        let read = file.read_collective(at, Some(&row(&mut [0; 1000]))).unwrap();
        file.close().unwrap();
        (held, flushed, told["unplanned"].as_u64(), told["state"].as_str() == Some("incomplete"), read)
    });
    let passed = Answer::Pass(Passing::Unplanned);
    assert_eq!(heard, [(true, false, Some(1), true, passed); 2]);
    assert_eq!(std::fs::read(&path).unwrap(), [1; 1000]);
}

/// A thread that must not wait for a collective call of another one finds in the file what the rank has written before.
#[test]
fn another_thread_does_not_wait_for_the_ranks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let has_read = Barrier::new(2);
    on_ranks(2, |rank| {
        let number = rank.number();
        let mut file = open(rank, &path, &[("striping_unit", "4096")], BOTH);
        let _ = file.write_collective(number as u64 * 1000, Some(&row(&mut [number as u8 + 1; 1000]))).unwrap();
        let twice = Flat::basic([Piece { offset: 0, len: 8 }], 16).unwrap();
        file.set_view(View::new(984, 8, twice));
        assert!(number == 1 || (!file.beside().is_apart(0, 8) && file.beside().is_apart(1, 8)));
        file.set_view(None);
        assert!(!file.beside().is_apart(1 << 40, 1), "nobody knows where that is");
        file.set_view(Some(View::whole()));
        if number == 1 {
            // The first rank waits in its flush until this one comes.
            has_read.wait();
            file.flush().unwrap();
        } else {
            let beside = file.beside();
            std::thread::scope(|scope| {
                scope.spawn(|| file.flush().unwrap());
                // A write to the same bytes has to wait, others have not.
                assert_eq!(
                    [(0, 1), (999, 1), (1000, 1), (4000, 9), (0, 0)].map(|(at, len)| beside.is_apart(at, len)),
                    [false, false, true, true, true]
                );
                assert_eq!((beside.write(), beside.end()), (Some(Ok(())), 2000));
                assert_eq!((beside.write(), beside.requests().writes), (Some(Ok(())), 1), "the same bytes once");
                assert_eq!(std::fs::read(&path).unwrap(), [1; 1000]);
                has_read.wait();
            });
        }
        file.close().unwrap();
    });
    assert_eq!(std::fs::read(&path).unwrap(), [[1; 1000], [2; 1000]].concat());
}

/// Only what is written is at the end of the file, not what somebody tried to read there.
#[test]
fn a_read_past_the_end_does_not_move_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, [1; 100]).unwrap();
    let ends = on_ranks(2, |rank| {
        let number = rank.number() as u64;
        let mut file = open(rank, &path, &[("forebay_aggregation", "enable")], BOTH);
        let _ = file.read_collective(0, Some(&row(&mut [0; 4096]))).unwrap();
        let before = file.beside().end();
        // A write that waits for nobody is known to all from the next call on.
        assert!(file.write_without_waiting(200 + number * 100, Some(&row(&mut [2; 100]))).unwrap());
        let _ = file.read_collective(0, Some(&row(&mut [0; 10]))).unwrap();
        let after = (file.beside().end(), file.units_to_end());
        file.close().unwrap();
        (before, after)
    });
    assert_eq!(ends, [(0, (400, 400)); 2]);
}

/// A rank that has nothing to write may have a view that shows nothing.
#[test]
fn a_rank_without_bytes_needs_no_view() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let answers = on_ranks(2, |rank| {
        let len = 1000 * rank.number();
        let mut file = open(rank, &path, &[], BOTH);
        if len == 0 {
            file.set_view(View::new(0, 1, Flat::dense(0)));
        }
        let answer = file.write_collective(0, Some(&row(&mut vec![3; len]))).unwrap();
        file.close().unwrap();
        answer
    });
    assert_eq!(answers, [Answer::Done(0), Answer::Done(1000)]);
}

/// Declarations hold until a flush, also until one in which nobody had written.
#[test]
fn declarations_end_with_a_flush() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    on_ranks(2, |rank| {
        let mut file = open(rank, &path, &[], BOTH);
        file.declare(vec![Extent { offset: 0, len: 10 }]).unwrap();
        file.flush().unwrap();
        file.write_extent(Extent { offset: 100, len: 10 }, &[1; 10]).unwrap();
        file.close().unwrap();
    });
    assert_eq!(std::fs::read(&path).unwrap().len(), 110);
}

/// A file that is another one on some host is left to MPI.
#[test]
fn ranks_that_do_not_have_the_same_file_leave_it_to_mpi() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("file"), directory.path().join("other"));
    std::fs::write(&path, b"").unwrap();
    std::fs::write(&other, b"").unwrap();
    let opened = |second: &Path| {
        on_ranks(2, |rank| {
            let opened = Storage::open(
                [&path, second][rank.number()].to_owned(),
                BOTH,
                FileSystem::Local,
                1,
                Missing::default(),
            );
            let own: Vec<u8> = identity(&opened).into_iter().flat_map(u64::to_le_bytes).collect();
            let told = rank.all_gather(&own).unwrap();
            let numbers: Vec<u64> = told.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
            differs(numbers.as_chunks().0).is_none()
        })
    };
    assert_eq!(opened(&path), [true; 2]);
    assert_eq!(opened(&other), [false; 2]);
    assert_eq!(opened(Path::new("/nowhere")), [false; 2]);
    // A file that MPI itself has open is right, whatever its inode is there.
    let _first = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let _other = std::fs::File::options().read(true).write(true).open(&other).unwrap();
    assert_eq!(opened(&other), [true; 2]);
}

/// Reads beyond the end return what is there.
#[test]
fn reads_end_where_the_file_does() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let content: Vec<u8> = (0..50_000u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let access = Access { reads: true, writes: false };
    let done = on_ranks(3, |rank| {
        let number = rank.number() as u64;
        let hints = [("striping_unit", "4096"), ("forebay_buffer_bytes", "8192"), ("forebay_aggregation", "enable")];
        let mut file = open(rank, &path, &hints, access);
        let mut back = vec![0; 20_000];
        let done = file.read_collective(number * 20_000, Some(&row(&mut back))).unwrap();
        let len = content.len().min((number as usize + 1) * 20_000) - number as usize * 20_000;
        assert_eq!(back[..len], content[number as usize * 20_000..][..len]);
        assert!(back[len..].iter().all(|byte| *byte == 0), "nothing was put there");
        file.close().unwrap();
        done
    });
    assert_eq!(done, [20_000, 20_000, 10_000].map(Answer::Done));
}

/// Extents far from each other are read by themselves, and each rank gets its own.
#[test]
fn reads_leave_out_large_gaps() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let content: Vec<u8> = (0..1_500_000u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    on_ranks(3, |rank| {
        let number = rank.number();
        let mut file = open(rank, &path, &[("forebay_aggregation", "enable")], Access { reads: true, writes: false });
        let tile = Flat::basic([Piece { offset: 0, len: 1000 }], 300_000).unwrap();
        file.set_view(View::new(number as i64 * 1000, 1, tile));
        let mut back = vec![0; 5000];
        assert_eq!(file.read_collective(0, Some(&row(&mut back))).unwrap(), Answer::Done(5000));
        for (index, bytes) in back.chunks(1000).enumerate() {
            assert_eq!(bytes, &content[index * 300_000 + number * 1000..][..1000]);
        }
        let told: serde_json::Value = serde_json::from_str(&file.explain()).unwrap();
        assert_eq!(told["reads"], 1);
        file.close().unwrap();
    });
}
