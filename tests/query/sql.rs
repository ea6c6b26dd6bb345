//! How the command becomes `forebay-sql`; what that answers is tested where it is built (`crates/sql/tests`).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use forebay_tests::Sandbox;
use forebay_tests::program::{Finished, run};

/// A program that shows what it was started with.
fn stand_in(sandbox: &Sandbox) -> PathBuf {
    let program = sandbox.base().join("stand-in");
    fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

fn query(sandbox: &Sandbox, arguments: &[&str]) -> Finished {
    let jobs = sandbox.base().join("jobs");
    let mut command = sandbox.command();
    run(command.env("FOREBAY_DIRECTORY", jobs).env("FOREBAY_SQL", stand_in(sandbox)).arg("query").args(arguments))
}

#[test]
fn the_command_becomes_the_program() {
    let sandbox = Sandbox::new();
    let done =
        query(&sandbox, &["SELECT 1", "--table", "t=x.csv", "--json", "--output", "o", "--header", "no", "--explain"]);
    assert_eq!(done.status.code(), Some(7), "its exit status is the program's");
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(
        text,
        "--format=json\n--table=t=x.csv\n--output\no\n--explain\n--delimiter=,\n--no-header\n--where\nauto\n--\nSELECT 1\n"
    );
    let done = query(&sandbox, &["SELECT\n1", "--format", "arrow", "--no-newlines", "--delimiter", "tab"]);
    assert_eq!(
        String::from_utf8(done.stdout).unwrap(),
        "--format=arrow\n--no-newlines\n--delimiter=\t\n--where\nauto\n--\nSELECT\n1\n"
    );
    let written = ["--missing", "NA,-", "--comment", "#", "--quote", "'", "--escape", "\\", "--sample", "9"];
    let done = query(&sandbox, &[&["SELECT 1", "--types", "a=date,b=decimal(9,2)"], &written[..]].concat());
    assert_eq!(
        String::from_utf8(done.stdout).unwrap(),
        "--delimiter=,\n--quote='\n--escape=\\\n--comment=#\n--missing=NA\n--missing=-\n--types=a=date,b=decimal(9,2)\n\
         --sample=9\n--where\nauto\n--\nSELECT 1\n"
    );
}

#[test]
fn options_that_sql_and_operators_do_not_share() {
    let sandbox = Sandbox::new();
    for (arguments, words) in [
        (&["SELECT 1", "x.csv"][..], "SQL names its own files"),
        (&["SELECT 1", "--columns", "a"], "--columns"),
        (&["SELECT 1", "--on-error", "skip"], "--on-error"),
        (&["SELECT 1", "--where", "split"], "--where split"),
        (&["SELECT 1", "--skip", "1"], "--skip"),
        (&["SELECT 1", "--quote", "ab"], "one character"),
        (&["stats", "--no-newlines", "x.csv"], "are for SQL only"),
        (&["stats", "--types", "a=date", "x.csv"], "are for SQL only"),
        (&["stats", "--format", "arrow", "x.csv"], "is for SQL only"),
        (&["stats"], "at least one FILE"),
    ] {
        let done = query(&sandbox, arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        assert!(done.stderr.contains(words), "{}", done.stderr);
    }
}

#[test]
fn without_the_program() {
    let sandbox = Sandbox::new();
    let none = |command: &mut std::process::Command| run(command.args(["query", "SELECT 1"]));
    let done = none(sandbox.command().env("PATH", "/nowhere"));
    assert_eq!(done.status.code(), Some(1));
    assert!(done.stderr.contains("make build-sql"), "{}", done.stderr);
    let done = none(sandbox.command().env("FOREBAY_SQL", "/nowhere/sql"));
    assert!(done.stderr.contains("/nowhere/sql cannot be started"), "{}", done.stderr);
}
