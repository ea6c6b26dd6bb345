//! What cannot be asked of a job, or be one.

use std::fs;

use forebay_tests::Sandbox;
use forebay_tests::program::run;

use crate::bed::Bed;

#[test]
fn a_file_that_nobody_holds() {
    let bed = Bed::of_devices();
    let file = bed.job.sandbox.base().join("elsewhere.csv");
    fs::write(&file, "a\n1\n2\n").unwrap();
    for place in ["data", "split"] {
        let refused = bed.query("stats", &file, &["--where", place]);
        assert_eq!(refused.status.code(), Some(1));
        let said = &refused.stderr;
        assert!(said.contains("no node of the job holds") && said.contains("--where host"), "{said}");
    }
    let _ = bed.query("stats", &file, &["--where", "auto"]).good();
    bed.job.down();
}

#[test]
fn without_a_job() {
    let sandbox = Sandbox::new();
    let file = sandbox.source().join("t.csv");
    fs::write(&file, "a\n1\n2\n").unwrap();
    let directory = sandbox.base().join("jobs");
    let query = |more: &[&str]| {
        run(sandbox.command().env("FOREBAY_DIRECTORY", &directory).args(["query", "stats"]).arg(&file).args(more))
    };
    let _ = query(&[]).good();
    let refused = query(&["--where", "data"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("no job is up"), "{}", refused.stderr);
    let refused = query(&["--job", "nosuch"]);
    assert!(refused.status.code() == Some(1) && refused.stderr.contains("no job nosuch"), "{}", refused.stderr);
}

#[test]
fn devices_that_cannot_be() {
    let sandbox = Sandbox::new();
    let base = sandbox.base().display().to_string();
    let cases: [(&[&str], &str); 4] = [
        (&["--data", &base], "--role device"),
        (&["--role", "device"], "--data DIR"),
        (&["--role", "device", "--data", "/nowhere/data"], "/nowhere/data"),
        (&["--role", "disk"], "neither node nor device"),
    ];
    for (arguments, words) in cases {
        let all: Vec<&std::ffi::OsStr> = ["--local", "1"].iter().chain(arguments).map(std::ffi::OsStr::new).collect();
        let refused = sandbox.up(&all);
        assert!(!refused.status.success() && refused.stderr.contains(words), "{arguments:?}: {}", refused.stderr);
    }
}
