//! Daemons that are killed under readers: no error, no wrong byte.

use std::path::Path;
use std::time::Duration;

use forebay_tests::job::as_nobody;
use forebay_tests::program::{run, wait_until};
use forebay_tests::{Job, Sandbox, require};

use crate::readers::{Files, count, job};

/// A request that was lost with its daemon is answered when its time is over, if ever. `make bench-deaths` measures how much
/// sooner the next daemon answers; here the machine may be busy.
const STALL_MAX: Duration = Duration::from_secs(10);

/// How long all files may take to be read.
const READ_MAX: Duration = Duration::from_secs(60);

fn nobody_notices(nodes: u32, resend: &str) {
    let (job, files) = job(nodes, 2400, &["--resend", resend, "--fanout", "2"]);
    let rank = job.nodes() - 1;
    let before = job.daemon(rank);
    let longest = files.read_all(&job, rank, 12, |_| {
        job.kill_daemon(rank);
    });
    assert!(longest <= STALL_MAX, "a reader waited {longest:?}");
    assert_eq!((count(&job, rank, "restarts"), count(&job, rank, "replaced")), (12, 0));
    assert_ne!(job.daemon(rank), before);
    assert_eq!(count(&job, rank, "keeper_pid"), u64::from(job.keeper(rank)), "the keeper is the first one");
    job.down();
}

#[test]
fn the_only_daemon_dies_and_the_kernel_sends_again() {
    require!(Fuse, Root);
    nobody_notices(1, "true");
}

#[test]
fn the_only_daemon_dies_and_requests_were_kept() {
    require!(Fuse, Root);
    nobody_notices(1, "false");
}

#[test]
fn a_leaf_dies_and_the_kernel_sends_again() {
    require!(Fuse, Root);
    nobody_notices(3, "true");
}

#[test]
fn a_leaf_dies_and_requests_were_kept() {
    require!(Fuse, Root);
    nobody_notices(3, "false");
}

/// The node that reads the backing file system, and one between it and the leaf that is read at.
#[test]
fn a_parent_dies() {
    require!(Fuse, Root);
    let (job, files) = job(7, 1200, &["--fanout", "2"]);
    for parent in [0, 2] {
        let restarts = count(&job, parent, "restarts");
        let leaf = 5 + parent / 2;
        let longest = files.read_all(&job, leaf, 6, |_| {
            job.kill_daemon(parent);
        });
        assert!(longest <= STALL_MAX, "a reader at {leaf} waited {longest:?} for {parent}");
        assert_eq!(count(&job, parent, "restarts"), restarts + 6);
    }
    job.down();
}

/// Mounted by fusermount3, in the name of a user who may not mount: the keeper's mount as well as the next daemon's.
#[test]
fn an_ordinary_users_daemon_dies() {
    require!(Root, FuseForUsers, Command("setpriv"), Command("fusermount3"));
    let sandbox = Sandbox::of_nobody();
    let source = sandbox.source();
    let _files = Files::build(&source, 2400);
    let mut up = sandbox.command();
    up.args(["up", "--job", &sandbox.name, "--log", "debug", "--export"]).arg(&source);
    up.arg("--view").arg(sandbox.view());
    let _ = run(&mut up).good();
    let job = Job::of(sandbox);
    // Root may not enter the view of another, so the user's own program reads.
    let mut reader = as_nobody(Path::new("diff"));
    reader.arg("-r").arg(&source).arg(job.path(0, &source));
    let mut reader = reader.spawn().unwrap();
    for _ in 0..10 {
        job.kill_daemon(0);
    }
    let mut status = None;
    wait_until("all is read", READ_MAX, || {
        status = reader.try_wait().unwrap();
        status.is_some()
    });
    let log = job.sandbox.runtime().join("forebay").join(&job.sandbox.name).join("logs/node-0.log");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(status.is_some_and(|status| status.success()), "{status:?}: {log}");
    job.kill_keeper(0);
    wait_until("nothing is left", STALL_MAX, || job.sandbox.left().is_empty());
    job.forget();
}

/// `SIGCHLD` stays ignored in programs that one which ignores it starts.
#[test]
fn a_daemon_dies_whose_starter_ignores_its_children() {
    require!(Root, FuseForUsers, Command("setpriv"), Command("fusermount3"));
    let sandbox = Sandbox::of_nobody();
    let mut up = as_nobody(Path::new("env"));
    sandbox.surround(&mut up);
    up.arg("--ignore-signal=CHLD").arg(sandbox.base().join("forebay"));
    up.args(["up", "--job", &sandbox.name, "--export"]).arg(sandbox.source()).arg("--view").arg(sandbox.view());
    let _ = run(&mut up).good();
    let job = Job::of(sandbox);
    let before = job.kill_daemon(0);
    wait_until("there is another daemon", STALL_MAX, || job.daemon(0).is_some_and(|daemon| daemon != before));
    job.down();
}
