//! `up --replace`: new daemons under running programs.

use std::fs;

use forebay_tests::job::{binary, send};
use forebay_tests::program::copy_program;
use forebay_tests::{Sandbox, require, tree};
use rustix::process::Signal;

use crate::ends::{exchange, job_of};
use crate::readers::{count, job};

#[test]
fn readers_do_not_notice() {
    require!(Fuse, Root);
    for resend in ["true", "false"] {
        let (job, files) = job(1, 2400, &["--resend", resend]);
        files.read_all(&job, 0, 6, |_| {
            let before = job.daemon(0);
            let said = job.command("up", &["--replace".as_ref()]).good().text();
            assert!(said.contains("1 node has a new daemon") && said.contains("pause"), "{said}");
            assert_ne!(job.daemon(0), before);
        });
        assert_eq!((count(&job, 0, "replaced"), count(&job, 0, "restarts")), (6, 0));
        job.down();
    }
}

#[test]
fn every_node_of_a_job_is_replaced() {
    require!(Fuse, Root);
    let (job, files) = job(4, 300, &["--fanout", "2"]);
    let said = job.command("up", &["--replace".as_ref(), "--json".as_ref()]).good();
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(
        (said["replaced"].as_array().unwrap().len(), said["failed"].as_array().unwrap().len()),
        (4, 0),
        "{said}"
    );
    assert!(said["replaced"][3]["paused_us"].as_u64().unwrap() > 0, "{said}");
    assert!((0..4).all(|rank| count(&job, rank, "replaced") == 1));
    files.read_all(&job, 3, 0, |_| {});
    job.down();
}

#[test]
fn readers_do_not_notice_that_all_nodes_are_replaced() {
    require!(Fuse, Root);
    let (job, files) = job(7, 1200, &["--fanout", "2"]);
    files.read_all(&job, 6, 4, |_| drop(job.command("up", &["--replace".as_ref()]).good()));
    assert!((0..7).all(|rank| (count(&job, rank, "replaced"), count(&job, rank, "restarts")) == (4, 0)));
    job.down();
}

#[test]
fn a_program_that_cannot_go_on_leaves_the_old_daemon_in_place() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let program = sandbox.base().join("forebay");
    tree::write(&sandbox.source().join("file"), b"contents");
    let job = job_of(&program, sandbox, "2");
    let before = job.daemon(1);
    exchange(&program, "#!/bin/sh\nexit 3\n");
    let refused = job.command("up", &["--replace".as_ref()]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("those that run go on")
            && refused.stderr.contains("the new daemon ended (exit status: 2)"),
        "{}",
        refused.stderr
    );
    assert_eq!(job.daemon(1), before);
    assert_eq!(fs::read(job.path(1, &job.sandbox.source().join("file"))).unwrap(), b"contents");
    // The next program is good.
    fs::remove_file(&program).unwrap();
    copy_program(&binary(), &program);
    let _ = job.command("up", &["--replace".as_ref()]).good();
    assert_ne!(job.daemon(1), before);
    job.down();
}

#[test]
fn there_must_be_a_job() {
    let sandbox = Sandbox::new();
    let refused = sandbox.up(&["--replace".as_ref()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        refused.stderr.contains(&sandbox.name) && refused.stderr.contains("is up on this host"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_daemon_that_hangs_is_replaced_too() {
    require!(Fuse, Root);
    let (job, files) = job(1, 50, &[]);
    let before = job.daemon(0).unwrap();
    send(before, Signal::STOP);
    let _ = job.command("up", &["--replace".as_ref()]).good();
    assert_ne!(job.daemon(0), Some(before));
    assert_eq!((count(&job, 0, "replaced"), count(&job, 0, "restarts")), (1, 0), "as its daemon was told");
    files.read_all(&job, 0, 0, |_| {});
    job.down();
}
