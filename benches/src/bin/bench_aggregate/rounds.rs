//! Rounds that overlap: four of them, with two buffers.

use forebay_aggregate::Strategy;
use forebay_testkit::results::{Measurement, Side};

use crate::job::{MEBIBYTE, Totals, Work};
use crate::options::BenchOptions;
use crate::placement::bars;

/// Joint placement against the I/O floor.
pub fn measure(options: &BenchOptions) -> anyhow::Result<Measurement> {
    let work = Work { rounds: Some(4), ..MEBIBYTE };
    let strategies = [Strategy::Nearest, Strategy::Poster, Strategy::Balanced, Strategy::Joint];
    let totals = Totals::of(work, &strategies, (1..=options.seeds).map(Some))?;
    let mut measurement = Measurement::under(format!(
        "simulated: as scattered, in four rounds with two buffers, {} seeds",
        options.seeds
    ));
    let ratios = totals.strategy(Strategy::Joint).over(&totals.floor);
    bars(&mut measurement, "joint over the I/O floor, four rounds", &ratios, Side::AtMost, 1.05);
    measurement.figure("total_s", totals.by_name());
    Ok(measurement)
}
