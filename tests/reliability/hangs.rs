//! A daemon that does not die but hangs: its keeper hears nothing of it, kills it and starts another, within the time that a
//! request may take.

use std::fs;
use std::time::Duration;

use forebay_tests::job::send;
use forebay_tests::program::wait_until;
use forebay_tests::require;
use rustix::process::Signal;

use crate::readers::{count, job};

/// Twice the time limit of a request on this job: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(34);

#[test]
fn a_daemon_that_hangs_is_followed_by_another_and_programs_are_answered() {
    require!(Fuse, Root);
    let (job, _files) = job(1, 10, &["--deadline", "17s"]);
    let source = job.sandbox.source().join("0/file-3");
    let hanging = job.daemon(0).unwrap();
    send(hanging, Signal::STOP);
    // Nobody has read it yet, so the kernel cannot answer for the daemon.
    assert_eq!(fs::read(job.path(0, &source)).unwrap(), fs::read(&source).unwrap());
    wait_until("the keeper tells of another daemon", PATIENCE, || job.daemon(0).is_some_and(|pid| pid != hanging));
    assert_eq!(count(&job, 0, "restarts"), 1);
    job.down();
}
