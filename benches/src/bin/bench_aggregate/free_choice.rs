//! The strategies with no pinned numbers: each with its own count and rounds. No bar: counts differ.

use forebay_aggregate::Strategy;
use forebay_testkit::results::Measurement;

use crate::job::{MEBIBYTE, Totals, Work};
use crate::options::BenchOptions;

/// All strategies, 1 MiB a node and 1 KiB a rank.
pub fn measure(options: &BenchOptions) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::under(format!(
        "simulated: as scattered and as small-messages, nothing pinned, {} seeds",
        options.seeds
    ));
    let free = Work { aggregators: None, rounds: None, ..MEBIBYTE };
    let small = Work { per_node: 16, bytes: 1 << 10, stripe_bytes: 64 << 10, ..free };
    for (name, work) in [("total_s_1_mib", free), ("total_s_1_kib", small)] {
        let totals = Totals::of(work, &Strategy::ALL, (1..=options.seeds).map(Some))?;
        measurement.figure(name, totals.by_name());
    }
    Ok(measurement)
}
