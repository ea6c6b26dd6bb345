//! Who answers when nobody says who should.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use forebay_tests::job::send;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bed::{ALL, Bed, plain_table};

fn said(bed: &Bed, file: &std::path::Path, more: &[&str]) -> Value {
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
        assert!(seconds("split") < seconds("host") + 0.01 && seconds("split") < seconds("data") + 0.01, "{answer}");
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
fn what_was_seen_corrects_what_is_predicted() {
    /// More than the load of other programs changes a prediction by.
    const MUCH: f64 = 4.0;
    /// Less than that: a machine that has become busy meanwhile does not let it come back to where it began.
    const CLEARLY: f64 = 2.0;
    let bed = Bed::of_devices();
    let file = bed.file(1, "log.csv");
    fs::write(&file, plain_table(2_000_000)).unwrap();
    let predicted = || said(&bed, &file, &["--where", "data", "--explain"])["predicted"]["data"].as_f64().unwrap();
    let before = predicted();
    let device = bed.job.daemon(1).unwrap();
    let slow = slowed(device, || (0..TRIALS).map(|_| predicted()).find(|seconds| *seconds > MUCH * before));
    let slow = slow.unwrap_or_else(|| panic!("a node that became slow is expected to be: {before} s before"));
    let fast = (0..TRIALS).map(|_| predicted()).find(|seconds| *seconds < slow / CLEARLY);
    assert!(fast.is_some(), "a node that is fast again is expected to be: {slow} s while it was slow");
    bed.job.down();
}
