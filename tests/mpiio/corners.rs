//! Rare uses that MPI allows: handlers that make calls, threads, types and views without end or without bytes, files that
//! are renamed while they are open.

use super::faults::Small;
use super::*;

/// A case of `corners.c` by both MPIs, plain and with the library: the files are equal. Returns what each printed, and what
/// the command says of its file.
fn corner(case: &str, ranks: usize) -> Vec<(String, Value)> {
    let of = |mpi: Mpi| {
        let bench = crate::bench(mpi);
        compare(&bench, &held(ranks), &bench.compile("corners.c"), &[case])
    };
    vec![of(MPICH), of(OPEN_MPI)]
}

#[test]
fn the_end_of_a_file_is_behind_what_was_written() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    for (printed, _) in corner("ends", 2) {
        assert_eq!(printed, "100 9990\n".repeat(2));
    }
}

#[test]
fn an_error_handler_may_ask_the_file() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    require!(Root, Command("mount"));
    for mpi in [MPICH, OPEN_MPI] {
        let bench = crate::bench(mpi);
        let small = Small::mounted(bench.path("small"), "1300k");
        let file = small.0.join("file");
        let way = held(2).with("FOREBAY_MPIIO_AGGREGATION", "enable").with("FOREBAY_MPIIO_BUFFER_BYTES", 1_000_000);
        let done = bench.run(&way, &bench.compile("corners.c"), &[file.to_str().unwrap(), "handles"]).good();
        assert_eq!(done.text(), "heard\n".repeat(2), "{}", done.stderr);
    }
}

#[test]
fn a_type_of_too_many_pieces_takes_no_memory() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    for (printed, record) in corner("huge", 2) {
        assert_eq!(printed, "small\n".repeat(2));
        assert_eq!(
            (&record["held_calls"], record["passed_through"].as_object().unwrap().len()),
            (&1.into(), 1),
            "{record}"
        );
    }
}

/// Not under Open MPI, whose ROMIO frees what it has not allocated when a view shows nothing.
#[test]
fn a_rank_with_nothing_needs_no_view() {
    require_mpi!(mpich);
    let bench = crate::bench(MPICH);
    let (_, record) = compare(&bench, &held(3), &bench.compile("corners.c"), &["empty"]);
    assert_eq!((&record["held_calls"], &record["exchanges"]), (&3.into(), &1.into()), "{record}");
}

/// Its mode is 0400 from the beginning: only root's other ranks can open it for writing.
#[test]
fn a_file_may_be_renamed_while_it_is_open() {
    forebay_tests::require!(Root);
    require_mpi!(mpich);
    require_mpi!(openmpi);
    for mpi in [MPICH, OPEN_MPI] {
        let bench = crate::bench(mpi);
        let (program, file) = (bench.compile("corners.c"), bench.path("file"));
        let done = bench.run(&held(2), &program, &[file.to_str().unwrap(), "renamed"]).good();
        assert_eq!(fs::read(&file).unwrap(), [[b'a'; 5000], [b'b'; 5000]].concat(), "{}", done.stderr);
        assert_eq!(done.stderr, "");
    }
}

/// It is MPI that says what it makes of one (ROMIO writes at the beginning).
#[test]
fn an_offset_beyond_all_files_is_left_to_mpi() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    for (_, record) in corner("beyond", 2) {
        let passed = serde_json::json!({"a datatype or view that is not taken apart": 1});
        assert_eq!(record["passed_through"], passed, "{record}");
    }
}

/// Errors on the program's communicator are fatal by default, and this one is none of the program's.
#[test]
fn without_a_communicator_a_file_is_left_to_mpi() {
    require_mpi!(mpich);
    let bench = crate::bench(MPICH);
    let (program, file) = (bench.compile("corners.c"), bench.path("file"));
    let done = bench.run(&held(2), &program, &[file.to_str().unwrap(), "communicators"]).good();
    assert_eq!(done.text(), "none left\nnone left\n");
    assert_eq!(fs::read(&file).unwrap(), [[b'a'; 5000], [b'b'; 5000]].concat());
    assert!(!bench.records().exists(), "nothing was aggregated");
}

#[test]
fn a_thread_does_not_wait_for_a_collective_call_of_another() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    corner("threads", 3);
}

/// As many aggregators as MPICH's values of 1024 bytes have room for are all there; Open MPI's have 256.
#[test]
fn a_list_of_many_aggregators_is_cut() {
    require_mpi!(openmpi);
    let bench = crate::bench(OPEN_MPI);
    let hints = bench.path("hints");
    fs::write(&hints, "striping_unit 4096\n").unwrap();
    let way = held(90)
        .with("FOREBAY_MPIIO_AGGREGATORS", 90)
        .with("FOREBAY_MPIIO_AGGREGATION", "enable")
        .with("FOREBAY_MPIIO_STRATEGY", "balanced")
        .with("ROMIO_HINTS", hints.display());
    let file = bench.path("file");
    let done = bench.run(&way, &bench.compile("corners.c"), &[file.to_str().unwrap(), "information"]).good();
    let list = done.text();
    assert!(list.trim().ends_with(" ...") && list.trim().len() < 256, "{list}");
    assert!(list.split(' ').count() > 60, "{list}");
}

/// An error after the last call reaches no program: the file is marked, and so are the command's statements about it.
#[test]
fn bytes_that_cannot_be_written_at_the_end_are_marked() {
    require_mpi!(mpich);
    require!(Root, Command("mount"));
    let bench = crate::bench(MPICH);
    let small = Small::mounted(bench.path("small"), "1300k");
    let file = small.0.join("file");
    let done = bench.run(&held(2), &bench.compile("corners.c"), &[file.to_str().unwrap(), "leaves"]).good();
    let mark = fs::read_to_string(small.0.join("file.forebay-incomplete")).unwrap();
    assert!(mark.contains("rank 1, round 1: No space left") || mark.is_empty(), "{mark}");
    assert!(done.stderr.contains("rank 1, round 1: No space left"), "{}", done.stderr);
    assert_eq!(explained(&bench, &file)["state"], "incomplete");
}
