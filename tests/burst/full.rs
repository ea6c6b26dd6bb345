//! A backing file system without room: it is said, nothing is lost, and it lands when there is room.

use std::fs;

use forebay_tests::program::run;
use forebay_tests::{Sandbox, require};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

use crate::bed::Bed;

#[test]
fn what_does_not_fit_is_named_kept_and_lands_with_the_next_job() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    mount("tmpfs", &backing, "tmpfs", MountFlags::empty(), Some(c"size=4m")).unwrap();
    let bed = Bed::up(sandbox, 1);
    let _ = bed.shell("dd if=/dev/urandom of=large bs=1M count=8 2>/dev/null; sha256sum large > sum").good();
    let drained = bed.command(&["drain", "--wait", "--timeout", "2s"]);
    assert_eq!(drained.status.code(), Some(3), "{}", drained.stderr);
    assert!(drained.text().contains("publishing /large: No space left on device"), "{}", drained.text());
    assert_eq!(bed.landed("large")["state"], "committed");
    assert_eq!(bed.landed("large")["missing"][0][0], 0);
    assert_eq!(fs::read_dir(&backing).unwrap().count(), 0, "nothing of it is seen there");
    // The job ends, and says what it leaves.
    let down = bed.command(&["down", "--no-drain"]);
    assert_eq!(down.status.code(), Some(0), "{}", down.stderr);
    let store = bed.job.sandbox.base().join("store/0");
    assert!(fs::read_dir(&store).unwrap().count() > 0, "the store keeps it");
    mount_remount(&backing, MountFlags::empty(), c"size=64m").unwrap();
    let Bed { job } = bed;
    let again =
        job.sandbox.up(&crate::bed::arguments(&job.sandbox, 1).iter().map(std::ffi::OsStr::new).collect::<Vec<_>>());
    assert!(again.status.success(), "{}", again.stderr);
    let bed = Bed { job };
    bed.drain();
    let check = run(std::process::Command::new("sha256sum").args(["-c", "sum"]).current_dir(&backing));
    assert!(check.status.success(), "{}", check.stderr);
    unmount(&backing, UnmountFlags::DETACH).unwrap();
    bed.job.down();
}
