//! Daemons that are killed under readers: no error, no wrong byte.

use std::time::Duration;

use forebay_tests::require;

use crate::readers::{count, job};

/// The longest that a program may wait for a killed daemon's successor.
const STALL_MAX: Duration = Duration::from_secs(3);

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

/// A figure for docs/reliability.md, printed with `--nocapture`.
#[test]
fn pauses() {
    require!(Fuse, Root);
    let (job, files) = job(1, 5000, &[]);
    let stalls = std::sync::Mutex::new(Vec::new());
    let longest = files.read_all(&job, 0, 50, |_| {
        let victim = job.kill_daemon(0);
        let began = std::time::Instant::now();
        // Sizes of file systems are never cached: this is answered by the next daemon.
        rustix::fs::statvfs(job.view(0)).unwrap();
        stalls.lock().unwrap().push(began.elapsed());
        assert_ne!(job.daemon(0), Some(victim));
    });
    let mut stalls = stalls.into_inner().unwrap();
    stalls.sort_unstable();
    println!("50 deaths: median {:?}, longest {:?}; the longest read took {longest:?}", stalls[25], stalls[49]);
    assert!(longest <= STALL_MAX, "a reader waited {longest:?}");
    job.down();
}
