//! Requests at the file, counted below everything, between the program and the C library: 8 ranks, 1 aggregator, stripes of
//! 1 MiB. The bars are those of docs/mpiio.md, against ROMIO's own collective buffering.

use forebay_tests::mpi::{HACC_BARS, HaccRequests};

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
