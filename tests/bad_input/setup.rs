//! `tests/setup.sh`, which `make test` calls first, on machines that lack what tests need.

use std::process::Command as Program;

use forebay_tests::program::{file_of_tests, run};
use forebay_tests::{Finished, Sandbox, require};

/// Runs it in a mount namespace of its own after `prepare` has changed it, as `user`.
fn setup_after(sandbox: &Sandbox, prepare: &str, user: &str) -> Finished {
    let setup = file_of_tests("setup.sh");
    // The copy can be read by every user, wherever the repository lies.
    let copy = format!("cp '{}' /dev/shm/setup.sh; chmod 755 /dev/shm/setup.sh", setup.display());
    let become_user = format!("setpriv --reuid {user} --regid {user} --clear-groups");
    let call = format!("{become_user} env -u CI /dev/shm/setup.sh 2>&1; stat -c %a /dev/fuse");
    let script = format!("set -e\nmount -t tmpfs none /dev/shm\n{copy}\n{prepare}\n{call}");
    let mut unshare = Program::new("unshare");
    sandbox.surround(&mut unshare);
    run(unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script]))
}

/// A /dev/fuse that is root's own, in the place of the real one.
const CLOSED: &str = "mknod -m 600 /dev/shm/fuse c 10 229; mount --bind /dev/shm/fuse /dev/fuse";

#[test]
fn root_opens_dev_fuse_and_says_so() {
    require!(Root, Fuse, Command("unshare"), Command("setpriv"));
    let done = setup_after(&Sandbox::new(), CLOSED, "0");
    assert_eq!(done.status.code(), Some(0), "{}", done.text());
    assert!(done.text().contains("/dev/fuse has mode 0600 and gets 0666"), "{}", done.text());
    assert!(done.text().contains("\n666"), "{}", done.text());
}

#[test]
fn a_user_is_told_what_is_missing_and_nothing_is_changed() {
    require!(Root, Fuse, Command("unshare"), Command("setpriv"), Command("rsync"));
    let hidden = format!("{CLOSED}; mount --bind /dev/null \"$(readlink -f \"$(command -v rsync)\")\"");
    let done = setup_after(&Sandbox::new(), &hidden, "65534");
    assert_eq!(done.status.code(), Some(0), "a lack skips tests, no more: {}", done.text());
    for lack in
        ["missing, or what they provide: rsync (", "/dev/fuse has mode 0600: users other than root cannot mount"]
    {
        assert!(done.text().contains(lack), "{lack}: {}", done.text());
    }
    assert!(done.text().contains("\n600"), "{}", done.text());
}
