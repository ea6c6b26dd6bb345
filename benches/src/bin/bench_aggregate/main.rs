//! `make bench-aggregate`: the figures of aggregation, each against its bar.
//!
//! One module a measurement, one line in `MEASUREMENTS`. Simulated figures depend on their seeds alone and are the same on
//! every machine; measured are the planner's own time and, with a real MPI, requests at a file, the reads of a
//! restart, and the time of strided writes and of a lattice over GlusterFS.

mod free_choice;
mod job;
mod options;
mod placement;
mod planner_time;
mod rounds;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use forebay_bench::table::Table;
use forebay_bench::{mpi_grid, mpi_requests, mpi_time};
use forebay_testkit::machine::Machine;
use forebay_testkit::results::{Bar, Measurement, Results};
use forebay_testkit::stop;

use options::BenchOptions;

/// Measures aggregation and prints each figure with its bar.
#[derive(Parser)]
#[command(
    after_help = "Exit status: 0 every bar is met, 3 some are not, 1 a measurement failed, 130 stopped.\n\nExamples:\n  \
                        forebay-bench-aggregate --seeds 3\n  forebay-bench-aggregate --only scattered"
)]
struct Options {
    /// Only this measurement (repeatable)
    #[arg(long, value_name = "NAME", value_parser = MEASUREMENTS.map(|(name, _)| name))]
    only: Vec<String>,
    #[command(flatten)]
    bench: BenchOptions,
    /// Where the JSON goes [default: target/bench/aggregate-SECONDS.json]
    #[arg(long)]
    json: Option<PathBuf>,
}

type Measure = fn(&BenchOptions) -> anyhow::Result<Measurement>;

/// Every measurement by name.
const MEASUREMENTS: [(&str, Measure); 11] = [
    ("scattered", placement::scattered),
    ("small-messages", placement::small_messages),
    ("aligned", placement::aligned),
    ("rounds", rounds::measure),
    ("free-choice", free_choice::measure),
    ("planner-time", planner_time::measure),
    ("mpi-requests", |_| mpi_requests::measure(".".as_ref())),
    ("mpi-restart", |_| mpi_requests::measure_restart(".".as_ref())),
    ("mpi-time", |_| mpi_time::measure(".".as_ref())),
    ("mpi-time-here", |_| mpi_time::measure_here(".".as_ref())),
    ("mpi-grid", |_| mpi_grid::measure(".".as_ref())),
];

/// Everything was measured, but not every bar is met.
const EXIT_IN_PART: u8 = 3;

fn main() -> ExitCode {
    stop::exit_code("forebay-bench-aggregate", measure(Options::parse()))
}

fn measure(options: Options) -> anyhow::Result<ExitCode> {
    stop::on_signals().context("cannot watch for Ctrl-C")?;
    let mut results = Results::new(Machine::here(".".as_ref()));
    let default = format!("target/bench/aggregate-{}.json", results.started_unix);
    let json = options.json.unwrap_or_else(|| default.into());
    println!("Machine: {}", results.machine.described());
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let mut failed = vec![];
    for (name, measure) in MEASUREMENTS.into_iter().filter(|(name, _)| wanted(name)) {
        stop::check()?;
        println!("\n{name}");
        match measure(&options.bench) {
            Ok(measurement) => {
                println!("  {}", measurement.conditions);
                measurement.figures.iter().for_each(|(figure, value)| println!("{}", figures(figure, value)));
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
    println!("\n{}The JSON: {}", bars(&results), json.display());
    if !failed.is_empty() {
        bail!("these measurements failed: {}", failed.join(", "));
    }
    let met = results.measurements.values().flat_map(|measurement| &measurement.bars).all(|bar| bar.met);
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(EXIT_IN_PART) })
}

/// Samples, or several by name: the middle, the least and the most of each. Or what was counted, once.
fn figures(name: &str, samples: &serde_json::Value) -> Table {
    let mut table = Table::new();
    if samples.is_number() {
        table.row([name, &samples.to_string()]);
        return table;
    }
    table.row([name, "median", "min", "max"]);
    let mut row = |each: &str, samples: &serde_json::Value| {
        let cell = |field: &str| samples[field].as_f64().map_or("-".to_owned(), |value| format!("{value:.5}"));
        table.row([format!("  {each}"), cell("median"), cell("min"), cell("max")]);
    };
    if samples["median"].is_number() {
        row("", samples);
    } else {
        samples.as_object().into_iter().flatten().for_each(|(each, samples)| row(each, samples));
    }
    table
}

fn bars(results: &Results) -> Table {
    let mut table = Table::new();
    table.row(["", "figure", "bar", ""]);
    for bar in results.measurements.values().flat_map(|measurement| &measurement.bars) {
        let Bar { what, met, .. } = bar;
        let verdict = if *met { "met" } else { "NOT MET" };
        table.row([what.clone(), bar.figure_text(), bar.bar_text(), verdict.to_owned()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn samples_are_shown_alone_and_by_name() {
        let samples = json!({"median": 1.5, "min": 1.0, "max": 2.25, "runs": [1.0, 1.5, 2.25]});
        for shown in [figures("time", &samples), figures("time", &json!({"first": samples}))] {
            let shown = shown.to_string();
            let numbers = ["1.50000", "1.00000", "2.25000"];
            assert!(numbers.iter().all(|number| shown.contains(number)), "{shown}");
        }
    }
}
