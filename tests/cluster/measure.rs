//! `make bench-faults`: every fault at full length, and the table of docs/reliability.md.
//!
//! It shares its modules with the tests of the same directory. `--only NAME` takes the faults whose name holds that
//! text, `--json FILE` says where the JSON goes, `--markdown FILE` prints the table of a JSON and measures nothing.

#![allow(clippy::unwrap_used, reason = "a broken assumption ends the measurement")]
#![allow(dead_code, reason = "the tests use the rest")]

mod faults;
mod testbed;
mod turn;

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use faults::kinds::{self, Fault};
use faults::outcome::{Outcome, Seen};
use faults::trial::{self, Scale};
use forebay_testkit::machine::Machine;
use forebay_testkit::results::{Bar, Measurement, Results, Side, quantity};
use forebay_testkit::stop;
use forebay_tests::need::Need;
use serde_json::{Value, json};

const FULL: Scale = Scale {
    files: 3000,
    before: Duration::from_secs(5),
    lasts_max: Duration::from_secs(60),
    files_each: 100,
    restarts: 50,
};

/// Everything was measured, but not every bar is met.
const EXIT_IN_PART: u8 = 3;

fn main() -> ExitCode {
    let mut only = Vec::new();
    let mut json = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match (word.as_str(), words.by_ref()) {
            ("--only", rest) => only.extend(rest.next()),
            ("--json", rest) => json = rest.next().map(within_repository),
            ("--markdown", rest) => {
                let outcome = rest.next().ok_or_else(|| anyhow::anyhow!("--markdown FILE")).and_then(|file| {
                    print!("{}", markdown(&Results::read(&within_repository(file))?));
                    Ok(ExitCode::SUCCESS)
                });
                return stop::exit_code("bench-faults", outcome);
            }
            // Cargo itself passes this.
            ("--bench", _) => {}
            _ => return stop::exit_code("bench-faults", Err(anyhow::anyhow!("unknown option {word}"))),
        }
    }
    stop::exit_code("bench-faults", measure(&only, json))
}

/// Cargo runs this in its package's directory, `make` and who calls it in the repository's.
fn within_repository(file: String) -> PathBuf {
    Path::new("..").join(file)
}

fn measure(only: &[String], json: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let needs = [Need::Root, Need::Fuse, Need::Command("glusterfsd"), Need::Command("ip"), Need::Command("python3")];
    if let Some(missing) = needs.into_iter().find_map(Need::missing) {
        anyhow::bail!(missing);
    }
    stop::on_signals()?;
    let mut results = Results::new(Machine::here(".".as_ref()));
    let json = json.unwrap_or_else(|| within_repository(format!("target/bench/faults-{}.json", results.started_unix)));
    let is_wanted = |fault: &Fault| only.is_empty() || only.iter().any(|text| fault.name().contains(text.as_str()));
    let (mut testbed, mut failed) = (None, Vec::new());
    for (number, fault) in kinds::all().into_iter().enumerate().filter(|(_, fault)| is_wanted(fault)) {
        stop::check()?;
        let name = fault.name();
        let run = || trial::run(testbed.take().unwrap_or_else(|| trial::testbed(FULL)), fault, FULL);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok((same, outcome)) => {
                testbed = Some(same);
                results.measurements.insert(format!("{number} {name}"), measurement(&outcome));
                // After each one: what is measured is kept when a later one fails.
                results.write(&json)?;
                println!("{name}: {outcome:#?}");
            }
            Err(_) => failed.push(name),
        }
    }
    println!("\n{}\nThe JSON: {}", markdown(&results), json.display());
    anyhow::ensure!(failed.is_empty(), "these could not be measured: {}", failed.join(", "));
    let met = results.measurements.values().flat_map(|measurement| &measurement.bars).all(|bar| bar.met);
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(EXIT_IN_PART) })
}

