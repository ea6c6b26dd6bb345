//! Requests at the file, counted below everything, between the program and the C library: 8 ranks, 1 aggregator, stripes of
//! 1 MiB. The bars are those of docs/mpiio.md, against ROMIO's own collective buffering.

use forebay_tests::mpi::{HACC_BARS, HaccRequests, RestartRequests};

use super::*;

#[test]
fn fewer_requests_than_the_collective_buffering_of_romio() {
    require_mpi!(openmpi);
    require!(Command("cc"));
    let bench = crate::bench(OPEN_MPI);
    for bar in HACC_BARS {
        let HaccRequests { romio, ours, .. } = bench.hacc_requests(bar);
        assert!(ours * bar.times <= romio, "{bar:?}: {ours} requests against {romio} of ROMIO");
    }
}

/// On another number of ranks. ROMIO reads whole ranges for every variable.
#[test]
fn a_restart_reads_large_pieces_once_and_small_ones_together() {
    require_mpi!(openmpi);
    require!(Command("cc"));
    let bench = crate::bench(OPEN_MPI);
    let reads = bench.restart_requests(25_000);
    let RestartRequests { file_bytes, independent, romio, ours } = reads;
    assert_eq!((ours.bytes, independent.bytes), (file_bytes, file_bytes), "{reads:?}");
    assert!(ours.requests < independent.requests && romio.bytes >= 8 * ours.bytes, "{reads:?}");
    let reads = bench.restart_requests(500);
    assert!(
        reads.ours.requests * 8 <= reads.independent.requests && reads.ours.requests <= reads.romio.requests,
        "{reads:?}"
    );
}
