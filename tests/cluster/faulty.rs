//! Every fault once, shortly: no wrong byte, no error that is not the backing file system's, nobody hangs.
//!
//! How long exactly a fault is felt is measured by `make bench-faults`; here the machine may be busy with other tests.

use std::time::Duration;

use crate::faults::kinds::{Fault, INNER, LEAF, ROOT};
use crate::faults::outcome::Outcome;
use crate::faults::trial::{self, Scale};

const SHORT: Scale = Scale {
    files: 1500,
    before: Duration::from_millis(500),
    lasts_max: Duration::from_secs(4),
    files_each: 40,
    restarts: 5,
};

/// Longer than any stall that a fault may cause, on a machine that is busy otherwise.
const STALL_MAX: Duration = Duration::from_secs(10);

/// What GlusterFS says when its server is gone: ENOTCONN, and EIO for what it cannot tell.
const OF_BACKING: [i32; 2] = [107, 5];

fn check(outcome: &Outcome) {
    let shown = format!("{outcome:#?}");
    println!("{shown}");
    let Outcome { fault, ref others, .. } = *outcome;
    assert_eq!(outcome.wrong, [] as [String; 0], "{shown}");
    assert_eq!(outcome.late_errors, [] as [String; 0], "{shown}");
    assert!(outcome.files.iter().all(|files| *files > 0), "{shown}");
    let is_of_backing = |number: &i32| OF_BACKING.contains(number);
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
}

#[test]
fn a_killed_daemon_is_bypassed() {
    require_testbed!();
    go_through(&[Fault::Killed(LEAF), Fault::Killed(INNER), Fault::Killed(ROOT)]);
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
