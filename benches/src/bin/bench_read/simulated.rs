//! The bars of the scale model. Nothing is measured: the same seed gives the same figures on every machine.

use forebay_bench::results::{Bar, Measurement, Side};
use forebay_bench::stop;
use forebay_sim::scale;

use crate::bench::Bench;

/// Scenarios with a bar; the first takes minutes.
const SCENARIOS: [&str; 3] = ["cold", "start", "links"];

const SEED: u64 = 1;

/// Runs every scenario that has a bar.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::under(format!(
        "figures of the scale model (`forebay simulate --check`), seed {SEED}, of no machine; docs/scale.md has its parameters"
    ));
    for name in &SCENARIOS[usize::from(bench.quick)..] {
        stop::check()?;
        let scenario = scale::find(name).ok_or_else(|| anyhow::anyhow!("there is no scenario {name}"))?;
        for bar in (scenario.run)(&scale::for_bars(name, SEED)).bars {
            let what = format!("by the model: {}", bar.what);
            measurement.bar(Bar::new(what, bar.figure, Side::AtMost, bar.at_most, bar.unit));
        }
    }
    Ok(measurement)
}
