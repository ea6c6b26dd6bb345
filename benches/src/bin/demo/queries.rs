//! The query path: statistics of all columns of a CSV file, by `forebay query` and by Python's csv module with a plain loop.
//!
//! Both read the same file from the page cache and must agree on the results.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use forebay_bench::cpu;
use forebay_bench::python::Python;
use forebay_bench::quiet::{Gauge, Measured, Repeater};
use forebay_testkit::scratch::Scratch;
use forebay_testkit::{Place, run};
use serde::Deserialize;

use crate::checkpoint::local_directory;
use crate::document::Answer;
use crate::options::Options;
use crate::show;
use crate::site::Site;

/// About 42 MB. Python takes a second or two for it.
const ROWS: u64 = 1_000_000;

/// One run of `forebay query` is over in milliseconds, in which the processors' counters tick a few times.
const FOREBAY_RUNS: u32 = 20;

/// By how much the results may differ, as a share: a plain loop loses digits where Forebay does not.
const TOLERANCE: f64 = 1e-6;

/// The statistics of a column that both print.
#[derive(Deserialize)]
struct Column {
    count: u64,
    mean: f64,
    min: f64,
    max: f64,
    deviation: f64,
}

#[derive(Deserialize)]
struct Statistics {
    columns: Vec<Column>,
    /// Python's alone.
    #[serde(default)]
    cpu_seconds: f64,
    seconds: f64,
}

/// Measures both, Forebay first.
pub fn measure(
    site: &Site,
    python: &Python,
    options: &Options,
    repeater: &mut Repeater,
) -> anyhow::Result<(Measured<Answer>, Measured<Answer>)> {
    let scratch = Scratch::new(&local_directory(options), "forebay-demo-query")?;
    let log = scratch.path().join("log.csv");
    let bytes = write_log(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let (mut ours, mut pythons) = (None, None);
    let told = |run: &Answer, reason: &str| show::repeated(run.seconds, reason);
    show::progress("statistics of a CSV file by forebay query");
    let by_forebay = repeater.measure(told, || {
        let gauge = Gauge::start(site.own_cpu(&[])?)?;
        let (answer, statistics) = by_forebay(site, &log, bytes)?;
        ours = Some(statistics);
        Ok((answer, gauge.finish(site.own_cpu(&[])?)?))
    })?;
    show::done(&by_forebay, by_forebay.value.seconds);
    show::progress("the same statistics by Python");
    let by_python = repeater.measure(told, || {
        let gauge = Gauge::start(site.own_cpu(&[])?)?;
        let (answer, statistics) = by_python(python, options, &log, bytes)?;
        pythons = Some(statistics);
        Ok((answer, gauge.finish(site.own_cpu(&[])?)?))
    })?;
    show::done(&by_python, by_python.value.seconds);
    let (ours, pythons) = (ours.context("a query has run")?, pythons.context("a query has run")?);
    ensure!(agree(&ours, &pythons), "the statistics of Forebay and Python differ; this is a defect of Forebay");
    Ok((by_forebay, by_python))
}

/// Means of several runs of one command each, from its start to its end.
fn by_forebay(site: &Site, log: &Path, bytes: u64) -> anyhow::Result<(Answer, Statistics)> {
    let (start, cpu) = (Instant::now(), cpu::of_children()?);
    let mut text = String::new();
    for _ in 0..FOREBAY_RUNS {
        text =
            run::output(&mut site.forebay().command(&["query".into(), "stats".into(), log.into(), "--json".into()]))?;
    }
    let mean = |whole: std::time::Duration| whole.as_secs_f64() / f64::from(FOREBAY_RUNS);
    let (seconds, cpu_seconds) = (mean(start.elapsed()), mean(cpu::of_children()?.saturating_sub(cpu)));
    let statistics = serde_json::from_str(&text).context("forebay query --json")?;
    Ok((Answer { bytes, rows: ROWS, seconds, cpu_seconds }, statistics))
}

/// Without the start of Python.
fn by_python(python: &Python, options: &Options, log: &Path, bytes: u64) -> anyhow::Result<(Answer, Statistics)> {
    let script: PathBuf = options.programs.join("csv_statistics.py");
    let text = run::output(&mut Place::here().command(&python.script(&script, &[log.into()])))?;
    let statistics: Statistics = serde_json::from_str(&text).context("Python's statistics")?;
    let (seconds, cpu_seconds) = (statistics.seconds, statistics.cpu_seconds);
    Ok((Answer { bytes, rows: ROWS, seconds, cpu_seconds }, statistics))
}

fn agree(one: &Statistics, other: &Statistics) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE * a.abs().max(b.abs());
    let alike = |(a, b): (&Column, &Column)| {
        let pairs = [(a.mean, b.mean), (a.min, b.min), (a.max, b.max), (a.deviation, b.deviation)];
        a.count == b.count && pairs.iter().all(|(a, b)| near(*a, *b))
    };
    !one.columns.is_empty()
        && one.columns.len() == other.columns.len()
        && one.columns.iter().zip(&other.columns).all(alike)
}

/// A log of a plant: six columns of numbers. The same on every machine.
fn write_log(path: &Path) -> std::io::Result<u64> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "second,flow,level,inlet,outlet,turbidity")?;
    let mut state = 1_u64;
    let mut below = |most: u64| {
        // Knuth's constants for random numbers modulo 2^64; the upper bits are the random ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for row in 0..ROWS {
        let (flow, level, inlet) = (below(900_000), below(40_000), below(30_000));
        let (outlet, turbidity) = (below(30_000), below(10_000));
        writeln!(
            file,
            "{row},{}.{:03},{}.{:03},{}.{:03},{}.{:03},0.{turbidity:04}",
            flow / 1000,
            flow % 1000,
            level / 1000,
            level % 1000,
            inlet / 1000,
            inlet % 1000,
            outlet / 1000,
            outlet % 1000
        )?;
    }
    file.flush()?;
    Ok(path.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(mean: f64) -> Statistics {
        let column = Column { count: 3, mean, min: 1.0, max: 2.0, deviation: 0.5 };
        Statistics { columns: vec![column], cpu_seconds: 0.0, seconds: 0.0 }
    }

    #[test]
    fn statistics_that_differ_are_noticed() {
        assert!(agree(&statistics(1.5), &statistics(1.5 + 1e-12)));
        assert!(!agree(&statistics(1.5), &statistics(1.51)));
        assert!(!agree(&statistics(1.5), &Statistics { columns: Vec::new(), ..statistics(1.5) }));
    }
}
