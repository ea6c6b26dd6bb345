//! The bars of the scale model. They need no measurement: the same seed gives the same figures on every machine.

use anyhow::Context;
use forebay_scale::SCENARIOS;
use forebay_testkit::results::{Bar, Measurement, Side};
use forebay_testkit::stop;

use crate::bench::Bench;

/// The scenario that takes minutes.
const LONG: &str = "cold";

const SEED: u64 = 1;

/// Runs every scenario that has a bar.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::under(format!(
        "figures of the scale model (`forebay simulate --check`), seed {SEED}, of no machine; docs/scale.md has its parameters"
    ));
    let has_bars = SCENARIOS.iter().filter(|scenario| !scenario.bars_at.is_empty());
    for scenario in has_bars.filter(|scenario| !bench.quick || scenario.name != LONG) {
        stop::check()?;
        for bar in scenario.run(scenario.bars_at, SEED).bars {
            let what = format!("by the model: {}", bar.what);
            let figure = bar.figure.with_context(|| format!("{what}: a start failed, so there is no figure"))?;
            measurement.bar(Bar::new(what, figure, Side::AtMost, bar.at_most, bar.unit));
        }
    }
    Ok(measurement)
}
