//! Machines that do not offer what a view needs.

use std::process::Command as Program;

use forebay_tests::job::binary;
use forebay_tests::program::run;
use forebay_tests::{Finished, Sandbox, require};

use crate::{FAILED, fails};

/// Runs `up` in a mount namespace of its own after `prepare` has changed it.
fn up_after(sandbox: &Sandbox, prepare: &str) -> Finished {
    let script = format!("set -e\n{prepare}\nexec \"$@\"");
    let mut unshare = Program::new("unshare");
    sandbox.surround(&mut unshare);
    unshare
        .args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"])
        .arg(binary());
    unshare
        .args(["up", "--job", &sandbox.name, "--local", "2", "--export"])
        .arg(sandbox.source());
    run(unshare.arg("--view").arg(sandbox.view()))
}

#[test]
fn no_dev_fuse() {
    require!(Root, Command("unshare"));
    let sandbox = Sandbox::new();
    let hidden = "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9";
    let done = up_after(&sandbox, hidden);
    fails(&sandbox, &done, FAILED, &["no /dev/fuse"]);
}

#[test]
fn dev_fuse_that_is_no_fuse() {
    require!(Root, Fuse, Command("unshare"));
    let sandbox = Sandbox::new();
    let done = up_after(&sandbox, "mount --bind /dev/null /dev/fuse");
    fails(&sandbox, &done, FAILED, &["cannot mount"]);
}

#[test]
fn no_room_for_the_jobs_files() {
    require!(Root, Fuse, Command("unshare"));
    let sandbox = Sandbox::new();
    let runtime = sandbox.runtime().display().to_string();
    let full = format!("mount -t tmpfs -o nr_inodes=2,size=4k,mode=700 none '{runtime}'; mkdir '{runtime}/x'");
    let done = up_after(&sandbox, &full);
    fails(&sandbox, &done, FAILED, &[&runtime, "o space left"]);
}

#[test]
fn doctor_names_what_is_missing() {
    require!(Root, Command("unshare"));
    let sandbox = Sandbox::new();
    let mut unshare = Program::new("unshare");
    sandbox.surround(&mut unshare);
    let script = "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; exec \"$@\"";
    let done = run(unshare
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(binary())
        .arg("doctor"));
    assert_eq!(done.status.code(), Some(FAILED), "no view is possible: {}", done.text());
    assert!(done.text().contains("/dev/fuse"), "{}", done.text());
}
