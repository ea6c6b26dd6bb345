//! Some histories of simulated jobs of the burst tier, each in a process of its own.

#![allow(clippy::unwrap_used)]

use std::process::Command;

/// A history takes half a second of a processor.
const SEEDS: &str = "0..40";

/// More with small stores and two with large ones: segments of a store, and the seed.
const OTHERS: [[&str; 2]; 7] =
    [["8", "110"], ["8", "159"], ["8", "400"], ["8", "548"], ["8", "674"], ["32", "85"], ["32", "301"]];

fn run(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_forebay-burst-sim")).args(arguments).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn promised_files_land_whole_after_any_failures() {
    let (is_right, said) = run(&["--seeds", SEEDS]);
    assert!(is_right, "{said}");
    for [segments, seed] in OTHERS {
        let (is_right, said) = run(&["--segments", segments, "--seed", seed]);
        assert!(is_right, "seed {seed} with {segments} segments: {said}");
    }
}

#[test]
fn a_seed_is_one_history() {
    let history = |said: &str| said.lines().find(|line| line.starts_with("history")).unwrap().to_owned();
    for seed in ["4", "21", "30"] {
        // The second one beside another, so that it has other times to itself.
        let first = run(&["--seed", seed]);
        let (second, _) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| run(&["--seed", "159"]));
            (run(&["--seed", seed]), beside.join())
        });
        assert_eq!(history(&first.1), history(&second.1), "seed {seed}");
    }
}
