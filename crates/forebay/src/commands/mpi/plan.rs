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
use crate::commands::mpi::plan_picture::{picture, seconds};
use crate::commands::mpi::reason::reason;
use crate::output::say;
use crate::settings::UsageError;

/// The largest case that is read, bytes: the most extents that are planned for, written out.
const CASE_BYTES_MAX: u64 = 1 << 30;

/// The largest description of switches, bytes: a line of a kilobyte for each node of the largest job.
const SWITCHES_BYTES_MAX: u64 = 1 << 30;

/// A case that can be planned: a torus, with the I/O nodes of two of its faces.
const EXAMPLE: &str = include_str!("plan_example.json");

/// Plans a case.
pub fn run(arguments: &PlanArguments) -> anyhow::Result<ExitCode> {
    let wanted = Wanted::parse(arguments.strategy.as_deref().unwrap_or("all"))?;
    let is_planned = arguments.strategy.is_some() || arguments.json || arguments.plot.is_some();
    let case = match &arguments.case {
        Some(case) => read(case)?,
        None if is_planned => Case::new(serde_json::from_str(EXAMPLE)?)?,
        None => {
            say!("{}", EXAMPLE.trim_end());
            return Ok(ExitCode::SUCCESS);
        }
    };
    let not_written = |file: &PathBuf| format!("the plot cannot be written to {}", file.display());
    // Whether it can be written is known before it takes time to plan; what is there stays until there is a plan.
    let create = |file| File::options().write(true).create(true).truncate(false).open(file);
    let create = |file| create(file).with_context(|| not_written(file));
    let plot = arguments.plot.as_ref().map(|file| create(file).map(|open| (file, open))).transpose()?;
    let planned = wanted.plan(&case).context("there is no plan")?;
    if arguments.json {
        say!("{}", in_json(&case, &planned));
    } else {
        print(&case, &planned);
    }
    if let Some((file, mut open)) = plot {
        let drawn = picture(&case, (planned.best(), &planned.all), &planned.reason, file);
        let written = cut(&open).and_then(|()| open.write_all(&drawn));
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

    /// Plans.
    fn plan(&self, case: &Case) -> anyhow::Result<Planned> {
        if let Self::One(strategy) = self {
            let all = vec![plan(case, *strategy)?];
            return Ok(Planned { all, best: *strategy, reason: String::new(), shows_best: false });
        }
        let portfolio = plan_all(case)?;
        let (all, best) = (portfolio.plans().to_vec(), portfolio.best().strategy);
        let reason = reason(case, &all, best);
        Ok(Planned { all, best, reason, shows_best: matches!(self, Self::Best) })
    }
}

/// The plans of a case.
struct Planned {
    all: Vec<Plan>,
    /// Among them.
    best: Strategy,
    /// Why it is the best; empty if there is nothing to compare.
    reason: String,
    /// Whether the others are only for comparison.
    shows_best: bool,
}

impl Planned {
    fn best(&self) -> &Plan {
        self.all.iter().find(|plan| plan.strategy == self.best).unwrap_or(&self.all[0])
    }

    /// Those that are shown.
    fn shown(&self) -> &[Plan] {
        if self.shows_best { std::slice::from_ref(self.best()) } else { &self.all }
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

fn in_json(case: &Case, planned: &Planned) -> Value {
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
        "strategies": planned.shown().iter().map(strategy).collect::<Vec<_>>(),
        "best": planned.best.name(),
        "reason": planned.reason,
        "bytes": case.bytes(),
        "io_floor_s": case.io_floor_s(),
    })
}

fn print(case: &Case, planned: &Planned) {
    let plans = planned.shown();
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
    if !planned.reason.is_empty() {
        say!("{}", planned.reason);
    }
    if let [only] = plans {
        print_aggregators(only);
    }
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
}
