//! The time limit of tests, by a real program of tests: this one.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, thread, time::Duration};

/// Where the test that hangs tells what it has started. Without it nothing hangs.
const TOLD: &str = "FOREBAY_TEST_HANGS";

/// This program by `cargo xtask limited`, with one of its tests, and one thread, so that it is named at once.
fn limited(test: &str, told: &Path) -> Output {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.arg("limited").arg(std::env::current_exe().unwrap()).args(["--exact", test, "--test-threads", "1"]);
    xtask.env("FOREBAY_TEST_LIMIT", "3").env(TOLD, told).output().unwrap()
}

/// A file that is not there.
fn place(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("xtask-limited-{}-{name}", std::process::id()));
    let _ = fs::remove_file(&path);
    path
}

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Alone it passes. As the program that is limited it starts a child and, in a session of its own and without a parent, what
/// hears no `SIGTERM`, and then hangs.
#[test]
fn a_test_that_hangs_is_named_and_all_that_it_started_ends() {
    const NAME: &str = "a_test_that_hangs_is_named_and_all_that_it_started_ends";
    if let Some(told) = std::env::var_os(TOLD) {
        let stubborn = r#"trap '' TERM; echo $$ >>"$1"; while :; do sleep 1; done"#;
        let starts = format!("setsid sh -c '{}' sh \"$1\" & ", stubborn.replace('\'', r"'\''"));
        let _ = Command::new("sh").args(["-c", &starts, "sh"]).arg(&told).status().unwrap();
        let mut child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
        while fs::read_to_string(&told).unwrap_or_default().is_empty() {
            thread::sleep(Duration::from_millis(10));
        }
        let first = fs::read_to_string(&told).unwrap();
        fs::write(&told, format!("{first}{}\n{}\n", child.id(), std::process::id())).unwrap();
        let _ = child.wait();
        return;
    }
    let told = place("pids");
    let output = limited(NAME, &told);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let started = fs::read_to_string(&told).unwrap();
    fs::remove_file(&told).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains(&format!("test {NAME} ... FAILED: it has not ended within 3 s")), "{printed}");
    assert!(printed.contains("test result: FAILED. 0 passed; 1 failed; 0 ignored"), "{printed}");
    let started: Vec<&str> = started.lines().collect();
    assert_eq!(started.len(), 3, "{started:?}");
    assert!(started[..2].iter().all(|pid| printed.contains(&format!("({pid})"))), "{started:?}: {printed}");
    assert!(!started.iter().any(|pid| is_alive(pid)), "{started:?}: {printed}");
}

/// A program that ends in time keeps its output and its exit status, also if a process that it has started holds its output open. If
/// the program failed, such processes are ended.
#[test]
fn outcomes_in_time_are_passed_on() {
    const NAME: &str = "outcomes_in_time_are_passed_on";
    if std::env::var_os(TOLD).is_some() {
        let _ = Command::new("sh")
            .args(["-c", "setsid sleep 600 2>/dev/null & echo $! >\"$0\""])
            .arg(std::env::var_os(TOLD).unwrap())
            .status();
        panic!("as it is meant");
    }
    let told = place("holder");
    let output = limited(NAME, &told);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let holder = fs::read_to_string(&told).unwrap();
    fs::remove_file(&told).unwrap();
    let killed = Command::new("kill").arg(holder.trim()).stderr(Stdio::null()).status().unwrap();
    assert!(!killed.success(), "{holder} is left");
    assert_eq!(output.status.code(), Some(101), "{printed}");
    assert!(
        printed.contains("as it is meant") && printed.contains("0 passed; 1 failed; 0 ignored; 0 measured"),
        "{printed}"
    );
}
