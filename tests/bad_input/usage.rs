//! Commands that are called wrongly, or about a job that is not there.

use std::ffi::OsStr;

use forebay_tests::program::run;
use forebay_tests::{Finished, Sandbox, tree};

use crate::{FAILED, WRONG_USAGE, fails, says};

fn call(sandbox: &Sandbox, arguments: &[&str]) -> Finished {
    run(sandbox.command().args(arguments))
}

#[test]
fn values_that_make_no_sense() {
    let wrong: [(&[&str], &str); 9] = [
        (&["up", "--local", "0"], "--local"),
        (&["up", "--local", "many"], "--local"),
        (&["up", "--local", "1", "--fanout", "0"], "--fanout"),
        (&["up", "--local", "1", "--budget", "lots"], "--budget"),
        (&["up", "--local", "1", "--direct-above=-1"], "--direct-above"),
        (&["up", "--local", "1", "--deadline", "soon"], "--deadline"),
        (&["up", "--local", "1", "--port", "70000"], "--port"),
        (&["up", "--gone"], "--gone"),
        (&["gone"], "gone"),
    ];
    for (arguments, named) in wrong {
        let sandbox = Sandbox::new();
        let done = call(&sandbox, arguments);
        assert_eq!(done.status.code(), Some(WRONG_USAGE), "{arguments:?}: {}", done.stderr);
        assert!(done.stderr.contains(named), "{arguments:?}: {}", done.stderr);
        assert!(sandbox.left().is_empty(), "{arguments:?}");
    }
}

#[test]
fn names_that_are_no_job_names() {
    let long = "x".repeat(100);
    for name in ["", "a/b", "..", "-x", "a b", &long] {
        let sandbox = Sandbox::new();
        let source = sandbox.source();
        let option = format!("--job={name}");
        let done = call(&sandbox, &["up", "--local", "1", &option, "--export", source.to_str().unwrap()]);
        assert!(!done.status.success(), "{name:?} was accepted");
        says(&done.stderr, &["job"]);
        assert!(sandbox.left().is_empty(), "{name:?}");
    }
}

#[test]
fn jobs_that_are_not_there() {
    let sandbox = Sandbox::new();
    for words in [&["status"][..], &["explain", "/usr"]] {
        let done = call(&sandbox, &[words, &["--job", &sandbox.name]].concat());
        fails(&sandbox, &done, FAILED, &[&sandbox.name]);
    }
    let done = call(&sandbox, &["down", "--job", &sandbox.name]).good();
    assert!(done.text().contains(&format!("nothing to end: no job {}", sandbox.name)), "{}", done.text());
}

#[test]
fn settings_are_checked_wherever_they_come_from() {
    let sandbox = Sandbox::new();
    let done = run(sandbox.command().args(["config", "--json"]).env("FOREBAY_FANOUT", "none"));
    fails(&sandbox, &done, WRONG_USAGE, &["FOREBAY_FANOUT", "none"]);
    let file = sandbox.source().join("job.toml");
    let config = |text: &str| {
        tree::write(&file, text.as_bytes());
        run(sandbox.command().args([OsStr::new("config"), "--config".as_ref(), file.as_ref()]))
    };
    let name = file.to_str().unwrap();
    fails(&sandbox, &config("fanout = \"none\"\n"), WRONG_USAGE, &[name, "fanout"]);
    fails(&sandbox, &config("fan = 2\n"), WRONG_USAGE, &[name, "fan"]);
    fails(&sandbox, &config("fanout =\n"), WRONG_USAGE, &[name]);
    let missing = run(sandbox.command().args(["config", "--config", "/nowhere/job.toml"]));
    assert!(!missing.status.success());
    says(&missing.stderr, &["/nowhere/job.toml", "o such file"]);
    let good = config("fanout = 3\n").good();
    assert!(good.text().contains('3') && good.text().contains("job.toml"), "{}", good.text());
}

#[test]
fn help_has_examples() {
    let sandbox = Sandbox::new();
    let all = call(&sandbox, &["--help"]).good().text();
    let commands = all.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let named: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(["up", "run", "profile", "simulate", "down"].iter().all(|command| named.contains(command)), "{all}");
    for command in named.into_iter().filter(|command| *command != "help") {
        let printed = call(&sandbox, &[command, "--help"]).good().text();
        assert!(printed.contains("Examples:") && printed.contains(&format!("forebay {command}")), "{printed}");
    }
}
