//! Messages that a node could not send to the leader are sent later.

use std::fs;
use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::require;
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::Bed;
use crate::promise::Shell;

const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than a node asks the leader for.
const GIVEN_UP: Duration = Duration::from_secs(240);

/// The leader is away for longer than a node asks for it, while programs close files. It has these closes when it is back: the files land.
#[test]
fn a_close_that_the_leader_did_not_hear_of_is_told_again() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let names = ["one", "two"];
    let mut shells = names.map(|_| Shell::new(&bed.mount_of(1)));
    for (shell, name) in shells.iter_mut().zip(names) {
        shell.says(&format!("exec 9> {name}; printf {name} >&9; sync {name}"));
    }
    // Its keeper stands still, and starts no other daemon.
    let pid = |pid: u32| Pid::from_raw(pid as i32).unwrap();
    let keeper = pid(bed.job.keeper(0));
    kill_process(keeper, Signal::STOP).unwrap();
    kill_process(pid(bed.job.daemon(0).unwrap()), Signal::KILL).unwrap();
    for shell in &mut shells {
        shell.says("exec 9>&-");
    }
    let log = bed.job.sandbox.runtime().join("forebay").join(&bed.job.sandbox.name).join("logs/node-1.log");
    let given_up = || {
        let told = fs::read_to_string(&log).unwrap();
        // Of each file: a line that says the same of both would be there once.
        told.lines().filter(|line| line.contains("the leader is told later that this file is closed")).count()
    };
    wait_until("both closes are given up", GIVEN_UP, || given_up() >= 2);
    kill_process(keeper, Signal::CONT).unwrap();
    for name in names {
        wait_until("a file that was closed lands", PATIENCE, || bed.landed(name)["state"] == "landed");
    }
    shells.into_iter().for_each(Shell::end);
    bed.job.down();
}
