//! How long the planner takes itself, strategy by strategy: processor time of its one thread, since the machine may be busy with
//! other work.

use std::collections::BTreeMap;

use forebay_aggregate::{Strategy, plan};
use forebay_bench::cpu;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::job::{MEBIBYTE, Work, case};
use crate::options::BenchOptions;

/// Runs of each strategy.
const RUNS: u64 = 5;

/// 4,096 nodes and 256 aggregators, in one round and in 16.
pub fn measure(_: &BenchOptions) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::under(format!(
        "measured, processor time: 4,096 nodes, 256 aggregators, as scattered, {RUNS} runs of each strategy"
    ));
    for rounds in [1, 4, 16] {
        let mut taken: BTreeMap<&str, Samples> = BTreeMap::new();
        for seed in 1..=RUNS {
            stop::check()?;
            let case = case(Work { rounds: Some(rounds), ..MEBIBYTE }, Some(seed))?;
            for strategy in Strategy::ALL {
                let before = cpu::of_this()?;
                plan(&case, strategy)?;
                taken.entry(strategy.name()).or_default().add((cpu::of_this()? - before).as_secs_f64());
            }
        }
        let slowest = taken.values().map(Samples::median).fold(0.0, f64::max);
        let what = format!("processor time of the slowest strategy, {rounds} rounds");
        measurement.bar(Bar::new(what, slowest, Side::AtMost, 1.0, "s"));
        measurement.figure(&format!("cpu_seconds_{rounds}_rounds"), taken);
    }
    Ok(measurement)
}
