//! Programs that wait for a lock, and are interrupted.

use std::process::Command;

use forebay_tests::program::{file_of_tests, run};
use forebay_tests::require;

use crate::bed::Bed;

/// The leader gives the lock at about the moment of the signal: on the leader's node, and over the network.
#[test]
fn a_lock_that_is_given_to_an_interrupted_program_is_free_after_it() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    for node in [0, 1] {
        let mut program = Command::new("python3");
        program.arg(file_of_tests("burst/interrupted_locks.py")).arg(bed.mount_of(node).join("locked"));
        let said = run(&mut program).good().text();
        assert!(said.contains("given"), "{said}");
    }
    bed.job.down();
}
