//! Files that ranks have open together, without MPI: the ranks are threads, the file is real.
//!
//! Any calls by any number of ranks must leave the bytes that the calls would have left one after the other, and what a read
//! returns must be what is in the file. What a disk refuses, every rank must hear.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod ranks;

use std::path::Path;

use forebay_mpiio::error::Error;
use forebay_mpiio::file::{Answer, File, Passing};
use forebay_mpiio::flat::{Flat, Piece};
use forebay_mpiio::memory::Buffer;
use forebay_mpiio::opening::Opening;
use forebay_mpiio::storage::Access;
use forebay_mpiio::view::View;
use proptest::prelude::*;
use ranks::{Rank, on_ranks};

const BOTH: Access = Access { reads: true, writes: true };

fn open(rank: Rank, path: &Path, hints: &[(&str, &str)], access: Access) -> File<Rank> {
    let hints: Vec<(String, String)> = hints.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let host = format!("host{}", rank.number() / 2);
    let name = path.to_str().unwrap().as_bytes();
    // Hosts 0 and 2 are on one switch, 1 and 3 on another.
    let switch = ["even", "odd"][rank.number() / 2 % 2];
    let switches: &[&str] = if hints.iter().any(|(name, _)| name == "slurm") { &["top", switch] } else { &[] };
    File::open(rank, &Opening { name, access, hints: &hints, host: &host, switches, records: None }).unwrap().unwrap()
}

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

/// What calls leave: by rank and call a byte of their own. Ranks of one call may overlap, then any of them may win.
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

/// What one rank cannot take apart passes through on all, after what was held is written.
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

/// A rank that cannot write: everybody hears it, nobody waits for ever, and the file can be closed.
#[test]
fn an_error_of_one_rank_is_an_error_of_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let heard = on_ranks(4, |rank| {
        let number = rank.number();
        let mut file = open(rank, &path, &[("striping_unit", "4096"), ("forebay_buffer_bytes", "4096")], BOTH);
        if number == 0 {
            std::fs::rename(&path, directory.path().join("renamed")).unwrap();
            std::fs::write(&path, b"other").unwrap();
        }
        file.flush().unwrap();
        let held = file.write_collective(number as u64 * 1000, Some(&row(&mut [1; 1000])));
        let flushed = file.flush();
        let again = file.flush();
        file.close().unwrap();
        (held.is_ok(), flushed.map_err(|error| matches!(error, Error::Rank { .. })), again.is_ok())
    });
    assert_eq!(heard, [(true, Err(true), true); 4]);
    assert_eq!(std::fs::read(&path).unwrap(), b"other", "another file of the name");
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

/// Who aggregates, and where the network is known from, for 8 ranks that write the same with these hints.
fn planned(hints: &[(&str, &str)]) -> (Vec<u64>, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let explained = on_ranks(8, |rank| {
        let number = rank.number() as u64;
        let mut file = open(rank, &path, hints, BOTH);
        let mut bytes = vec![1; 1000];
        let _ = file.write_collective(number * 1000, Some(&row(&mut bytes))).unwrap();
        file.flush().unwrap();
        let explained = file.explain();
        file.close().unwrap();
        explained
    });
    let record: serde_json::Value = serde_json::from_str(&explained[0]).unwrap();
    let ranks = record["aggregators"].as_array().unwrap().iter().map(|each| each["rank"].as_u64().unwrap());
    (ranks.collect(), record["network"].as_str().unwrap().to_owned())
}

#[test]
fn a_file_says_where_hosts_and_io_nodes_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("topology.json");
    let name = path.to_str().unwrap();
    let with = |hosts: &str| {
        let io = r#""io_nodes": [{"node": 7, "bytes_per_s": 1e9, "serves": "any"}]"#;
        std::fs::write(
            &path,
            format!(
                r#"{{"topology": {{"fat_tree": {{"levels": [{{"down": 2, "up": 2}},
            {{"down": 4}}]}}}}, {io}, "hosts": [{hosts}]}}"#
            ),
        )
        .unwrap();
        planned(&[("forebay_aggregators", "1"), ("forebay_strategy", "nearest"), ("forebay_topology", name)])
    };
    // The I/O node is on the switch of nodes 6 and 7.
    let order = r#""a", "b", "c", "d", "host0", "host1", "host2", "host3""#;
    assert_eq!(with(order), (vec![6], "file".to_owned()));
    let order = r#""host0", "host3", "host2", "a", "b", "c", "host1""#;
    assert_eq!(with(order), (vec![2], "file".to_owned()));
    // One that does not cover the job is left out, and so is one that is not there.
    assert_eq!(with(r#""host0", "host1""#), (vec![0], "one switch".to_owned()));
    let missing = [("forebay_aggregators", "1"), ("forebay_strategy", "nearest"), ("forebay_topology", "/nowhere")];
    assert_eq!(planned(&missing).1, "one switch");
}

#[test]
fn slurm_says_which_hosts_share_a_switch() {
    assert_eq!(planned(&[("slurm", "")]).1, "slurm");
    assert_eq!(planned(&[]).1, "one switch");
}
