//! The commands of docs/tutorial.md, run as they are printed. In an output `...` stands for any text, and a line of it alone for
//! any lines.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::place::Place;

/// One command of the page, and the output that is printed below it.
struct Step {
    command: String,
    shown: Vec<String>,
}

/// The steps of all blocks of a page, in their order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let (block, _) = block.split_once("```").expect("a block ends");
        for line in block.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step { command: command.to_owned(), shown: Vec::new() }),
                (None, Some(step)) => step.shown.push(line.to_owned()),
                (None, None) => panic!("output without a command: {line}"),
            }
        }
    }
    steps
}

/// The parts of a line between its `...` occur in this order, the first at the beginning and the last at the end.
fn line_fits(shown: &str, line: &str) -> bool {
    let mut parts = shown.split("...");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    last.map_or(rest.is_empty(), |part| part.is_empty() || line.ends_with(part))
}

/// Whether an output is as shown.
fn fits(shown: &[String], lines: &[&str]) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((first, more)) if first == "..." => (0..=lines.len()).any(|skipped| fits(more, &lines[skipped..])),
        Some((first, more)) => {
            lines.split_first().is_some_and(|(line, others)| line_fits(first, line) && fits(more, others))
        }
    }
}

#[test]
fn the_tutorial_does_what_it_shows() {
    let Some(place) = Place::with_views() else { return };
    let page = Path::new("../../docs/tutorial.md");
    let steps = steps(&fs::read_to_string(page).unwrap());
    assert!(steps.len() > 15, "{} commands", steps.len());
    // One shell for all, as a reader has; after each command it prints the command's number, and keeps its status for `$?`.
    let mut script = "exec 2>&1\n".to_owned();
    for (index, step) in steps.iter().enumerate() {
        script.push_str(&format!("{}\nstatus=$?; echo '--over {index}--'; (exit $status)\n", step.command));
    }
    let work = place.path("work");
    fs::create_dir(&work).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_forebay")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = place.shell(&work);
    let output = shell.arg("-c").arg(&script).env("PATH", path).stdin(Stdio::null()).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let mut rest = output.as_str();
    for (index, step) in steps.iter().enumerate() {
        let mark = format!("--over {index}--\n");
        let (said, after) = rest.split_once(&mark).unwrap_or_else(|| panic!("{}: {rest}", step.command));
        rest = after;
        let lines: Vec<_> = said.lines().collect();
        assert!(fits(&step.shown, &lines), "{}\nshown: {:#?}\nsaid: {lines:#?}", step.command, step.shown);
    }
    place.assert_clean();
}

#[test]
fn an_output_fits_only_as_shown() {
    let shown = ["job ...: 2 nodes", "...", "end"].map(str::to_owned);
    assert!(fits(&shown, &["job a: 2 nodes", "x", "y", "end"]));
    assert!(fits(&shown, &["job a: 2 nodes", "end"]));
    assert!(!fits(&shown, &["job a: 3 nodes", "end"]));
    assert!(!fits(&shown, &["job a: 2 nodes", "end", "more"]));
    assert!(line_fits("a ... c", "a c b c") && !line_fits("a ... c", "a b c d") && !line_fits("a", "ab"));
}
