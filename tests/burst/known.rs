//! Answers that nodes give without asking the leader, and that they never show an old state.

use std::time::{Duration, Instant};

use forebay_tests::program::wait_until;
use forebay_tests::require;

use crate::bed::Bed;

/// Of leases, and some more.
const LEASES_END: Duration = Duration::from_secs(12);

#[test]
fn a_change_waits_for_a_node_that_was_told_and_not_for_ever() {
    require!(Fuse, Root);
    let bed = Bed::of(3);
    let _ = bed.shell_on(1, "mkdir d; touch d/a").good();
    let _ = bed.shell_on(2, "test -e d/a; test ! -e d/b").good();
    let took = bed.while_it_stands_still(2, || {
        let began = Instant::now();
        let _ = bed.shell_on(1, "chmod 600 d/a; mv d/a d/b").good();
        began.elapsed()
    });
    assert!(took < LEASES_END, "{took:?}");
    assert_eq!(bed.shell_on(2, "stat -c '%n %a' d/*").good().text(), "d/b 600\n");
    wait_until("it is told again", LEASES_END, || bed.shell_on(2, "test -e d/b").status.success());
    bed.job.down();
}
