//! `make bench-read`: the speed and the memory of the read path, each figure against its bar.
//!
//! One module a measurement. Every comparison runs its sides in turn, in the same run, and compares medians; the JSON
//! keeps every single run. Baselines are what careful users do today, not only the plain file system.

mod bench;
mod fan_out;
mod first_replay;
mod large_file;
mod latencies;
mod listing;
mod memory;
mod prefill;
mod round_trip;
mod run;
mod scale_costs;
mod scale_model;
mod second_import;
mod security;
mod show;
mod simulated;
mod start;
mod storm;
mod ways;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use forebay_testkit::machine::Machine;
use forebay_testkit::results::{Measurement, Results};
use forebay_testkit::stop;

use bench::{Bench, BenchOptions};

/// Measures the read path and prints each figure with its bar.
#[derive(Parser)]
#[command(
    after_help = "Exit status: 0 every bar is met, 3 some are not, 1 a measurement failed, 130 stopped.\n\nExamples:\n  \
                  forebay-bench-read --quick\n  forebay-bench-read --only storm --only start\n  \
                  forebay-bench-read --markdown target/bench/read.json"
)]
struct Options {
    /// Only this measurement (repeatable)
    #[arg(long, value_name = "NAME", value_parser = MEASUREMENTS.map(|(name, _)| name))]
    only: Vec<String>,
    /// Print the table of results measured before, and measure nothing
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    bench: BenchOptions,
    /// Where the JSON goes [default: target/bench/read-SECONDS.json]
    #[arg(long)]
    json: Option<PathBuf>,
}

type Measure = fn(&Bench) -> anyhow::Result<Measurement>;

/// Every measurement by name, the short ones first.
const MEASUREMENTS: [(&str, Measure); 16] = [
    ("start", start::measure),
    ("run", run::measure),
    ("fan-out", fan_out::measure),
    ("round-trip", round_trip::measure),
    ("security", security::measure),
    ("first-replay", first_replay::measure),
    ("second-import", second_import::measure),
    ("listing", listing::measure),
    ("latencies", latencies::measure),
    ("memory", memory::measure),
    ("large-file", large_file::measure),
    ("simulated", simulated::measure),
    ("scale-model", scale_model::measure),
    ("prefill", prefill::measure),
    ("storm-1", storm::measure_one),
    ("storm-16", storm::measure_sixteen),
];

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.markdown {
        Some(file) => Results::read(file).map(|results| {
            print!("{}", show::markdown(&results));
            ExitCode::SUCCESS
        }),
        None => measure(options),
    };
    stop::exit_code("forebay-bench-read", outcome)
}

fn measure(options: Options) -> anyhow::Result<ExitCode> {
    stop::on_signals().context("cannot watch for Ctrl-C")?;
    let mut results = Results::new(Machine::here(".".as_ref()));
    let default = format!("target/bench/read-{}.json", results.started_unix);
    let json = options.json.clone().unwrap_or_else(|| default.into());
    let only = options.only.clone();
    let bench = Bench::new(options.bench)?;
    println!("Machine: {}", results.machine.described());
    let mut failed = Vec::new();
    for (name, measure) in MEASUREMENTS {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        stop::check()?;
        println!("\n{name}");
        match measure(&bench) {
            Ok(measurement) => {
                show::measured(&measurement);
                results.measurements.insert(name.to_owned(), measurement);
                // After each one: what is measured is kept when a later one fails.
                results.write(&json)?;
            }
            Err(error) if error.is::<stop::Stopped>() => return Err(error),
            Err(error) => {
                println!("  FAILED: {error:#}");
                failed.push(name);
            }
        }
    }
    drop(bench);
    show::all_bars(&results);
    println!("The JSON: {}", json.display());
    if !failed.is_empty() {
        bail!("these measurements failed: {}", failed.join(", "));
    }
    let met = results.measurements.values().flat_map(|measurement| &measurement.bars).all(|bar| bar.met);
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(EXIT_IN_PART) })
}

/// Everything was measured, but not every bar is met.
const EXIT_IN_PART: u8 = 3;
