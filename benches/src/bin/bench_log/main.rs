//! A node's log against the file system that it lies on: appends, commits, and the time a recovery takes.
//!
//! Both sides of a comparison run in turn on the same file system; ratios are medians of ratios of neighbouring runs, since
//! the speed of a disk drifts.

mod commits;
mod index;
mod place;
mod stream;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use forebay_bench::table::Table;
use forebay_testkit::machine::Machine;
use forebay_testkit::results::{Measurement, Results};
use forebay_testkit::stop;

use place::Place;

/// Measures the log of the write path and prints each figure with its bar.
#[derive(Parser)]
#[command(
    after_help = "Exit status: 0 every bar is met, 3 some are not, 1 a measurement failed, 130 stopped.\n\nExamples:\n  \
                  forebay-bench-log --quick\n  forebay-bench-log --only index --dir /mnt/nvme --index-gib 10"
)]
struct Options {
    /// Only this measurement (repeatable)
    #[arg(long, value_name = "NAME", value_parser = MEASUREMENTS.map(|(name, _)| name))]
    only: Vec<String>,
    /// Where stores and files are made, and removed afterwards
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    dir: PathBuf,
    /// GiB of the log that is indexed
    #[arg(long, value_name = "N", default_value_t = 10)]
    index_gib: u64,
    /// Fewer runs
    #[arg(long)]
    quick: bool,
    /// Where the JSON goes [default: target/bench/log-SECONDS.json]
    #[arg(long)]
    json: Option<PathBuf>,
}

type Measure = fn(&Place) -> anyhow::Result<Measurement>;

const MEASUREMENTS: [(&str, Measure); 3] =
    [("stream", stream::measure), ("commits", commits::measure), ("index", index::measure)];

/// Everything was measured, but not every bar is met.
const EXIT_IN_PART: u8 = 3;

fn main() -> ExitCode {
    stop::exit_code("forebay-bench-log", measure(&Options::parse()))
}

fn measure(options: &Options) -> anyhow::Result<ExitCode> {
    stop::on_signals().context("cannot watch for Ctrl-C")?;
    let mut results = Results::new(Machine::here(".".as_ref()));
    let default = format!("target/bench/log-{}.json", results.started_unix);
    let json = options.json.clone().unwrap_or_else(|| default.into());
    let place = Place::new(&options.dir, options.quick, options.index_gib)?;
    println!("Machine: {}", results.machine.described());
    let mut failed = Vec::new();
    for (name, measure) in MEASUREMENTS {
        if !options.only.is_empty() && !options.only.iter().any(|wanted| wanted == name) {
            continue;
        }
        stop::check()?;
        println!("\n{name}");
        match measure(&place) {
            Ok(measurement) => {
                show(&measurement);
                results.measurements.insert(name.to_owned(), measurement);
                results.write(&json)?;
            }
            Err(error) if error.is::<stop::Stopped>() => return Err(error),
            Err(error) => {
                println!("  FAILED: {error:#}");
                failed.push(name);
            }
        }
    }
    println!("\nThe JSON: {}", json.display());
    if !failed.is_empty() {
        bail!("these measurements failed: {}", failed.join(", "));
    }
    let met = results.measurements.values().flat_map(|measurement| &measurement.bars).all(|bar| bar.met);
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(EXIT_IN_PART) })
}

fn show(measurement: &Measurement) {
    println!("  {}", measurement.conditions);
    let mut table = Table::new();
    for (name, value) in &measurement.figures {
        let of = |field: &str| value.get(field).and_then(serde_json::Value::as_f64);
        if let (Some(median), Some(min), Some(max)) = (of("median"), of("min"), of("max")) {
            table.row([name.clone(), format!("{median:.3}"), format!("({min:.3} to {max:.3})")]);
        }
    }
    for bar in &measurement.bars {
        let verdict = if bar.met { "met" } else { "NOT MET" };
        table.row([bar.what.clone(), bar.figure_text(), format!("({}, {verdict})", bar.bar_text())]);
    }
    print!("{table}");
}
