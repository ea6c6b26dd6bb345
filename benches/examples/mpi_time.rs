//! Measures the time of small strided writes against ROMIO and prints the figures, as root, in the repository.

use std::path::Path;

fn main() -> anyhow::Result<()> {
    forebay_testkit::stop::on_signals()?;
    let measurement = forebay_bench::mpi_time::measure(Path::new("."))?;
    println!("{}", serde_json::to_string_pretty(&measurement)?);
    Ok(())
}
