//! Stores that are not the ones in which a job's bytes are: removed between two runs, or while the job runs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use forebay_tests::program::{Finished, run};
use forebay_tests::{Sandbox, require};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{Bed, arguments};
use crate::salvage::salvage;

/// Of every place in a new log, another file may be written there: bytes of one must not appear in the other.
const OLD: &str = "head -c 200000 /dev/zero | tr '\\0' A > f1; sync f1";
const NEW: &str = "head -c 300000 /dev/zero | tr '\\0' C > other; sync other";

fn store_of(bed: &Bed, node: u32) -> PathBuf {
    bed.job.sandbox.base().join("store").join(node.to_string())
}

/// `f1` is lost and says so, on every node; `other` lands.
#[track_caller]
fn assert_named(bed: &Bed) {
    let told: Finished = bed.command(&["drain", "--wait", "--json", "--timeout", "30s"]);
    assert_eq!(told.status.code(), Some(3), "{} {}", told.text(), told.stderr);
    for node in 0..2 {
        let read = bed.shell_on(node, "cat f1 > /dev/null");
        assert!(read.stderr.contains("Input/output error"), "node {node}: {:?} {}", read.status, read.stderr);
        assert_eq!(bed.shell_on(node, "tr -d C < other | wc -c; wc -c < other").good().text(), "0\n300000\n");
    }
    let told = bed.landed("f1");
    assert_eq!((&told["state"], &told["missing"]), (&"lost".into(), &serde_json::json!([[0, 200_000]])), "{told}");
    assert!(!bed.backing().join("f1").exists(), "nothing of it lands");
    assert_eq!(fs::read(bed.backing().join("other")).unwrap(), vec![b'C'; 300_000]);
}

fn up_again(bed: &mut Bed) {
    let words = words(bed);
    bed.job.up_again(&words.iter().map(OsStr::new).collect::<Vec<_>>());
}

fn words(bed: &Bed) -> Vec<String> {
    [arguments(&bed.job.sandbox, 2), vec!["--drain".to_owned(), "manual".to_owned()]].concat()
}

/// A job of two nodes that was killed after `f1` was written on node 1.
fn first_run() -> Bed {
    let mut bed = Bed::with(2, &["--drain", "manual"]);
    let _ = bed.shell_on(1, OLD).good();
    bed.job.kill_all();
    bed
}

#[test]
fn files_of_a_store_removed_between_two_runs_are_lost_and_named() {
    require!(Fuse, Root);
    let mut bed = first_run();
    fs::remove_dir_all(store_of(&bed, 1)).unwrap();
    up_again(&mut bed);
    let _ = bed.shell_on(1, NEW).good();
    assert_named(&bed);
    bed.job.kill_all();
}

#[test]
fn files_of_a_store_emptied_under_its_daemon_are_lost_and_named() {
    require!(Fuse, Root);
    let mut bed = Bed::with(2, &["--drain", "manual"]);
    let _ = bed.shell_on(1, OLD).good();
    for file in fs::read_dir(store_of(&bed, 1)).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let refused = bed.shell_on(1, "echo x > late; sync late");
    assert!(refused.stderr.contains("Input/output error"), "{:?} {}", refused.status, refused.stderr);
    bed.job.kill_daemon(1);
    let _ = bed.shell_on(1, NEW).good();
    assert_named(&bed);
    bed.job.kill_all();
}

#[test]
fn a_store_that_was_moved_away_under_its_daemon_is_told_by_fsync() {
    require!(Fuse, Root);
    let mut bed = Bed::with(2, &["--drain", "manual"]);
    let _ = bed.shell_on(1, OLD).good();
    fs::rename(store_of(&bed, 1), bed.job.sandbox.base().join("elsewhere")).unwrap();
    let refused = bed.shell_on(1, "echo x > late; sync late");
    assert!(refused.stderr.contains("Input/output error"), "{:?} {}", refused.status, refused.stderr);
    bed.job.kill_all();
}

#[test]
fn a_start_that_fails_leaves_no_empty_store() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let mut words = arguments(&sandbox, 2);
    words.last_mut().unwrap().replace_range(.., "1KiB");
    let refused = sandbox.up(&words.iter().map(OsStr::new).collect::<Vec<_>>());
    assert!(refused.stderr.contains("is too small"), "{:?} {}", refused.status, refused.stderr);
    for node in ["0", "1"] {
        assert!(!sandbox.base().join("store").join(node).exists(), "node {node} leaves nothing");
    }
}

/// Its names are in the store of node 1, which is the standby: a new tree would make it forget them.
#[test]
fn a_job_whose_names_were_removed_is_not_begun_over_what_is_left() {
    require!(Fuse, Root);
    let mut bed = first_run();
    fs::remove_dir_all(store_of(&bed, 0)).unwrap();
    let words = words(&bed);
    let refused = bed.job.sandbox.up(&words.iter().map(OsStr::new).collect::<Vec<_>>());
    assert_eq!(refused.status.code(), Some(1), "{} {}", refused.text(), refused.stderr);
    let store = store_of(&bed, 1);
    let advice = format!("land it first (forebay salvage --burst-store {})", store.display());
    assert!(
        refused.stderr.contains("another run of the job") && refused.stderr.contains(&advice),
        "{}",
        refused.stderr
    );
    let (status, told) = salvage(&bed.job.sandbox, "store/1");
    assert_eq!((status, &told["landed"]), (Some(0), &true.into()), "{told}");
    assert_eq!(fs::read(bed.backing().join("f1")).unwrap(), vec![b'A'; 200_000]);
    up_again(&mut bed);
    assert_eq!(bed.shell_on(1, "wc -c < f1").good().text(), "200000\n");
    bed.job.kill_all();
}

