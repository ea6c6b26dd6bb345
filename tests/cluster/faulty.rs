//! Every fault once, shortly: no wrong byte, no error that is not the backing file system's, nobody hangs.
//!
//! How long exactly a fault is felt is measured by `make bench-faults`; here the machine may be busy with other tests.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::faults::kinds::{self, Fault, INNER, LEAF, ROOT, signal};
use crate::faults::outcome::Outcome;
use crate::faults::trial::{self, Scale};
use crate::testbed::Cluster;

const SHORT: Scale = Scale {
    files: 1500,
    before: Duration::from_millis(500),
    lasts_max: Duration::from_secs(4),
    files_each: 40,
    restarts: 5,
};

/// A node that gets no help from another one waits for 20 s, until it reads for itself. The length of a stall has a bar in
/// `make bench-faults`; the times that make it up are tested in virtual time (`crates/core/dispatch/tests/dispatch/lost.rs`).
const STALL_MAX: Duration = Duration::from_secs(10);

/// How long taking a job down may take, on such a machine.
const DOWN_MAX: Duration = Duration::from_secs(20);

fn check(outcome: &Outcome) {
    let shown = format!("{outcome:#?}");
    println!("{shown}");
    let Outcome { fault, ref others, .. } = *outcome;
    assert_eq!(outcome.wrong, [] as [String; 0], "{shown}");
    assert_eq!(outcome.late_errors, [] as [String; 0], "{shown}");
    assert!(outcome.files.iter().all(|files| *files > 0), "{shown}");
    let is_of_backing = |number: &i32| kinds::OF_BACKING.contains(number);
    assert!(others.errors.is_empty() || fault.hits_backing() && others.errors.keys().all(is_of_backing), "{shown}");
    assert!(fault.hits_backing() || others.stall < STALL_MAX, "{shown}");
    if let Some(victim) = &outcome.victim {
        let may_fail = fault.cuts_backing_of_victim() && victim.errors.keys().all(is_of_backing);
        assert!(victim.errors.is_empty() || may_fail, "{shown}");
        assert!(victim.stall < outcome.lasted + STALL_MAX, "{shown}");
    }
}

fn go_through(faults: &[Fault]) {
    let mut testbed = trial::testbed(SHORT);
    for fault in faults {
        let outcome;
        (testbed, outcome) = trial::run(testbed, *fault, SHORT);
        check(&outcome);
    }
    testbed.hand_on();
}

#[test]
fn a_killed_daemon_is_bypassed() {
    require_testbed!();
    let again = kinds::HAS_KEEPER.then_some(Fault::Restarted(INNER));
    let faults: Vec<Fault> = [LEAF, INNER, ROOT].map(Fault::Killed).into_iter().chain(again).collect();
    go_through(&faults);
}

#[test]
fn a_stopped_daemon_is_bypassed_and_used_again() {
    require_testbed!();
    go_through(&[Fault::Stopped(INNER), Fault::Stopped(ROOT)]);
}

#[test]
fn a_network_that_is_cut_is_survived_and_heals() {
    require_testbed!();
    go_through(&[Fault::Cut(INNER), Fault::Parted]);
}

#[test]
fn a_server_in_trouble_fails_or_delays_reads_and_nothing_else() {
    require_testbed!();
    go_through(&[Fault::ServerHung, Fault::ServerKilled]);
}

/// The second host of the list.
const SECOND: usize = 1;

/// The front end, which is no node of the job, asks by the remote shell; the first host's daemon is stopped, the second
/// one's dead, and its keeper cannot start another.
#[test]
fn a_job_whose_first_daemons_are_lost_tells_its_state_and_goes_down() {
    require_testbed!();
    let cluster = Cluster::up(trial::testbed(SHORT), &[]);
    let status = cluster.forebay("status", &["--json".as_ref()]).good();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let keeper = status["nodes"][SECOND]["keeper_pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).unwrap();
    signal(keeper, Signal::STOP);
    signal(cluster.pid(SECOND), Signal::KILL);
    signal(cluster.pid(ROOT), Signal::STOP);
    let asked = cluster.forebay("status", &["--json".as_ref()]);
    assert_eq!(asked.status.code(), Some(3), "{}", asked.stderr);
    let status: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let lost: Vec<bool> = status["nodes"].as_array().unwrap().iter().map(|node| node["state"] != "ready").collect();
    assert_eq!(lost, [true, true, false, false, false, false, false], "{status:#}");
    let began = Instant::now();
    let testbed = cluster.down();
    assert!(began.elapsed() < DOWN_MAX, "{:?}", began.elapsed());
    testbed.hand_on();
}
