//! Chores of this repository: `cargo xtask tidy` checks its style, `cargo xtask features` that no crate is compiled twice,
//! and `cargo xtask test` runs its tests, each within a time limit.
//!
//! The rules of style that need only the text are checked here: the crates that each crate may know, circles of modules, the
//! length of files and functions, names, the heads of modules, `unsafe` and its reasons, links and commands in documents. Each
//! rule is a module with a `check` over the `Tree`, so a rule is tested on a tree made of strings. `tidy` needs no compiler and no
//! network and takes a second or two: it is meant to be run before every commit.

mod cargo;
mod circles;
mod commands;
mod features;
mod finding;
mod heads;
mod hygiene;
mod layers;
mod length;
mod limited;
mod links;
mod measure;
mod modules;
mod names;
mod packages;
mod paths;
mod progress;
mod promises;
mod prose;
mod ratchet;
mod sentences;
mod signals;
mod source;
mod suite;
mod tree;
mod unsafety;

use std::process::ExitCode;

use finding::Finding;
use tree::Tree;

const USAGE: &str = "usage: cargo xtask tidy             check the style of the whole repository
       cargo xtask tidy --tighten   also lower xtask/ratchet.toml to what is measured
       cargo xtask features         check that every crate from outside has one set of features
       cargo xtask test [WORD...]   run every test, or those whose names contain a word
       cargo xtask limited PROGRAM [ARGUMENT]  run a program of tests, and end it when one takes too long";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["tidy"] => tidy(false),
        ["tidy", "--tighten"] => tidy(true),
        ["features"] => features::check(),
        ["test", words @ ..] => suite::run(words),
        ["limited", words @ ..] => match limited::run(words) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every rule and prints what it finds; returns whether that is nothing.
fn tidy(tighten: bool) -> Result<bool, String> {
    let tree = Tree::of_repository()?;
    if tighten {
        ratchet::tighten(&tree)?;
    }
    let mut findings = check(&tree);
    findings.sort();
    for finding in &findings {
        eprintln!("{}:{}: {}", finding.path, finding.line, finding.message);
    }
    match findings.len() {
        0 => println!("tidy: {} files in order", tree.files.len()),
        count => eprintln!("tidy: {count} finding(s)"),
    }
    Ok(findings.is_empty())
}

fn check(tree: &Tree) -> Vec<Finding> {
    let rules = [
        layers::check,
        ratchet::check,
        names::check,
        heads::check,
        unsafety::check,
        links::check,
        commands::check,
        hygiene::check,
        packages::check,
        promises::check,
    ];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}
