//! `status` says whether a job is well; `drain` and `down` say how far landing is.

use std::fs;
use std::path::Path;
use std::time::Duration;

use forebay_tests::program::{Finished, wait_until};
use forebay_tests::{Sandbox, require};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use serde_json::Value;

use crate::bed::Bed;

const PATIENCE: Duration = Duration::from_secs(60);

/// The state, the reason and the remedy, with the exit status.
fn verdict(bed: &Bed) -> (String, String, String, Option<i32>) {
    let told = bed.command(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{}", told.stderr));
    let text = |key: &str| status["verdict"][key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("why"), text("do"), told.status.code())
}

/// Waits until `status` says that something is blocked for such a reason, and returns it as people see it.
#[track_caller]
fn until_blocked(bed: &Bed, reason: &str) -> Finished {
    let mut last = verdict(bed);
    wait_until(reason, PATIENCE, || {
        last = verdict(bed);
        last.0 == "blocked" && last.1.contains(reason)
    });
    assert!(!last.2.is_empty() && last.3 == Some(3), "{last:?}");
    let shown = bed.command(&["status"]);
    assert_eq!(shown.status.code(), Some(3), "{}", shown.text());
    assert!(shown.text().contains("\nBLOCKED ") && shown.text().contains("\n  do "), "{}", shown.text());
    shown
}

#[track_caller]
fn until_healthy(bed: &Bed) {
    wait_until("it is healthy", PATIENCE, || verdict(bed).0 == "healthy");
    let shown = bed.command(&["status"]).good().text();
    assert!(shown.starts_with("forebay ") && shown.contains("\nhealthy\n"), "{shown}");
}

/// A job whose backing file system is a file system of its own.
fn with_backing_mounted(more: &[&str]) -> Bed {
    let sandbox = Sandbox::new();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    mount("tmpfs", &backing, "tmpfs", MountFlags::empty(), Some(c"size=512m")).unwrap();
    let mut words = crate::bed::arguments(&sandbox, 1);
    words.extend(more.iter().map(|word| (*word).to_owned()));
    Bed::up_with(sandbox, &words)
}

fn end(bed: Bed, backing: &Path) {
    bed.drain();
    unmount(backing, UnmountFlags::DETACH).unwrap();
    bed.job.down();
}

#[test]
fn a_directory_that_cannot_be_written_blocks_landing_and_is_named() {
    require!(Fuse, Root);
    let bed = with_backing_mounted(&[]);
    let backing = bed.backing();
    until_healthy(&bed);
    mount_remount(&backing, MountFlags::RDONLY, c"").unwrap();
    let _ = bed.shell("echo a > a").good();
    let shown = until_blocked(&bed, "Read-only file system").text();
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("cannot create {}/a: Read-only", backing.display())), "{shown}");
    assert!(words.contains("writable; landing is retried every second"), "{shown}");
    let landed = bed.command(&["landed", &format!("{}/a", crate::bed::DIR)]);
    assert!(landed.text().contains("; waiting: cannot create "), "{}", landed.text());
    mount_remount(&backing, MountFlags::empty(), c"").unwrap();
    until_healthy(&bed);
    end(bed, &backing);
}

/// With `--drain manual` nothing gives room back: writes fail, and `status` says what does.
#[test]
fn a_full_store_is_blocked_and_changes_that_wait_for_a_drain_are_not() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let mut words = crate::bed::arguments(&sandbox, 1);
    *words.last_mut().unwrap() = "256MiB".to_owned();
    words.extend(["--drain", "manual"].map(str::to_owned));
    let bed = Bed::up_with(sandbox, &words);
    let _ = bed.shell("echo a > a").good();
    let (state, why, _, code) = verdict(&bed);
    assert_eq!((state.as_str(), code), ("healthy", Some(0)), "{why}");
    assert!(why.contains("wait for forebay drain (--drain manual)"), "{why}");
    let full = bed.shell("dd if=/dev/zero of=large bs=1M count=400 conv=fsync");
    assert!(!full.status.success() && full.stderr.contains("No space left"), "{}", full.stderr);
    let shown = until_blocked(&bed, "store full: writes fail with ENOSPC on node 0").text();
    assert!(shown.contains("forebay drain gives room back"), "{shown}");
    let _ = bed.shell("rm large").good();
    bed.drain();
    bed.job.down();
}

/// An `fsync` waits half a minute for the partner, and fails.
#[test]
fn a_partner_without_room_is_blocked() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let mut words = crate::bed::arguments(&sandbox, 3);
    *words.last_mut().unwrap() = "256MiB".to_owned();
    words.extend(["--drain", "manual", "--partner", "all"].map(str::to_owned));
    let bed = Bed::up_with(sandbox, &words);
    let full = bed.shell_on(2, "dd if=/dev/zero of=large bs=1M count=400");
    assert!(!full.status.success() && full.stderr.contains("No space left"), "{}", full.stderr);
    let refused = bed.shell_on(1, "dd if=/dev/zero of=a bs=1M count=100 conv=fsync");
    assert!(!refused.status.success() && refused.stderr.contains("No space left"), "{}", refused.stderr);
    let shown = bed.command(&["status"]).text();
    let told = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("partners have no room for copies: fsync fails with ENOSPC on node 1"), "{shown}");
    let _ = bed.shell_on(2, "rm large a").good();
    bed.drain();
    bed.job.down();
}

