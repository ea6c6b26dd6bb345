//! `simulate NAME`: what a model of the job and its machine says, as a table and a plot.
//!
//! Nothing here is measured, and every line says so; what went into the model is printed with what came out.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use forebay_sim::scale::{self, Outcome, Question, SCENARIOS, Scenario};
use forebay_types::limits;
use serde_json::{Value, json};

use crate::DONE_IN_PART;
use crate::cli::SimulateArguments;
use crate::columns;
use crate::output::say;
use crate::settings::UsageError;

/// Runs a scenario, or lists them.
pub fn run(arguments: SimulateArguments) -> anyhow::Result<ExitCode> {
    if arguments.check {
        return check(&arguments);
    }
    let Some(name) = &arguments.name else {
        list();
        return Ok(ExitCode::SUCCESS);
    };
    let outcome = (find(name)?.run)(&question(&arguments)?);
    if arguments.json {
        say!("{}", in_json(&outcome));
    } else {
        print(&outcome);
    }
    if let Some(file) = &arguments.plot {
        write_plot(&outcome, file)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list() {
    let head = ["scenario", "what it shows"].map(str::to_owned).to_vec();
    let rows = SCENARIOS.iter().map(|scenario| [scenario.name, scenario.about].map(str::to_owned).to_vec());
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
}

fn find(name: &str) -> anyhow::Result<&'static Scenario> {
    let names = || SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    scale::find(name).ok_or_else(|| UsageError(format!("there is no scenario {name}; there are {}", names())).into())
}

fn question(arguments: &SimulateArguments) -> anyhow::Result<Question> {
    let wrong = arguments.nodes.iter().find(|nodes| !(1..=limits::NODES_MAX).contains(*nodes));
    if let Some(nodes) = wrong {
        return Err(UsageError(format!("--nodes {nodes}: a job has 1 to {} nodes", limits::NODES_MAX)).into());
    }
    Ok(Question { nodes: arguments.nodes.clone(), seed: arguments.seed })
}

fn print(outcome: &Outcome) {
    say!("{} (a model, nothing is measured)", outcome.title);
    say!("Compared with: {}\n", outcome.source);
    columns::lines(&outcome.rows).iter().for_each(|line| say!("{line}"));
    outcome.notes.iter().for_each(|note| say!("\n{note}"));
    outcome.bars.iter().for_each(|bar| say!("\n{}", bar.line()));
    let head = ["given to the model", "value", "unit", "source"].map(str::to_owned).to_vec();
    let row = |stated: &scale::parameters::Stated| {
        [stated.name.to_owned(), stated.value.to_string(), stated.unit.to_owned(), stated.source.to_owned()].to_vec()
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(outcome.parameters.iter().map(row)).collect();
    say!("");
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
}

fn in_json(outcome: &Outcome) -> Value {
    let parameter = |stated: &scale::parameters::Stated| json!({"name": stated.name, "value": stated.value, "unit": stated.unit, "source": stated.source});
    let curve =
        |curve: &scale::Curve| json!({"label": curve.label, "published": curve.is_published, "points": curve.points});
    let bar = |bar: &scale::Bar| json!({"what": bar.what, "figure": bar.figure, "at_most": bar.at_most, "unit": bar.unit, "met": bar.is_met()});
    json!({
        "model": true,
        "scenario": outcome.name,
        "title": outcome.title,
        "source": outcome.source,
        "table": outcome.rows,
        "curves": outcome.curves.iter().map(curve).collect::<Vec<_>>(),
        "bars": outcome.bars.iter().map(bar).collect::<Vec<_>>(),
        "notes": outcome.notes,
        "parameters": outcome.parameters.iter().map(parameter).collect::<Vec<_>>(),
    })
}

fn write_plot(outcome: &Outcome, file: &Path) -> anyhow::Result<()> {
    if outcome.curves.is_empty() {
        return Err(UsageError(format!("the scenario {} is a table and has no plot", outcome.name)).into());
    }
    fs::write(file, scale::svg(outcome)).with_context(|| format!("the plot cannot be written to {}", file.display()))
}

/// Every scenario with a bar; exit status 3 if one is not met.
fn check(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    let names = arguments.name.as_deref().map_or(vec!["cold", "start", "links"], |name| vec![name]);
    let mut bars = Vec::new();
    for name in names {
        bars.extend((find(name)?.run)(&scale::for_bars(name, arguments.seed)).bars);
    }
    bars.iter().for_each(|bar| say!("{}", bar.line()));
    Ok(if bars.iter().all(scale::Bar::is_met) { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}
