//! Some histories of simulated jobs of the burst tier, each in a process of its own.

#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A history takes half a second of a processor.
const SEEDS: &str = "0..40";

/// What these have found was wrong, and none of those: segments of a store, and the seed.
const FOUND: [[&str; 2]; 4] = [["8", "110"], ["8", "159"], ["32", "85"], ["32", "301"]];

/// One test at a time: with more processes than processors, some histories take another course (docs/testing.md).
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_forebay-burst-sim")).args(arguments).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn whatever_fails_what_was_promised_is_there_and_lands_whole() {
    let _alone = alone();
    let (is_right, said) = run(&["--seeds", SEEDS]);
    assert!(is_right, "{said}");
    for [segments, seed] in FOUND {
        let (is_right, said) = run(&["--segments", segments, "--seed", seed]);
        assert!(is_right, "seed {seed} with {segments} segments: {said}");
    }
}

#[test]
fn a_seed_is_one_history() {
    let _alone = alone();
    let history = |said: &str| said.lines().find(|line| line.starts_with("history")).unwrap().to_owned();
    for seed in ["4", "21", "30"] {
        let (first, second) = (run(&["--seed", seed]), run(&["--seed", seed]));
        assert_eq!(history(&first.1), history(&second.1), "seed {seed}");
    }
}
