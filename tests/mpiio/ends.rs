//! Programs that end while they hold bytes: whatever still runs of the process writes them, and a file beside tells of the rest.

use super::*;

/// Collective calls of the program, and bytes of each.
const BYTES_OF_RANK: u64 = 6 * 5000;

/// How the program ended, the size of its file, and what is said of it.
struct Ended {
    printed: String,
    bytes: u64,
    /// Ranks that have seen all bytes before they ended.
    seen: usize,
    is_marked: bool,
    state: String,
}

fn ends(mpi: Mpi, how: &str, ranks: usize) -> Ended {
    ends_so(mpi, how, &Way::aggregated(ranks).with("FOREBAY_MPIIO_AGGREGATION", "enable"))
}

fn ends_so(mpi: Mpi, how: &str, way: &Way<'_>) -> Ended {
    let bench = crate::bench(mpi);
    let (program, file) = (bench.compile("ends.c"), bench.path("file"));
    let printed = bench.run(way, &program, &[file.to_str().unwrap(), how]).text();
    let state = explained(&bench, &file)["state"].as_str().unwrap().to_owned();
    let is_marked = bench.path("file.forebay-incomplete").exists();
    let seen = (0..2).filter(|rank| bench.path(&format!("file.seen-{rank}")).exists()).count();
    Ended { printed, bytes: fs::metadata(&file).unwrap().len(), seen, is_marked, state }
}

fn all_ends(mpi: Mpi) {
    // A launcher ends the other ranks when one ends in these ways, so there is one.
    for how in ["exit", "abort"] {
        let ended = ends(mpi, how, 1);
        assert_eq!((ended.bytes, ended.is_marked), (BYTES_OF_RANK, true), "{how}: it was never closed");
        assert_eq!(ended.state, "incomplete", "{how}");
    }
    let ended = ends(mpi, "return", 2);
    assert_eq!((ended.bytes, ended.is_marked, &*ended.state), (2 * BYTES_OF_RANK, true, "incomplete"), "return");
    let ended = ends(mpi, "kill", 2);
    assert_eq!((ended.is_marked, &*ended.state), (true, "incomplete"), "kill: from the first held byte on");
}

#[test]
fn held_bytes_are_written_at_the_end_and_the_file_is_marked_under_mpich() {
    require_mpi!(mpich);
    all_ends(MPICH);
}

#[test]
fn held_bytes_are_written_at_the_end_and_the_file_is_marked_under_open_mpi() {
    require_mpi!(openmpi);
    all_ends(OPEN_MPI);
}

/// Each rank looks at the file until all is there, and is killed when both have.
#[test]
fn bytes_are_not_held_for_long() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    for mpi in [MPICH, OPEN_MPI] {
        let ended = ends(mpi, "compute", 2);
        assert_eq!((ended.bytes, ended.seen), (2 * BYTES_OF_RANK, 2), "{}: {}", mpi.name, ended.printed);
        assert!(ended.is_marked);
    }
}

/// It has a copy of what the parent holds, which would come into the file a second time, late.
#[test]
fn a_child_writes_nothing_of_what_its_parent_holds() {
    require_mpi!(mpich);
    let ended = ends_so(MPICH, "child", &held(1));
    assert_eq!((&*ended.printed, ended.bytes), ("0 bytes\n", BYTES_OF_RANK));
    assert_eq!((ended.is_marked, &*ended.state), (false, "complete"));
}
