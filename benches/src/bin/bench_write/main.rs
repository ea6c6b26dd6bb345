//! The burst mount against the file system that its store lies on: what programs that write notice.
//!
//! Both sides of a comparison run in turn on the same file system; ratios are medians of ratios of neighbouring runs, since
//! the speed of a disk drifts. Written files land between the runs: each is timed to its
//! fsync, before it is closed.

mod bed;
mod changes;
mod landing;
mod large_tree;
mod latencies;
mod limited_disk;
mod metadata;
mod more_nodes;
mod read_back;
mod restart;
mod slow_backing;
mod small;
mod stream;
mod waits;
mod walk;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use forebay_bench::table::Table;
use forebay_testkit::machine::Machine;
use forebay_testkit::results::{Measurement, Results};
use forebay_testkit::stop;

use bed::Bed;

/// Measures the write path as programs see it and prints each figure with its bar.
#[derive(Parser)]
#[command(
    after_help = "Exit status: 0 every bar is met, 3 some are not, 1 a measurement failed, 130 stopped.\n\nExamples:\n  \
                  forebay-bench-write --quick\n  forebay-bench-write --only stream --dir /mnt/nvme"
)]
struct Options {
    /// Only this measurement (repeatable)
    #[arg(long, value_name = "NAME", value_parser = MEASUREMENTS.map(|(name, _)| name))]
    only: Vec<String>,
    /// Where stores and files are made, and removed afterwards
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    dir: PathBuf,
    /// Fewer runs
    #[arg(long)]
    quick: bool,
    /// Where the JSON goes [default: target/bench/write-SECONDS.json]
    #[arg(long)]
    json: Option<PathBuf>,
}

type Measure = fn(&Bed) -> anyhow::Result<Measurement>;

const MEASUREMENTS: [(&str, Measure); 13] = [
    ("stream", stream::measure),
    ("small", small::measure),
    ("metadata", metadata::measure),
    ("read-back", read_back::measure),
    ("changes", changes::measure),
    ("restart", restart::measure),
    ("large-tree", large_tree::measure),
    ("landing-cpu", landing::measure),
    ("slow-backing", slow_backing::measure),
    ("more-nodes", more_nodes::measure),
    ("waits", waits::measure),
    ("walk", walk::measure),
    ("latencies", latencies::measure),
];

/// Everything was measured, but not every bar is met.
const EXIT_IN_PART: u8 = 3;

fn main() -> ExitCode {
    stop::exit_code("forebay-bench-write", measure(&Options::parse()))
}

fn measure(options: &Options) -> anyhow::Result<ExitCode> {
    stop::on_signals().context("cannot watch for Ctrl-C")?;
    let mut results = Results::new(Machine::here(".".as_ref()));
    let default = format!("target/bench/write-{}.json", results.started_unix);
    let json = options.json.clone().unwrap_or_else(|| default.into());
    let bed = Bed::up(&options.dir, options.quick)?;
    println!("Machine: {}", results.machine.described());
    let mut failed = Vec::new();
    for (name, measure) in MEASUREMENTS {
        if !options.only.is_empty() && !options.only.iter().any(|wanted| wanted == name) {
            continue;
        }
        stop::check()?;
        println!("\n{name}");
        match measure(&bed) {
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
    bed.down()?;
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
