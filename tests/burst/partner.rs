//! Data that a node's partner copies outlive the node.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_tests::program::{run, wait_until};
use forebay_tests::require;

use crate::bed::{Bed, DIR};
use crate::salvage::{salvage, wait_for_standby};

const PATIENCE: Duration = Duration::from_secs(60);

/// Every node writes, overwrites and appends.
fn write_on_all(bed: &Bed, nodes: u32) {
    for node in 0..nodes {
        let script = format!(
            "mkdir d{node}; head -c 3000000 /dev/urandom > d{node}/new; head -c 100000 /dev/urandom >> d{node}/new; \
             head -c 5000 /dev/urandom | dd of=d{node}/new bs=1000 seek=7 conv=notrunc status=none; mv d{node}/new d{node}/f; \
             sync d{node}/f; echo {node} >> shared; sync shared"
        );
        let _ = bed.shell_on(node, &script).good();
    }
}

#[test]
fn a_lost_store_loses_nothing() {
    require!(Fuse, Root);
    for lost in [0, 2] {
        let mut bed = Bed::with(3, &["--partner", "all", "--drain", "manual"]);
        write_on_all(&bed, 3);
        let listing = Bed::listing(&bed.mount_of(1));
        wait_for_standby(&bed);
        bed.job.kill_all();
        let sandbox = &bed.job.sandbox;
        fs::remove_dir_all(sandbox.base().join(format!("store/{lost}"))).unwrap();
        let (status, told) = salvage(sandbox, "store");
        assert_eq!(status, Some(0), "without {lost}: {told}");
        assert_eq!(Bed::listing(&bed.backing()), listing, "without {lost}");
        assert!(!sandbox.base().join("store").exists(), "stores of which all has landed are gone");
    }
}

#[test]
fn programs_go_on_without_a_lost_node() {
    require!(Fuse, Root);
    let bed = Bed::with(4, &["--partner", "all", "--drain", "end"]);
    write_on_all(&bed, 4);
    let listing = Bed::listing(&bed.mount_of(1));
    let daemon = bed.job.daemon(2).unwrap();
    bed.job.kill_keeper(2);
    wait_until("the daemon of a keeper that has died ends", PATIENCE, || bed.job.daemon(2) != Some(daemon));
    assert_eq!(Bed::listing(&bed.mount_of(1)), listing, "what it wrote is read where it was copied");
    let drained = bed.command(&["drain", "--wait", "--timeout", "60s"]);
    assert!(drained.status.success(), "{} {}", drained.text(), drained.stderr);
    assert_eq!(Bed::listing(&bed.backing()), listing);
}

/// Copies are made again after deaths of the daemons on either side, and go when what they are of has landed.
#[test]
fn copies_outlive_daemons_and_go_at_the_end() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--partner", "all", "--drain", "manual"]);
    let _ = bed.shell_on(1, "head -c 2000000 /dev/urandom > a; sync a").good();
    for node in [1, 0, 1] {
        bed.job.kill_daemon(node);
        let _ = bed.shell_on(1, "head -c 100000 /dev/urandom >> a; sync a").good();
    }
    let bytes = |node: usize, of: &str| bed.job.status()["nodes"][node]["burst"][of].as_u64().unwrap();
    let copied = bytes(0, "copies_bytes");
    assert!(copied >= 2_300_000, "the leader has copies of what node 1 wrote: {copied}");
    assert_eq!(bytes(0, "committed_bytes"), 0, "its own programs wrote nothing");
    bed.drain();
    wait_until("copies are gone", PATIENCE, || bytes(0, "copies_bytes") == 0 && bytes(1, "committed_bytes") == 0);
    bed.job.down();
}

