//! `make check-simgrid`: Forebay's flow model against SimGrid's, on random cases.
//!
//! SimGrid (`benches/simgrid/flows.cpp`) is told the links of every route and the bytes of every flow, made here from the plan
//! and the ranks' extents alone, and not from what the flow model made of them. So how flows share links, and when rounds
//! begin, is computed twice by programs that share no code; routes are not checked. By default SimGrid shares links
//! as the flow model does, without favour; `--biased` shows what its favour for short routes makes of it.

mod cases;
mod exchange;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::Parser;
use forebay_aggregate::plan;
use forebay_bench::table::Table;
use forebay_testkit::stop;

/// Compares the flow model's totals with SimGrid's.
#[derive(Parser)]
#[command(
    after_help = "Exit status: 0 enough cases agree, 3 they do not, 1 something failed, 130 stopped.\n\nExamples:\n  \
                        forebay-check-simgrid --flows target/simgrid/flows --cases 10"
)]
struct Options {
    /// The program that SimGrid runs (benches/check-simgrid.sh builds it)
    #[arg(long, value_name = "FILE")]
    flows: PathBuf,
    /// Random cases, by number from 1 on
    #[arg(long, default_value_t = 60)]
    cases: u64,
    /// Let SimGrid give a flow less of a link the longer its route is, as TCP does
    #[arg(long)]
    biased: bool,
}

/// Totals that differ by this part at most agree.
const AGREE_WITHIN: f64 = 0.05;

/// The part of the cases that must agree.
const AGREE_PART: f64 = 0.95;

/// Everything was compared, but too few cases agree.
const EXIT_IN_PART: u8 = 3;

fn main() -> ExitCode {
    stop::exit_code("forebay-check-simgrid", check(&Options::parse()))
}

fn check(options: &Options) -> anyhow::Result<ExitCode> {
    stop::on_signals().context("cannot watch for Ctrl-C")?;
    let mut table = Table::new();
    table.row(["case", "nodes", "strategy", "aggregators", "rounds", "flow model, s", "SimGrid, s", "apart, %"]);
    let mut apart = vec![];
    for number in 1..=options.cases {
        stop::check()?;
        let random = cases::random(number)?;
        let plan = plan(&random.case, random.strategy)?;
        let mut flows = Command::new(&options.flows);
        flows.args(options.biased.then_some("biased"));
        let simgrid_s = exchange::by_simgrid(&mut flows, &random.case, random.buffers, &plan)
            .with_context(|| format!("case {number}"))?;
        let total_s = plan.predicted.total_s;
        apart.push((total_s / simgrid_s - 1.0).abs());
        table.row([
            format!("{number} {}", random.topology),
            random.case.node_count().to_string(),
            plan.strategy.name().to_owned(),
            plan.aggregators.len().to_string(),
            plan.rounds.to_string(),
            format!("{total_s:.6}"),
            format!("{simgrid_s:.6}"),
            format!("{:.2}", (total_s / simgrid_s - 1.0) * 100.0),
        ]);
    }
    let agree = apart.iter().filter(|apart| **apart <= AGREE_WITHIN).count();
    let worst = apart.iter().copied().fold(0.0, f64::max);
    println!("{table}");
    println!("{agree} of {} cases within {AGREE_WITHIN} of SimGrid; the worst is {worst:.4} apart", apart.len());
    let enough = agree as f64 >= AGREE_PART * apart.len() as f64;
    Ok(if enough { ExitCode::SUCCESS } else { ExitCode::from(EXIT_IN_PART) })
}
