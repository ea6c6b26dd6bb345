//! `simulate NAME`: the results of a model of the job and its machine, as a table and a plot.
//!
//! No number here is measured, and every line says so; the model's inputs are printed with its results.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use forebay_scale::{Bar, Curve, Outcome, SCENARIOS, Scenario, Stated, find, svg};
use forebay_types::limits;
use serde_json::{Value, json};

use crate::cli::SimulateArguments;
use crate::columns;
use crate::exit::DONE_IN_PART;
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
    let scenario = named(name)?;
    let nodes = nodes(scenario, &arguments)?;
    let not_written = |file: &PathBuf| format!("the plot cannot be written to {}", file.display());
    let create = |file| File::create(file).with_context(|| not_written(file));
    let plot = arguments.plot.as_ref().map(|file| create(file).map(|open| (file, open))).transpose()?;
    let outcome = scenario.run(nodes, arguments.seed);
    if arguments.json {
        say!("{}", in_json(name, &outcome));
    } else {
        print(&outcome);
    }
    if let Some((file, mut open)) = plot {
        open.write_all(svg(&outcome).as_bytes()).with_context(|| not_written(file))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list() {
    let head = ["scenario", "what it shows"].map(str::to_owned).to_vec();
    let rows = SCENARIOS.iter().map(|scenario| [scenario.name, scenario.about].map(str::to_owned).to_vec());
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
}

fn named(name: &str) -> anyhow::Result<&'static Scenario> {
    let names = || SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    find(name).ok_or_else(|| UsageError(format!("there is no scenario {name}; the scenarios are {}", names())).into())
}

/// The numbers of nodes that a scenario is asked for. Impossible ones are refused before minutes have passed.
fn nodes<'a>(scenario: &Scenario, arguments: &'a SimulateArguments) -> anyhow::Result<&'a [usize]> {
    let wrong = arguments.nodes.iter().find(|nodes| !(1..=limits::NODES_MAX).contains(*nodes));
    let what = match wrong {
        Some(nodes) => format!("--nodes {nodes}: a job has 1 to {} nodes", limits::NODES_MAX),
        None if scenario.takes_one() && arguments.nodes.len() > 1 => {
            format!("--nodes: the scenario {} takes one number", scenario.name)
        }
        None if scenario.takes_one() && arguments.plot.is_some() => {
            format!("--plot: the scenario {} is a table and has no plot", scenario.name)
        }
        None => return Ok(&arguments.nodes),
    };
    Err(UsageError(what).into())
}

fn print(outcome: &Outcome) {
    say!("{} (a model, nothing is measured)", outcome.title);
    say!("Compared with: {}\n", outcome.source);
    columns::lines(&outcome.rows).iter().for_each(|line| say!("{line}"));
    outcome.notes.iter().for_each(|note| say!("\n{note}"));
    outcome.bars.iter().for_each(|bar| say!("\n{}", bar.line()));
    let head = ["given to the model", "value", "unit", "source"].map(str::to_owned).to_vec();
    let row = |stated: &Stated| {
        [stated.name.to_owned(), stated.value.to_string(), stated.unit.to_owned(), stated.source.to_owned()].to_vec()
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(outcome.parameters.iter().map(row)).collect();
    say!("");
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
}

fn in_json(name: &str, outcome: &Outcome) -> Value {
    let parameter = |stated: &Stated| json!({"name": stated.name, "value": stated.value, "unit": stated.unit, "source": stated.source});
    let curve = |curve: &Curve| json!({"label": curve.label, "published": curve.is_published, "points": curve.points});
    let bar = |bar: &Bar| json!({"what": bar.what, "figure": bar.figure, "at_most": bar.at_most, "unit": bar.unit, "met": bar.is_met()});
    json!({
        "model": true,
        "scenario": name,
        "title": outcome.title,
        "source": outcome.source,
        "table": outcome.rows,
        "curves": outcome.curves.iter().map(curve).collect::<Vec<_>>(),
        "bars": outcome.bars.iter().map(bar).collect::<Vec<_>>(),
        "notes": outcome.notes,
        "parameters": outcome.parameters.iter().map(parameter).collect::<Vec<_>>(),
    })
}

/// Every scenario with a bar; exit status 3 if one is not met.
fn check(arguments: &SimulateArguments) -> anyhow::Result<ExitCode> {
    let scenarios: Vec<&Scenario> = match &arguments.name {
        Some(name) => match named(name)? {
            scenario if scenario.bars_at.is_empty() => {
                return Err(UsageError(format!("--check: the scenario {name} has no bar")).into());
            }
            scenario => vec![scenario],
        },
        None => SCENARIOS.iter().filter(|scenario| !scenario.bars_at.is_empty()).collect(),
    };
    let mut all_met = true;
    for scenario in scenarios {
        let bars = scenario.run(scenario.bars_at, arguments.seed).bars;
        all_met &= bars.iter().all(Bar::is_met);
        bars.iter().for_each(|bar| say!("{}", bar.line()));
    }
    Ok(if all_met { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}