#[test]
fn a_node_that_does_not_answer_is_blocked_and_comes_first() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    until_healthy(&bed);
    bed.while_it_stands_still(1, || {
        let shown = until_blocked(&bed, "does not answer").text();
        let table: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("NODE")).collect();
        assert!(table[1].trim_start().starts_with("1 ") && table[1].contains("SILENT"), "{shown}");
    });
    until_healthy(&bed);
    bed.job.down();
}

#[test]
fn a_daemon_that_was_killed_is_said_with_signal_time_and_pause() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let _ = bed.job.kill_daemon(1);
    wait_until("it serves again", PATIENCE, || {
        let told = bed.job.status()["nodes"][1]["last_death"].clone();
        told["signal"] == 9 && told["back_after_ms"].is_u64()
    });
    until_healthy(&bed);
    let shown = bed.command(&["status"]).good().text();
    let story = shown.lines().find(|line| line.starts_with("node 1: ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(
        story.starts_with("node 1: killed by SIGKILL at ") && story.contains(" UTC (out of memory?), back after "),
        "{story}"
    );
    let log = story.rsplit_once("; log: ").unwrap().1;
    assert!(Path::new(log).exists(), "{story}");
    bed.job.down();
}

/// Absent names are answers, and errors are counted by kind.
#[test]
fn absent_names_are_no_errors() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let view = bed.job.path(0, &bed.job.sandbox.source());
    assert!(fs::metadata(view.join("absent")).is_err());
    let status = bed.job.status();
    let backing = &status["nodes"][0]["backing"];
    assert_eq!((&backing["errors"], &backing["errors_by_kind"]), (&0.into(), &serde_json::json!({})), "{backing}");
    assert!(bed.command(&["status"]).good().text().contains(" 0 errors"));
    bed.job.down();
}

/// Where standard error is no terminal there is a line at first after 2 s. Landing takes 30 s, so that it goes on during all of this.
#[test]
fn a_slow_drain_says_part_rate_and_time_left() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end", "--drain-rate", "2MiB/s"]);
    let _ = bed.shell("dd if=/dev/zero of=large bs=1M count=60 status=none").good();
    let drained = bed.command(&["drain", "--wait", "--timeout", "4s"]);
    let line = drained.stderr.lines().find(|line| line.starts_with("forebay: landing: ")).map(str::to_owned);
    let line = line.unwrap_or_else(|| panic!("{} {}", drained.stderr, drained.text()));
    assert!(
        line.contains(" MiB, ")
            && line.contains(" of ")
            && line.contains(" MB/s, ")
            && line.contains(" s left (1 file)"),
        "{line}"
    );
    assert_eq!(drained.status.code(), Some(3));
    assert!(drained.text().starts_with("not landed: ") && drained.text().contains(" in 1 file"), "{}", drained.text());
    let told = bed.command(&["drain", "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(told["left_bytes"].as_u64().unwrap() > 0 && told["bytes_per_s"].as_u64().unwrap() > 1 << 19, "{told}");
    assert_eq!(told["left_files"], 1, "{told}");
    wait_until("it lands by then", PATIENCE, || verdict(&bed).0 == "landing");
    let down = bed.command(&["down"]);
    assert_eq!(down.status.code(), Some(0), "{}", down.stderr);
    assert!(
        down.stderr.contains("; Ctrl-C keeps the job: its programs can write again 2 min later"),
        "{}",
        down.stderr
    );
    bed.job.forget();
}

#[test]
fn down_without_a_drain_says_where_the_rest_is_and_how_it_lands() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let _ = bed.shell("dd if=/dev/zero of=large bs=1M count=20 status=none").good();
    let store = bed.job.sandbox.base().join("store");
    let down = bed.command(&["down", "--no-drain"]);
    assert_eq!(down.status.code(), Some(3), "{}", down.stderr);
    let store = store.display();
    let expected = format!("Kept in {store} (20 MiB, 1 file). Land it: forebay salvage --burst-store {store};");
    assert!(down.stderr.contains(&expected), "{}", down.stderr);
    let salvaged = bed.command_without_job(&["salvage", "--burst-store", &store.to_string()]).good();
    assert!(salvaged.text().starts_with("all of job "), "{}", salvaged.text());
    assert_eq!(fs::metadata(bed.backing().join("large")).unwrap().len(), 20 << 20);
    bed.job.forget();
}
