//! Machines that do not offer what a view needs.

use std::fs;
use std::process::Command as Program;

use forebay_tests::job::binary;
use forebay_tests::program::run;
use forebay_tests::{Finished, Sandbox, require};

use crate::{FAILED, fails, says};

/// Runs `up` in a mount namespace of its own after `prepare` has changed it.
fn up_after(sandbox: &Sandbox, prepare: &str) -> Finished {
    let script = format!("set -e\n{prepare}\nexec \"$@\"");
    let mut unshare = Program::new("unshare");
    sandbox.surround(&mut unshare);
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]).arg(binary());
    unshare.args(["up", "--job", &sandbox.name, "--local", "2", "--export"]).arg(sandbox.source());
    run(unshare.arg("--view").arg(sandbox.view()))
}

#[test]
fn no_dev_fuse() {
    require!(Root, Command("unshare"));
    let sandbox = Sandbox::new();
    let hidden = "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9";
    let done = up_after(&sandbox, hidden);
    fails(&sandbox, &done, FAILED, &["no /dev/fuse"]);
}

#[test]
fn dev_fuse_that_is_no_fuse() {
    require!(Root, Fuse, Command("unshare"));
    let sandbox = Sandbox::new();
    let done = up_after(&sandbox, "mount --bind /dev/null /dev/fuse");
    fails(&sandbox, &done, FAILED, &["cannot mount"]);
}

/// `up` of `nobody` in a mount namespace where /dev/fuse is root's own and `prepare` has been done.
fn up_as_nobody_after(sandbox: &Sandbox, prepare: &str) -> Finished {
    let device = sandbox.runtime().join("fuse").display().to_string();
    let closed = format!("mknod -m 600 '{device}' c 10 229; mount --bind '{device}' /dev/fuse; rm '{device}' || true");
    let script = format!("set -e\n{closed}\n{prepare}\nexec \"$@\"");
    let mut up = sandbox.command();
    up.args(["up", "--job", &sandbox.name, "--local", "2", "--export"]).arg(sandbox.source());
    up.arg("--view").arg(sandbox.view());
    let mut unshare = Program::new("unshare");
    sandbox.surround(&mut unshare);
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    run(unshare.arg(up.get_program()).args(up.get_args()))
}

#[test]
fn no_permission_to_open_dev_fuse() {
    require!(Root, Fuse, Command("unshare"), Command("setpriv"));
    let sandbox = Sandbox::of_nobody();
    let done = up_as_nobody_after(&sandbox, "");
    fails(&sandbox, &done, FAILED, &["/dev/fuse", "ermission denied"]);
}

#[test]
fn nothing_that_may_mount() {
    require!(Root, FuseForUsers, Command("unshare"), Command("setpriv"), Command("fusermount3"));
    let sandbox = Sandbox::of_nobody();
    let hidden = "umount /dev/fuse; for each in fusermount3 fusermount; do\n\
                  if path=$(command -v $each); then mount --bind /dev/null \"$(readlink -f \"$path\")\"; fi; done";
    let done = up_as_nobody_after(&sandbox, hidden);
    fails(&sandbox, &done, FAILED, &["fusermount3 could not be started"]);
    // Not to be found at all.
    let up = up_as_nobody_after(
        &sandbox,
        "umount /dev/fuse; setpriv=$(command -v setpriv); shift; set -- \"$setpriv\" \"$@\"; PATH=/proc",
    );
    fails(&sandbox, &up, FAILED, &["neither fusermount3 nor fusermount is installed", "unshare -Urm)"]);
}

/// Runs `script` in a mount namespace of its own; its arguments are the command of `nobody`.
fn script_of_nobody(sandbox: &Sandbox, script: &str) -> Finished {
    let command = sandbox.command();
    let mut unshare = Program::new("unshare");
    sandbox.surround(&mut unshare);
    unshare.env("job", &sandbox.name).env("export", sandbox.source()).env("view", sandbox.view());
    unshare.args(["--mount", "--propagation", "private", "sh", "-euc", script, "sh"]);
    run(unshare.arg(command.get_program()).args(command.get_args()))
}

