//! The choice of the end that answers, where no option names it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use forebay_tests::job::send;
use forebay_tests::program::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bed::{ALL, Bed, parted, plain_table, read_bytes};

fn said(bed: &Bed, file: &Path, more: &[&str]) -> Value {
    let done = bed.query(ALL, file, &[&["--json"], more].concat()).good();
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn each_choice_has_a_prediction_and_the_answer_says_what_it_took() {
    let bed = Bed::of_devices();
    let file = bed.file(1, "log.csv");
    fs::write(&file, plain_table(2_000_000)).unwrap();
    for place in ["host", "data", "split", "auto"] {
        let answer = said(&bed, &file, &["--where", place, "--explain"]);
        let seconds = |key: &str| answer["predicted"][key].as_f64().unwrap();
        for key in ["host", "data", "split", "took"] {
            assert!(seconds(key) > 0.0 && seconds(key) < 60.0, "{answer}");
        }
        assert!(seconds("split") < seconds("host") + seconds("data"), "{answer}");
        assert!(answer["where"] == place || place == "auto", "{answer}");
    }
    let shown = bed.query("stats", &file, &["--explain", "--where", "data"]).good().text();
    for part in ["read by", "predicted", "made by", "node 1"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Small files are read at once.
    let small = bed.file(1, "small.csv");
    fs::write(&small, "a\n1\n2\n").unwrap();
    let answer = said(&bed, &small, &[]);
    assert_eq!((&answer["where"], &answer["predicted"]), (&json!("host"), &Value::Null));
    bed.job.down();
}

/// Queries over which a prediction must have changed.
const TRIALS: usize = 20;

/// Of a node's time, how much it gets when it is slow: 2 ms of 40.
const SLOW_RUNS: Duration = Duration::from_millis(2);
const SLOW_WAITS: Duration = Duration::from_millis(38);

/// Has a process stand still most of the time, while `work` is done.
fn slowed<T>(process: u32, work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                send(process, Signal::STOP);
                thread::sleep(SLOW_WAITS);
                send(process, Signal::CONT);
                thread::sleep(SLOW_RUNS);
            }
        });
        let done = work();
        is_done.store(true, Ordering::Relaxed);
        done
    })
}

#[test]
fn measured_times_correct_predictions() {
    /// More than the load of other programs changes a prediction by.
    const MUCH: f64 = 4.0;
    /// Less than that: a prediction comes back by steps.
    const CLEARLY: f64 = 2.0;
    /// The machine may become busy or idle in the midst of one.
    const ROUNDS: usize = 4;
    let bed = Bed::of_devices();
    let file = bed.file(1, "log.csv");
    fs::write(&file, plain_table(2_000_000)).unwrap();
    let predicted = || said(&bed, &file, &["--where", "data", "--explain"])["predicted"]["data"].as_f64().unwrap();
    let device = bed.job.daemon(1).unwrap();
    let mut rounds = vec![];
    let is_corrected = (0..ROUNDS).any(|_| {
        // The least of some, as a busy machine makes one larger, never smaller.
        let fast = (0..3).map(|_| predicted()).fold(f64::INFINITY, f64::min);
        let slow = slowed(device, || (0..TRIALS).map(|_| predicted()).find(|seconds| *seconds > MUCH * fast));
        let fast_again =
            slow.and_then(|slow| (0..TRIALS).map(|_| predicted()).find(|seconds| *seconds < slow / CLEARLY));
        rounds.push((fast, slow, fast_again));
        fast_again.is_some()
    });
    assert!(is_corrected, "a node that became slow is expected to be, and fast when it is fast again: {rounds:?}");
    bed.job.down();
}

/// Has the host's daemon believe that the host parses so much more slowly than its sample says.
fn teach(bed: &Bed, factor: f64) {
    let wants = json!({"counts_bytes": true, "rows": true, "gramian": true, "described": false});
    let question = json!({"command": "querysaw", "wants": wants, "factor": factor, "waited_for_bytes": false});
    assert_eq!(bed.asked(&question), "{\"ok\":null}\n");
}

#[test]
fn a_device_that_was_chosen_and_falls_behind_is_helped() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let bed = Bed::of_devices();
    let file = bed.file(2, "large.csv");
    fs::write(&file, plain_table(1_000_000).repeat(16)).unwrap();
    let (here, _) = bed.answer(&file, "host", &[]);
    let device = bed.job.daemon(2).unwrap();
    // The device stands still from its first part on. A busy machine may be over with the query before, or take it for lost.
    // A device that stood still in an earlier attempt is expected to be slow: then the host has to be expected to be slower still.
    let mut attempts = vec![];
    let mut is_helped = |factor: f64| {
        teach(&bed, factor);
        let before = read_bytes(device);
        let (out, err) = (Stdio::piped(), Stdio::piped());
        let mut child = bed.command(ALL, &file, &["--json"]).stdout(out).stderr(err).spawn().unwrap();
        wait_until("the device reads, or the query is over", PATIENCE, || {
            read_bytes(device) > before + (1 << 20) || child.try_wait().unwrap().is_some()
        });
        send(device, Signal::STOP);
        let done = child.wait_with_output().unwrap();
        send(device, Signal::CONT);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        // Beside how far it is.
        let noted: String = said.lines().filter(|line| !line.contains(" MiB, ")).collect();
        let place = serde_json::from_slice::<Value>(&done.stdout).unwrap()["where"].clone();
        let (there, by) = parted(&done.stdout);
        assert_eq!(there, here);
        let host_helped = by.as_array().is_some_and(|by| by.iter().any(|by| by["node"].is_null()));
        attempts.push(format!("with {factor}: made at {place}, by {by}, {noted:?}"));
        place == "data" && host_helped && noted.is_empty()
    };
    let has_helped = (0..TRIALS).any(|trial| is_helped(f64::from(4_u32.pow(1 + trial as u32 % 5))));
    assert!(has_helped, "the host makes what the device does not, before that is taken for lost: {attempts:#?}");
    bed.job.down();
}
