//! Columns normalised where the data lie: the same bytes as on one host, whole or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use forebay_tests::job::send;
use forebay_tests::program::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bed::{Bed, plain_table, quoted_table};

const PATIENCE: Duration = Duration::from_secs(60);

/// How often a query is tried to be met while it writes.
const TRIALS: usize = 10;

/// The output of `--json` about a column that was written.
#[track_caller]
fn normalised(bed: &Bed, file: &Path, more: &[&str]) -> Value {
    let done = bed.query("normalise", file, &[&["--json"], more].concat()).good();
    serde_json::from_slice::<Value>(&done.stdout).unwrap()["normalise"].clone()
}

/// The column as this host writes it by itself.
#[track_caller]
fn by_host(bed: &Bed, file: &Path) -> Vec<u8> {
    let output = bed.job.sandbox.base().join("by-host.csv");
    let said = normalised(bed, file, &["--where", "host", "--output", output.to_str().unwrap()]);
    assert!(said.get("written_by").is_none(), "{said}");
    fs::read(output).unwrap()
}

fn names_beside(file: &Path) -> Vec<String> {
    let entries = fs::read_dir(file.parent().unwrap()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_device_writes_the_column_beside_its_file() {
    let bed = Bed::of_devices();
    let file = bed.file(2, "log.csv");
    fs::write(&file, quoted_table(60_000)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let bytes = fs::metadata(&file).unwrap().len();
    let wanted = by_host(&bed, &file);
    assert!(wanted.starts_with(b"a\n") && wanted.iter().filter(|byte| **byte == b'\n').count() == 60_001);
    let beside = file.with_file_name("log.normalised.csv");
    fs::write(&beside, "an old one").unwrap();
    let said = normalised(&bed, &file, &["--where", "data"]);
    assert_eq!((&said["written_by"], &said["made_by"]), (&json!(2), &json!([{"node": 2, "bytes": bytes}])), "{said}");
    assert!(fs::read(&beside).unwrap() == wanted, "other bytes than on the host");
    assert_eq!(fs::metadata(&beside).unwrap().permissions().mode() & 0o777, 0o640, "as its file");
    assert_eq!(names_beside(&file), ["log.csv", "log.normalised.csv"]);
    // Elsewhere this host writes what the device has made.
    let elsewhere = bed.job.sandbox.base().join("elsewhere.csv");
    for place in ["data", "split"] {
        let said = normalised(&bed, &file, &["--where", place, "--output", elsewhere.to_str().unwrap()]);
        assert!(said["written_by"].is_null(), "{said}");
        let made = said["made_by"].as_array().unwrap();
        assert_eq!(made.iter().map(|by| by["bytes"].as_u64().unwrap()).sum::<u64>(), bytes, "{said}");
        assert!(place == "split" || *made == [json!({"node": 2, "bytes": bytes})], "{said}");
        assert!(fs::read(&elsewhere).unwrap() == wanted, "{place}: other bytes than on the host");
        assert_eq!(fs::metadata(&elsewhere).unwrap().permissions().mode() & 0o777, 0o640, "{place}: as its file");
    }
    bed.job.down();
}

#[test]
fn nodes_that_read_for_others_make_the_values_and_leave_out_bad_rows() {
    let bed = Bed::of_nodes(4, 4);
    let file = bed.job.sandbox.source().join("log.csv");
    fs::write(&file, format!("{}1,x\n\"\n,\",oops\n{}", plain_table(800_000), plain_table(800_000))).unwrap();
    // A value that is no number counts where its column is requested, in both passes.
    let skip = ["--on-error", "skip", "--columns", "2"];
    let wanted = bed.job.sandbox.base().join("wanted.csv");
    let output = |path: &Path| path.to_str().unwrap().to_owned();
    normalised(&bed, &file, &[&skip[..], &["--where", "host", "--output", &output(&wanted)]].concat());
    let said = normalised(&bed, &file, &[&skip[..], &["--where", "data"]].concat());
    assert!(said["written_by"].is_null() && said["made_by"].as_array().unwrap().iter().all(|by| by["node"].is_u64()));
    let wanted = fs::read(wanted).unwrap();
    assert_eq!(wanted.iter().filter(|byte| **byte == b'\n').count(), 1_600_000);
    assert!(fs::read(file.with_file_name("log.normalised.csv")).unwrap() == wanted, "other bytes than on the host");
    assert_eq!(names_beside(&file).iter().filter(|name| name.contains("part")).count(), 0);
    bed.job.down();
}

/// A query whose device is about to write: it stands still in the middle.
fn writing(bed: &Bed, file: &Path) -> Option<(Child, u32)> {
    let mut child = bed
        .command("normalise", file, &["--json", "--where", "data"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let device = bed.job.daemon(2).unwrap();
    let is_draft = |name: &String| name.starts_with(".forebay-draft-");
    wait_until("the device writes", PATIENCE, || {
        names_beside(file).iter().any(is_draft) || child.try_wait().unwrap().is_some()
    });
    send(device, Signal::STOP);
    let is_in_the_middle = child.try_wait().unwrap().is_none() && names_beside(file).iter().any(is_draft);
    if !is_in_the_middle {
        send(device, Signal::CONT);
        assert!(child.wait().unwrap().success());
        fs::remove_file(file.with_file_name("large.normalised.csv")).unwrap();
    }
    is_in_the_middle.then_some((child, device))
}

#[test]
fn a_device_killed_while_it_writes_leaves_nothing_and_is_stood_in_for() {
    let bed = Bed::of_devices();
    let file = bed.file(2, "large.csv");
    fs::write(&file, plain_table(1_000_000).repeat(5)).unwrap();
    let wanted = by_host(&bed, &file);
    let (child, device) = (0..TRIALS).find_map(|_| writing(&bed, &file)).expect("a query that is met while it writes");
    let beside = file.with_file_name("large.normalised.csv");
    assert!(!beside.exists(), "nobody sees a part of it");
    send(device, Signal::KILL);
    let done = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{stderr}");
    assert!(stderr.contains("node 2") && stderr.contains("other nodes computed its parts"), "{stderr}");
    let said: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(said["normalise"]["written_by"].is_null(), "{said}");
    assert!(fs::read(&beside).unwrap() == wanted, "other bytes than on the host");
    assert_eq!(names_beside(&file), ["large.csv", "large.normalised.csv"], "and nothing of the device's");
    bed.job.down();
}

#[test]
fn a_query_given_up_while_a_device_writes_leaves_no_column() {
    let bed = Bed::of_devices();
    let file = bed.file(2, "large.csv");
    fs::write(&file, plain_table(1_000_000).repeat(5)).unwrap();
    let (mut child, device) =
        (0..TRIALS).find_map(|_| writing(&bed, &file)).expect("a query that is met while it writes");
    send(child.id(), Signal::INT);
    assert!(!child.wait().unwrap().success());
    send(device, Signal::CONT);
    // The draft goes at once where a block was under way, else when nobody has asked for the next ones for half a minute.
    wait_until("the draft is gone", 2 * PATIENCE, || names_beside(&file) == ["large.csv"]);
    bed.job.down();
}