fn measurement(outcome: &Outcome) -> Measurement {
    let Outcome { fault, others, victim, .. } = outcome;
    let mut measured = Measurement::under(format!("{}, for {:.1} s", fault.name(), outcome.lasted.as_secs_f64()));
    let seen =
        |seen: &Seen| json!({"stall_s": seen.stall.as_secs_f64(), "stalled": seen.stalled, "errors": seen.errors});
    measured.figure("fault", fault.name()).figure("lasted_s", outcome.lasted.as_secs_f64());
    measured.figure("stall_before_s", outcome.stall_before.as_secs_f64());
    measured.figure("others", seen(others)).figure("victim", victim.as_ref().map(seen));
    measured.figure("has_victim", fault.victim().is_some());
    measured.figure("first_errors", &outcome.first_errors).figure("wrong", &outcome.wrong);
    measured.figure("files_read", outcome.files).figure("requests", outcome.requests);
    measured.figure("requests_per_file", outcome.requests_per_file());
    measured.bar(Bar::new("wrong bytes", outcome.wrong.len() as f64, Side::AtMost, 0.0, ""));
    let made_up = |seen: &Seen, may_fail: bool| -> usize {
        let counts = seen.errors.iter().filter(|(number, _)| !(may_fail && kinds::OF_BACKING.contains(number)));
        counts.map(|(_, count)| count).sum()
    };
    let on_victim = victim.as_ref().map_or(0, |victim| made_up(victim, fault.cuts_backing_of_victim()));
    let errors = made_up(others, fault.hits_backing()) + on_victim + outcome.late_errors.len();
    measured.bar(Bar::new("errors that are not the file server's", errors as f64, Side::AtMost, 0.0, ""));
    if let Some(bar) = fault.stall_max() {
        let (stall, bar) = (others.stall.as_secs_f64(), bar.as_secs_f64());
        measured.bar(Bar::new("longest stall on other nodes", stall, Side::AtMost, bar, "s"));
    }
    if let (Some(bar), Some(victim)) = (fault.victim_stall_max(), victim) {
        let (stall, bar) = (victim.stall.as_secs_f64(), bar.as_secs_f64());
        measured.bar(Bar::new("longest stall on its own node", stall, Side::AtMost, bar, "s"));
    }
    measured
}

/// The table for docs/reliability.md.
fn markdown(results: &Results) -> String {
    let mut text = format!("Measured on {}.\n\n", results.machine.described());
    text += "| fault | lasted | longest stall on other nodes | on its own node | errors | wrong bytes | ";
    text += "requests at the server for a file read, before and since | bars |\n|---|---|---|---|---|---|---|---|\n";
    for measured in results.measurements.values() {
        let figure = |pointer: &str| {
            let (name, rest) = pointer.split_at(pointer.find('/').unwrap_or(pointer.len()));
            measured.figures.get(name).and_then(|value| value.pointer(rest)).unwrap_or(&Value::Null)
        };
        // Operations below a tenth of a second are not told apart.
        let shown = |value: f64| if value == 0.0 { "below 0.1 s".to_owned() } else { format!("{value:.2} s") };
        let seconds = |pointer: &str| figure(pointer).as_f64().map(shown);
        let victim = match (figure("has_victim") == true, seconds("victim/stall_s")) {
            (false, _) => "-".to_owned(),
            (true, None) => "its view is gone".to_owned(),
            (true, Some(stall)) => stall,
        };
        let requests = ["requests_per_file/0", "requests_per_file/1"]
            .map(|pointer| figure(pointer).as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.2}")));
        let unmet: Vec<String> = measured
            .bars
            .iter()
            .filter(|bar| !bar.met)
            .map(|bar| format!("{} ({})", bar.what, bar.bar_text()))
            .collect();
        let verdict = if unmet.is_empty() { "met".to_owned() } else { format!("NOT MET: {}", unmet.join(", ")) };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {victim} | {} | {} | {}, {} | {verdict} |",
            figure("fault").as_str().unwrap_or_default(),
            quantity(figure("lasted_s").as_f64().unwrap_or(0.0).round(), "s"),
            seconds("others/stall_s").unwrap_or_default(),
            errors(figure("others/errors"), figure("victim/errors")),
            figure("wrong").as_array().map_or(0, Vec::len),
            requests[0],
            requests[1],
        );
    }
    text
}

/// Errors of all readers whose view is there, by name.
fn errors(others: &Value, victim: &Value) -> String {
    let of = |value: &Value, whose: &str| -> Vec<String> {
        let counts = value.as_object().into_iter().flatten();
        let name = |number: &str| match number {
            "107" => "ENOTCONN".to_owned(),
            "110" => "ETIMEDOUT".to_owned(),
            "5" => "EIO".to_owned(),
            other => format!("error {other}"),
        };
        counts.map(|(number, count)| format!("{count} {}{whose}", name(number))).collect()
    };
    let all = [of(others, ""), of(victim, " on its own node")].concat();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