/// Its next daemon would serve an empty directory, and have what other nodes commit vanish.
#[test]
fn a_leader_whose_store_has_vanished_serves_no_empty_tree() {
    require!(Fuse, Root);
    let mut bed = Bed::with(2, &["--drain", "manual"]);
    let _ = bed.shell_on(1, OLD).good();
    for file in fs::read_dir(store_of(&bed, 0)).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    bed.job.kill_daemon(0);
    match fs::read(bed.mount_of(1).join("f1")) {
        Ok(read) => assert!(read == vec![b'A'; 200_000], "{} bytes, or others", read.len()),
        Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{error}"),
    }
    bed.job.kill_all();
}

/// The place where stores meet still has the one of the first run.
#[test]
fn a_store_meets_no_store_of_another_run() {
    require!(Fuse, Root);
    let mut bed = first_run();
    let meet = |bed: &Bed| {
        run(bed.job.sandbox.command().args(["salvage", "--meet", "10ms", "--burst-store"]).arg(store_of(bed, 1)))
    };
    let waits = meet(&bed);
    assert_eq!(waits.status.code(), Some(3), "{} {}", waits.text(), waits.stderr);
    let mut places = fs::read_dir(bed.backing()).unwrap().map(|entry| entry.unwrap().path());
    let place = places.next().expect("the stores meet below the backing directory");
    fs::remove_dir_all(store_of(&bed, 0)).unwrap();
    up_again(&mut bed);
    let _ = bed.shell_on(1, NEW).good();
    bed.job.kill_all();
    let refused = meet(&bed);
    assert_eq!(refused.status.code(), Some(1), "{} {}", refused.text(), refused.stderr);
    assert!(refused.stderr.contains("the store of another run of the job"), "{}", refused.stderr);
    assert!(place.join("1").is_dir() && store_of(&bed, 1).is_dir(), "both are there");
    // The first run's is moved away: the second lands.
    fs::rename(&place, bed.job.sandbox.base().join("first-run")).unwrap();
    assert_eq!(salvage(&bed.job.sandbox, "store").0, Some(0));
    assert_eq!(fs::read(bed.backing().join("other")).unwrap(), vec![b'C'; 300_000]);
    assert_eq!(salvage(&bed.job.sandbox, "first-run").0, Some(0));
    assert_eq!(fs::read(bed.backing().join("f1")).unwrap(), vec![b'A'; 200_000]);
}

#[test]
fn a_store_of_another_run_is_left_out_and_named() {
    require!(Fuse, Root);
    let mut bed = first_run();
    let aside = bed.job.sandbox.base().join("first-run");
    fs::rename(store_of(&bed, 0).parent().unwrap(), &aside).unwrap();
    up_again(&mut bed);
    let _ = bed.shell_on(1, NEW).good();
    let _ = bed.shell_on(0, "echo zero > zero").good();
    bed.job.kill_all();
    // Node 1's stores are exchanged.
    fs::rename(store_of(&bed, 1), bed.job.sandbox.base().join("second-run-1")).unwrap();
    fs::rename(aside.join("1"), store_of(&bed, 1)).unwrap();
    let (status, told) = salvage(&bed.job.sandbox, "store");
    assert_eq!((status, &told["other_runs"]), (Some(3), &serde_json::json!([store_of(&bed, 1)])), "{told}");
    assert!(store_of(&bed, 1).join("head").is_file() && !bed.backing().join("f1").exists());
    assert_eq!(
        (fs::read(bed.backing().join("zero")).unwrap(), bed.backing().join("other").exists()),
        (b"zero\n".to_vec(), false)
    );
    let missing: Vec<&str> =
        told["missing"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(missing, [bed.backing().join("other").to_str().unwrap()], "{told}");
}

/// It comes to the place of a node's store while the node has no daemon. Files that programs have open are other ones there.
#[test]
fn a_store_of_another_run_is_not_written_to_by_a_mounts_next_daemon() {
    require!(Fuse, Root);
    let mut bed = first_run();
    let aside = bed.job.sandbox.base().join("first-run");
    fs::rename(store_of(&bed, 1).parent().unwrap(), &aside).unwrap();
    up_again(&mut bed);
    let open = File::create(bed.mount_of(1).join("open")).unwrap();
    open.write_all_at(b"second run", 0).unwrap();
    open.sync_all().unwrap();
    let pid = |pid: u32| Pid::from_raw(pid as i32).unwrap();
    let (keeper, daemon) = (pid(bed.job.keeper(1)), pid(bed.job.daemon(1).unwrap()));
    kill_process(keeper, Signal::STOP).unwrap();
    kill_process(daemon, Signal::KILL).unwrap();
    fs::rename(store_of(&bed, 1), bed.job.sandbox.base().join("second-run-1")).unwrap();
    fs::rename(aside.join("1"), store_of(&bed, 1)).unwrap();
    kill_process(keeper, Signal::CONT).unwrap();
    let refused = open.write_all_at(b"bytes of the second run", 0).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::IO.raw_os_error()), "{refused}");
    drop(open);
    bed.job.kill_all();
    let (status, told) = salvage(&bed.job.sandbox, "store/1");
    assert_eq!((status, &told["landed"]), (Some(0), &true.into()), "{told}");
    assert_eq!(fs::read(bed.backing().join("f1")).unwrap(), vec![b'A'; 200_000]);
}
