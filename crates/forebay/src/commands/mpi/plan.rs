//! `plan CASE`: every strategy's aggregators for a topology and sizes, side by side, with predicted times.
//!
//! The planner decides (`forebay_aggregate`); here a case is read and plans are shown. No measurement is made and no
//! job is asked.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use forebay_aggregate::{Case, CaseDescription, Plan, Strategy, TopologyDescription, plan, plan_all};
use serde_json::{Value, json};

use crate::cli::PlanArguments;
use crate::columns;
use crate::commands::mpi::plan_svg::svg;
use crate::output::say;
use crate::settings::UsageError;

/// The largest case that is read, bytes: the most extents that are planned for, written out.
const CASE_BYTES_MAX: u64 = 1 << 30;

/// The largest description of switches, bytes: a line of a kilobyte for each node of the largest job.
const SWITCHES_BYTES_MAX: u64 = 1 << 30;

/// Totals closer to each other than this part of the least are equal for people.
const EQUAL_PART: f64 = 0.01;

/// A case that can be planned: a torus, with the I/O nodes of two of its faces.
const EXAMPLE: &str = include_str!("plan_example.json");

/// Plans a case.
pub fn run(arguments: &PlanArguments) -> anyhow::Result<ExitCode> {
    let wanted = Wanted::parse(&arguments.strategy)?;
    let Some(case) = &arguments.case else {
        say!("{}", EXAMPLE.trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    let case = read(case)?;
    let not_written = |file: &PathBuf| format!("the plot cannot be written to {}", file.display());
    // Whether it can be written is known before it takes time to plan; what is there stays until there is a plan.
    let create = |file| File::options().write(true).create(true).truncate(false).open(file);
    let create = |file| create(file).with_context(|| not_written(file));
    let plot = arguments.plot.as_ref().map(|file| create(file).map(|open| (file, open))).transpose()?;
    let (plans, best) = wanted.plans(&case).context("there is no plan")?;
    if arguments.json {
        say!("{}", in_json(&case, &plans, best));
    } else {
        print(&case, &plans, best);
    }
    if let Some((file, mut open)) = plot {
        let written = cut(&open).and_then(|()| open.write_all(svg(&case, &plans).as_bytes()));
        written.with_context(|| not_written(file))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Empties a file; of a pipe or terminal there is nothing to empty.
fn cut(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

/// Which plans are shown.
enum Wanted {
    All,
    Best,
    One(Strategy),
}

impl Wanted {
    fn parse(name: &str) -> anyhow::Result<Self> {
        match name {
            "all" => Ok(Self::All),
            "best" => Ok(Self::Best),
            name => match name.parse() {
                Ok(strategy) => Ok(Self::One(strategy)),
                Err(unknown) => Err(UsageError(format!("--strategy: {unknown}, all and best")).into()),
            },
        }
    }

    /// The plans, and the best strategy among those that were tried.
    fn plans(&self, case: &Case) -> anyhow::Result<(Vec<Plan>, Strategy)> {
        if let Self::One(strategy) = self {
            return Ok((vec![plan(case, *strategy)?], *strategy));
        }
        let portfolio = plan_all(case)?;
        let best = portfolio.best();
        let plans = if matches!(self, Self::Best) { vec![best.clone()] } else { portfolio.plans().to_vec() };
        Ok((plans, best.strategy))
    }
}

fn read(path: &Path) -> anyhow::Result<Case> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let source: io::Result<Box<dyn Read>> = match is_stdin {
        true => Ok(Box::new(io::stdin())),
        false => File::open(path).map(|file| Box::new(file) as Box<dyn Read>),
    };
    let text = source.and_then(|source| all(source, CASE_BYTES_MAX));
    let text = text.with_context(|| format!("the case cannot be read from {name}"))?;
    let mut description: CaseDescription = serde_json::from_slice(&text).map_err(|error| {
        let what = if error.is_data() { "a case" } else { "JSON" };
        anyhow!("{name} is not {what}: {error}; forebay plan --example prints a case")
    })?;
    read_switches(&mut description, path).with_context(|| format!("{name} cannot be planned"))?;
    Case::new(description).with_context(|| format!("{name} cannot be planned"))
}

/// Everything that a source has, up to a limit.
fn all(source: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if source.take(bytes_max + 1).read_to_end(&mut text)? as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {bytes_max} bytes")));
    }
    Ok(text)
}

/// Reads the file that a case names for its switches, from where the case lies.
fn read_switches(description: &mut CaseDescription, case: &Path) -> anyhow::Result<()> {
    let TopologyDescription::Slurm(switches) = &mut description.topology else { return Ok(()) };
    let Some(name) = &switches.file else { return Ok(()) };
    if !switches.text.is_empty() {
        bail!("topology: slurm: it has both a text and a file; leave one of them out");
    }
    let file = case.parent().unwrap_or(Path::new("")).join(name);
    let text = File::open(&file).and_then(|file| all(file, SWITCHES_BYTES_MAX));
    let text = text.with_context(|| format!("the switches cannot be read from {}", file.display()))?;
    switches.text = String::from_utf8(text).with_context(|| format!("{} is not text", file.display()))?;
    Ok(())
}

fn in_json(case: &Case, plans: &[Plan], best: Strategy) -> Value {
    let strategy = |plan: &Plan| {
        let aggregators = &plan.aggregators;
        json!({
            "name": plan.strategy.name(),
            "aggregators": aggregators.iter().map(|aggregator| aggregator.node).collect::<Vec<_>>(),
            "ranks": aggregators.iter().map(|aggregator| aggregator.rank).collect::<Vec<_>>(),
            "domains": aggregators.iter().map(|aggregator| &aggregator.domain).collect::<Vec<_>>(),
            "rounds": plan.rounds,
            "c1_s": plan.predicted.c1_s,
            "c2_s": plan.predicted.c2_s,
            "total_s": plan.predicted.total_s,
            "staged_s": plan.predicted.staged_s,
            "io_floor_s": plan.predicted.io_floor_s,
            "busiest_link_bytes": plan.predicted.busiest_link_bytes,
        })
    };
    json!({
        "strategies": plans.iter().map(strategy).collect::<Vec<_>>(),
        "best": best.name(),
        "bytes": case.bytes(),
        "io_floor_s": case.io_floor_s(),
    })
}

fn print(case: &Case, plans: &[Plan], best: Strategy) {
    let head =
        ["strategy", "aggregators", "rounds", "C1, s", "C2, s", "total, s", "I/O floor, s", "busiest link, bytes"];
    let row = |plan: &Plan| {
        let predicted = &plan.predicted;
        vec![
            plan.strategy.name().to_owned(),
            plan.aggregators.len().to_string(),
            plan.rounds.to_string(),
            seconds(predicted.c1_s),
            seconds(predicted.c2_s),
            seconds(predicted.total_s),
            seconds(predicted.io_floor_s),
            columns::count(predicted.busiest_link_bytes),
        ]
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head.map(str::to_owned).to_vec()).chain(plans.iter().map(row)).collect();
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
    say!(
        "\n{} bytes; no plan takes less than {} s (predicted, nothing is measured).",
        columns::count(case.bytes()),
        seconds(case.io_floor_s())
    );
    if let [only] = plans {
        print_aggregators(only);
    } else {
        say!("{}", verdict(plans, best));
    }
}

/// The result of the comparison.
fn verdict(plans: &[Plan], best: Strategy) -> String {
    let least = plans.iter().map(|plan| plan.predicted.total_s).fold(f64::INFINITY, f64::min);
    let times = |plan: &Plan| plan.predicted.total_s / least;
    let slower = || plans.iter().filter(|plan| times(plan) > 1.0 + EQUAL_PART);
    let Some(slowest) = slower().max_by(|left, right| times(left).total_cmp(&times(right))) else {
        return "All strategies are equal within 1 %: here it makes no difference which ranks aggregate.".to_owned();
    };
    // It alone does not place by domain: it takes the first nodes, wherever the bytes are.
    if slower().all(|plan| plan.strategy == Strategy::Romio) {
        return format!(
            "All strategies that place by domain are equal within 1 %: here it makes no difference which rank of a domain aggregates. {} \
             takes {:.2} times as long.",
            slowest.strategy.name(),
            times(slowest)
        );
    }
    format!("Best: {}; the slowest takes {:.2} times as long.", best.name(), times(slowest))
}

fn print_aggregators(plan: &Plan) {
    let head = ["rank", "node", "I/O node", "from", "bytes"].map(str::to_owned).to_vec();
    let row = |aggregator: &forebay_aggregate::Aggregator| {
        let bytes: u64 = aggregator.domain.iter().map(|extent| extent.len).sum();
        vec![
            aggregator.rank.to_string(),
            aggregator.node.to_string(),
            aggregator.io_node.to_string(),
            aggregator.domain.first().map_or(0, |extent| extent.offset).to_string(),
            columns::count(bytes),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(plan.aggregators.iter().map(row)).collect();
    say!("");
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
}

/// Four digits that count, however short the time.
fn seconds(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (3 - value.log10().floor() as i32).clamp(0, 12) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_four_digits_that_count() {
        assert_eq!(
            [0.0, 0.037_283, 1.5, 12_345.6, 0.000_001_234_5].map(seconds),
            ["0", "0.03728", "1.500", "12346", "0.000001234"]
        );
    }

    /// 64 nodes in four groups with an I/O node each, 16 aggregators, one round.
    fn said_of(map: Option<Vec<usize>>, aggregators: usize) -> String {
        let io_nodes = (0..4).map(|io| json!({"node": io * 16, "bytes_per_s": 1e9, "serves": [io * 16, io * 16 + 15]}));
        let case = json!({
            "topology": {"torus": [4, 4, 4]}, "link_bytes_per_s": 1e9, "link_latency_s": 1e-6, "nodes": 64,
            "io_nodes": io_nodes.collect::<Vec<_>>(), "ranks": {"per_node": 1, "bytes": 1 << 20, "map": map},
            "aggregators": aggregators, "rounds": 1,
        });
        let portfolio = plan_all(&Case::new(serde_json::from_value(case).unwrap()).unwrap()).unwrap();
        verdict(portfolio.plans(), portfolio.best().strategy)
    }

    #[test]
    fn it_is_said_where_it_does_not_matter_who_aggregates() {
        let aligned = said_of(None, 16);
        assert!(
            aligned.contains("makes no difference which rank of a domain aggregates. romio takes 3.67 times as long."),
            "{aligned}"
        );
        assert_eq!(
            said_of(None, 64),
            "All strategies are equal within 1 %: here it makes no difference which ranks aggregate.",
            "every node for itself"
        );
        let scattered: Vec<usize> = (0..64).map(|rank| rank * 21 % 64).collect();
        let scattered = said_of(Some(scattered), 16);
        assert!(scattered.starts_with("Best: "), "{scattered}");
    }
}
