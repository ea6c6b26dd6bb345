//! Prints the figures of MPI programs, in the repository: requests, what a restart reads, and as root the time against ROMIO.

use std::path::Path;

use forebay_bench::{mpi_requests, mpi_time};

fn main() -> anyhow::Result<()> {
    forebay_testkit::stop::on_signals()?;
    for measure in [mpi_requests::measure, mpi_requests::measure_restart, mpi_time::measure] {
        println!("{}", serde_json::to_string_pretty(&measure(Path::new("."))?)?);
    }
    Ok(())
}