#[test]
fn fsync_waits_for_the_partner() {
    require!(Fuse, Root);
    let bed = Bed::with(4, &["--partner", "all"]);
    wait_until("the partner asks", PATIENCE, || bed.job.status()["nodes"][2]["burst"]["uncopied_bytes"] == 0);
    let took = bed.while_it_stands_still(3, || {
        let began = Instant::now();
        let _ = bed.shell_on(2, "echo promised > a; sync a").good();
        began.elapsed()
    });
    assert!(took > Duration::from_secs(2), "fsync returned after {took:?}");
    bed.job.down();
}

/// Only what is below the named directories is copied, and waited for; its copies outlive the node, the rest is named.
#[test]
fn only_named_directories_are_copied() {
    require!(Fuse, Root);
    let named = format!("{DIR}/kept");
    let mut bed = Bed::with(3, &["--partner", &named, "--partner", "/burst/ckpt/x/y", "--drain", "manual"]);
    let burst = |bed: &Bed, node: usize, key: &str| bed.job.status()["nodes"][node]["burst"][key].as_u64();
    wait_until("the partner asks", PATIENCE, || burst(&bed, 1, "uncopied_bytes") == Some(0));
    assert_eq!(burst(&bed, 1, "partner"), Some(2));
    let _ = bed.shell_on(1, "mkdir -p kept/d x/y; head -c 3000000 /dev/urandom > large; sync large").good();
    assert_eq!(burst(&bed, 2, "copies_bytes"), Some(0), "nothing of it is copied");
    let _ = bed.shell_on(1, "head -c 200000 /dev/urandom > kept/d/a; echo y > x/y/b; sync kept/d/a x/y/b").good();
    assert_eq!(burst(&bed, 2, "copies_bytes"), Some(200_002));
    // Data written elsewhere that came to a node are copied as far as they are written there.
    let _ = bed
        .shell_on(1, "head -c 100000 /dev/zero > c; mv c kept/c; sync kept/c; echo more >> kept/c; sync kept/c")
        .good();
    assert_eq!(burst(&bed, 2, "copies_bytes"), Some(200_007));
    // A daemon that begins again knows what is to be copied.
    bed.while_it_stands_still(2, || {
        let _ = bed.shell_on(1, "head -c 50000 /dev/urandom > kept/e; head -c 70000 /dev/urandom > other").good();
        bed.job.kill_daemon(1);
    });
    let _ = bed.shell_on(1, "sync kept/e other; mv kept/c c").good();
    assert_eq!(burst(&bed, 2, "copies_bytes"), Some(250_007));
    let listing = Bed::listing(&bed.mount_of(0).join("kept"));
    wait_for_standby(&bed);
    bed.job.kill_all();
    let sandbox = &bed.job.sandbox;
    fs::remove_dir_all(sandbox.base().join("store/1")).unwrap();
    let (status, told) = salvage(sandbox, "store");
    assert_eq!(status, Some(3), "{told}");
    let told = told.to_string();
    assert!(told.contains("large") && !told.contains("kept"), "{told}");
    assert_eq!(Bed::listing(&bed.backing().join("kept")), listing);
    assert_eq!(fs::read(bed.backing().join("x/y/b")).unwrap(), b"y\n");
}

/// Files elsewhere do not wait for the partner.
#[test]
fn fsync_of_other_files_does_not_wait_for_the_partner() {
    require!(Fuse, Root);
    let named = format!("{DIR}/kept");
    let bed = Bed::with(4, &["--partner", &named]);
    let _ = bed.shell_on(2, "mkdir kept; echo x > kept/before").good();
    wait_until("the partner asks", PATIENCE, || bed.job.status()["nodes"][2]["burst"]["uncopied_bytes"] == 0);
    bed.while_it_stands_still(3, || {
        let _ = bed.shell_on(2, "echo promised > kept/a; echo here > b; sync b .").good();
        let waits = run(Command::new("timeout").args(["1", "sync", "kept/a"]).current_dir(bed.mount_of(2)));
        assert_eq!(waits.status.code(), Some(124), "it is below a directory that was named");
    });
    let _ = bed.shell_on(2, "sync kept/a").good();
    bed.job.down();
}
