//! Queries that a job refuses, and jobs that are refused.

use std::fs;
use std::process::Command;

use forebay_tests::program::run;
use forebay_tests::{Sandbox, require};
use serde_json::{Value, json};

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

/// The device and this host see files of one name that differ in size, as after a lie.
#[test]
fn a_device_that_tells_of_another_size_is_not_asked() {
    require!(Root);
    let bed = Bed::of_devices();
    let (file, other) = (bed.file(0, "t.csv"), bed.job.sandbox.base().join("other.csv"));
    fs::write(&file, "a\n1\n2\n").unwrap();
    fs::write(&other, "a\n1\n2\n3\n").unwrap();
    let seen = |place: &str| {
        let query = bed.command("stats", &file, &["--where", place, "--json"]);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-euc", "mount --bind \"$0\" \"$1\"; shift; exec \"$@\""]);
        command.arg(&other).arg(&file).arg(query.get_program()).args(query.get_args());
        for (name, value) in query.get_envs() {
            value.map(|value| command.env(name, value));
        }
        run(&mut command)
    };
    let refused = seen("data");
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("no node of the job holds"), "{}", refused.stderr);
    let said: Value = serde_json::from_slice(&seen("auto").good().stdout).unwrap();
    assert_eq!((&said["rows"], &said["where"]), (&json!(3), &json!("host")));
    bed.job.down();
}

/// The node that is asked by its own host decodes no message of another node, whose limits hold for it too.
#[test]
fn a_request_beyond_its_limits_is_refused_by_the_own_node_too() {
    let bed = Bed::of_devices();
    let file = bed.file(0, "t.csv");
    fs::write(&file, "1,2\n3,4\n").unwrap();
    let wants = json!({"counts_bytes": false, "rows": true, "gramian": true, "described": false});
    let held: Value =
        serde_json::from_str(&bed.asked(&json!({"command": "holders", "path": file, "wants": wants}))).unwrap();
    let generation = &held["ok"]["holders"][0]["generation"];
    let asked = |columns: &[u16], gramian: bool| {
        let table = json!({
            "dialect": {"separator": 44, "point": 46, "comment": null, "missing": ["NA"]}, "data_sets": [], "fields": 2, "rows_from": 0,
            "columns": columns, "gramian": gramian, "covariance": false,
            "described_numbers": [], "described_texts": [], "filter": [], "by": null, "text_is_missing": false,
        });
        bed.asked(&json!({
            "command": "querypart", "rank": 0, "path": file, "generation": generation, "counts_bytes": false,
            "table": table, "first": 0, "blocks": 1, "begins_quoted": false, "timeout_ms": 20_000,
        }))
    };
    assert!(asked(&[1; 1024], true).starts_with("{\"ok\":\""));
    for (columns, gramian) in [(&[1; 1025][..], true), (&[1; 4097], false), (&[2], false)] {
        let said = asked(columns, gramian);
        assert!(said.starts_with("{\"error\":") && said.contains("beyond the limits"), "{said}");
    }
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
