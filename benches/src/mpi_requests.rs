//! Requests at one file: ranks by themselves, ROMIO's collective buffering, the library for MPI-IO programs.

use std::path::Path;

use forebay_testkit::mpi::{Bench, HACC_BARS, HaccRequests, OPEN_MPI, RestartRequests};
use forebay_testkit::results::{Bar, Measurement, Side};
use forebay_testkit::stop;

/// Counts them for HACC's patterns, with the programs of the repository at `root`.
///
/// # Errors
/// Once the user has asked to stop.
pub fn measure(root: &Path) -> anyhow::Result<Measurement> {
    let bench = Bench::new(OPEN_MPI, root);
    let mut measurement = Measurement::under(
        "HACC's 9 variables, 38 bytes a particle, 8 ranks, 1 aggregator, Open MPI with ROMIO (romio321) on a local file: write \
         requests counted between the program and the C library, cut at stripes of 1 MiB; Forebay with forebay_hold=yes",
    );
    for bar in HACC_BARS {
        stop::check()?;
        let HaccRequests { independent, romio, ours } = bench.hacc_requests(bar);
        let name = format!("{}_{}", bar.pattern.replace('-', "_"), bar.particles);
        measurement.figure(&format!("{name}_independent_requests"), independent);
        measurement.figure(&format!("{name}_romio_requests"), romio);
        measurement.figure(&format!("{name}_forebay_requests"), ours);
        let what = format!("requests for {}, {} particles a rank, of those of ROMIO", bar.pattern, bar.particles);
        measurement.bar(Bar::new(what, ours as f64 / romio as f64, Side::AtMost, 1.0 / bar.times as f64, "x"));
    }
    Ok(measurement)
}

/// Counts what a restart on another number of ranks reads, with the programs of the repository at `root`.
///
/// # Errors
/// Once the user has asked to stop.
pub fn measure_restart(root: &Path) -> anyhow::Result<Measurement> {
    let bench = Bench::new(OPEN_MPI, root);
    let mut measurement = Measurement::under(
        "A checkpoint of HACC's 9 variables by 8 ranks as structs, read by 6 ranks, a variable at a time; 1 aggregator, Open MPI with \
         ROMIO (romio321) on a local file: read requests counted between the program and the C library, cut at stripes of 1 MiB, \
         and bytes",
    );
    for particles in [25_000, 500] {
        stop::check()?;
        let RestartRequests { file_bytes, independent, romio, ours } = bench.restart_requests(particles);
        measurement.figure(&format!("restart_{particles}_file_bytes"), file_bytes);
        for (who, reads) in [("independent", independent), ("romio", romio), ("forebay", ours)] {
            measurement.figure(&format!("restart_{particles}_{who}_requests"), reads.requests);
            measurement.figure(&format!("restart_{particles}_{who}_bytes"), reads.bytes);
        }
    }
    Ok(measurement)
}
