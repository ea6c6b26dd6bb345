//! However a node ends, nothing of it stays: its keeper dies, both die, it is taken down while it restarts, its view is
//! unmounted by hand, or its daemons cannot live.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_tests::job::{binary, kill, send};
use forebay_tests::program::{copy_program, run, wait_until};
use forebay_tests::{Job, Sandbox, require, tree};
use rustix::process::Signal;

use crate::readers::{count, job};

/// How long a node may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a keeper may go on starting daemons that are killed: 60 at once and 20 after half a second each.
const ALWAYS_DYING: Duration = Duration::from_secs(60);

#[test]
fn a_daemon_whose_keeper_died_unmounts_and_ends() {
    require!(Fuse, Root);
    let (job, _files) = job(1, 10, &[]);
    let file = fs::File::open(job.path(0, &job.sandbox.source().join("0/file-3"))).unwrap();
    job.kill_keeper(0);
    wait_until("nothing is left", PATIENCE, || job.sandbox.left().is_empty());
    drop(file);
    job.forget();
}

#[test]
fn one_of_several_ends_without_its_keeper_and_down_ends_the_others() {
    require!(Fuse, Root);
    let (job, _files) = job(3, 10, &["--fanout", "2"]);
    job.kill_keeper(2);
    wait_until("its view is gone", PATIENCE, || job.sandbox.mounts().len() == 2);
    job.down();
}

#[test]
fn down_while_a_daemon_starts_again() {
    require!(Fuse, Root);
    for nodes in [1, 3] {
        for _ in 0..3 {
            let (job, _files) = job(nodes, 10, &["--fanout", "2"]);
            let victim = job.daemon(job.nodes() - 1).unwrap();
            send(victim, Signal::KILL);
            job.down();
        }
    }
}

#[test]
fn down_ends_a_daemon_that_hangs_and_touches_nobody_else() {
    require!(Fuse, Root);
    let (job, _files) = job(3, 10, &["--fanout", "2"]);
    // A record of a node whose process number belongs to somebody else by now.
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let directory = job.sandbox.runtime().join("forebay").join(&job.sandbox.name);
    let text = fs::read_to_string(directory.join("node-2.json")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    for process in ["process", "daemon"] {
        record[process]["pid"] = stranger.id().into();
    }
    record["rank"] = 7.into();
    fs::write(directory.join("node-7.json"), record.to_string()).unwrap();
    send(job.daemon(2).unwrap(), Signal::STOP);
    let down = job.command("down", &[]);
    assert!(down.status.success(), "{}", down.stderr);
    assert!(stranger.try_wait().unwrap().is_none(), "another's process was ended");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let left = job.sandbox.left();
    assert!(left.is_empty(), "{left:#?}");
    job.forget();
}

#[test]
fn a_view_that_was_unmounted_by_hand_is_not_mounted_again() {
    require!(Fuse, Root);
    let (job, files) = job(2, 200, &[]);
    rustix::mount::unmount(job.view(0), rustix::mount::UnmountFlags::DETACH).unwrap();
    job.kill_daemon(0);
    wait_until("the node has a daemon again", PATIENCE, || count(&job, 0, "restarts") == 1);
    assert_eq!(job.sandbox.mounts().len(), 1);
    files.read_all(&job, 1, 0, |_| {});
    job.down();
}

/// A job of the program at `program`, which is then exchanged.
pub fn job_of(program: &Path, sandbox: Sandbox, nodes: &str) -> Job {
    copy_program(&binary(), program);
    let mut up = Command::new(program);
    sandbox.surround(&mut up);
    let (source, view) = (sandbox.source(), sandbox.view());
    let name = sandbox.name.clone();
    up.args(["up", "--local", nodes, "--job", &name, "--export"]).arg(&source).arg("--view").arg(&view);
    let _ = run(&mut up).good();
    Job::of(sandbox)
}

/// Puts something else in the place of a program, as an upgrade does.
pub fn exchange(program: &Path, by: &str) {
    let new = program.with_extension("new");
    fs::write(&new, by).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, program).unwrap();
}

#[test]
fn a_keeper_gives_up_when_daemons_die_all_the_time() {
    require!(Fuse, Root);
    let (job, _files) = job(1, 10, &[]);
    let log = job.sandbox.runtime().join("forebay").join(&job.sandbox.name).join("logs/node-0.log");
    let kept_log = job.sandbox.base().join("kept.log");
    fs::hard_link(&log, &kept_log).unwrap();
    wait_until("the keeper gives up, and nothing is left", ALWAYS_DYING, || {
        job.daemon(0).into_iter().for_each(kill);
        job.sandbox.left().is_empty()
    });
    let said = fs::read_to_string(&kept_log).unwrap();
    assert!(said.contains("daemons died within 60s") && said.contains("signal: 9 (SIGKILL)"), "{said}");
    job.forget();
}

/// A daemon that died is followed by one of the same program, whatever is in its place on the disk.
#[test]
fn a_program_that_was_exchanged_does_not_matter_to_a_death() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let program = sandbox.base().join("forebay");
    tree::write(&sandbox.source().join("file"), b"contents");
    let job = job_of(&program, sandbox, "1");
    exchange(&program, "#!/bin/sh\nexit 3\n");
    job.kill_daemon(0);
    assert_eq!(fs::read(job.path(0, &job.sandbox.source().join("file"))).unwrap(), b"contents");
    assert_eq!(count(&job, 0, "restarts"), 1);
    job.down();
}