/// FUSE 2 calls the program `fusermount`; here is no other.
#[test]
fn a_user_mounts_by_fusermount_where_there_is_no_other() {
    require!(Root, FuseForUsers, Command("unshare"), Command("setpriv"), Command("fusermount3"));
    let sandbox = Sandbox::of_nobody();
    fs::write(sandbox.source().join("file"), "contents\n").unwrap();
    let script = r#"
        mount -t tmpfs -o mode=755 none /mnt
        cp -p "$(command -v fusermount3)" /mnt/fusermount
        for each in cat setpriv; do ln -s "$(command -v $each)" /mnt/; done
        export PATH=/mnt
        "$@" up --job "$job" --export "$export" --view "$view" --log debug >&2
        setpriv --reuid=65534 --regid=65534 --clear-groups cat "$view$export/file"
        "$@" down --job "$job" >&2
    "#;
    assert_eq!(script_of_nobody(&sandbox, script).good().text(), "contents\n");
    assert!(sandbox.left().is_empty(), "{:?}", sandbox.left());
}

/// The table tells fusermount who owns a mount. Its message is part of the error, and `down` does the rest when it can.
#[test]
fn no_table_of_mounts_for_fusermount() {
    require!(Root, FuseForUsers, Command("unshare"), Command("setpriv"), Command("fusermount3"));
    let sandbox = Sandbox::of_nobody();
    let script = r#"
        mount -t tmpfs -o mode=755 none /mnt
        cp -a /etc /mnt/etc
        rm /mnt/etc/mtab
        "$@" up --job "$job" --export "$export" --view "$view" >/dev/null
        mount --bind /mnt/etc /etc
        for each in 1 2; do "$@" down --job "$job" >&2 && exit 9 || echo "down: $?"; done
        umount /etc
        "$@" down --job "$job" >/dev/null
        echo "then: $?"
    "#;
    let done = script_of_nobody(&sandbox, script);
    assert_eq!(done.text(), "down: 1\ndown: 1\nthen: 0\n", "{}", done.stderr);
    let view = sandbox.view().display().to_string();
    says(
        &done.stderr,
        &[&format!("cannot unmount {view}: fusermount3 refused"), "/etc/mtab", "ln -s /proc/self/mounts"],
    );
    assert!(sandbox.left().is_empty(), "{:?}", sandbox.left());
}

#[test]
fn no_room_for_the_jobs_files() {
    require!(Root, Fuse, Command("unshare"));
    let sandbox = Sandbox::new();
    let runtime = sandbox.runtime().display().to_string();
    let full = format!("mount -t tmpfs -o nr_inodes=2,size=4k,mode=700 none '{runtime}'; mkdir '{runtime}/x'");
    let done = up_after(&sandbox, &full);
    fails(&sandbox, &done, FAILED, &[&runtime, "o space left"]);
}

#[test]
fn too_few_open_files() {
    require!(Root, Fuse, Command("unshare"));
    let sandbox = Sandbox::new();
    for allowed in [24, 64] {
        let done = up_after(&sandbox, &format!("ulimit -n {allowed}"));
        fails(&sandbox, &done, FAILED, &["ulimit -Hn"]);
    }
}

#[test]
fn doctor_names_what_is_missing() {
    require!(Root, Command("unshare"));
    let sandbox = Sandbox::new();
    let mut unshare = Program::new("unshare");
    sandbox.surround(&mut unshare);
    let script = "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; exec \"$@\"";
    let done = run(unshare.args(["--mount", "sh", "-c", script, "sh"]).arg(binary()).arg("doctor"));
    assert_eq!(done.status.code(), Some(FAILED), "no view is possible: {}", done.text());
    assert!(done.text().contains("/dev/fuse"), "{}", done.text());
}

/// The doctor tries to create the file that holds a daemon's requests, as a daemon would: here no file may be that large.
#[test]
fn doctor_tries_to_keep_requests() {
    require!(Fuse);
    let sandbox = Sandbox::new();
    let mut shell = Program::new("sh");
    sandbox.surround(&mut shell);
    let done = run(shell.args(["-c", "ulimit -f 64; exec \"$@\"", "sh"]).arg(binary()).arg("doctor"));
    assert_ne!(done.status.code(), Some(0), "{}", done.text());
    assert!(done.text().contains("cannot keep them in memory: the trial ended with signal"), "{}", done.text());
    let done = run(Program::new(binary()).arg("doctor"));
    assert!(done.text().contains("ok       requests in flight: "), "{}", done.text());
}
