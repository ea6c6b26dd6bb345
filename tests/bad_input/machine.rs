//! Machines that do not offer what a view needs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
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
    let sandbox = Sandbox::new();
    let up = |prepare: &str| {
        let script = format!(
            "set -e; echo 0 >/proc/sys/user/max_user_namespaces; setpriv=$(command -v setpriv)\n{prepare}\n\
             exec $setpriv --bounding-set=-all --inh-caps=-all \"$@\""
        );
        let mut unshare = Program::new("unshare");
        sandbox.surround(&mut unshare);
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]).arg(binary());
        unshare.args(["up", "--job", &sandbox.name, "--local", "2", "--export"]).arg(sandbox.source());
        run(unshare.arg("--view").arg(sandbox.view()))
    };
    let switch = "nor can it be mounted in a user namespace: user namespaces are switched off here (user.max_user_namespaces=0); \
                  ask for sysctl user.max_user_namespaces=15000";
    let hidden = "for each in fusermount3 fusermount; do\n\
                  if path=$(command -v $each); then mount --bind /dev/null \"$(readlink -f \"$path\")\"; fi; done";
    fails(&sandbox, &up(hidden), FAILED, &["fusermount3 could not be started", switch]);
    // Not to be found at all.
    let words = ["neither fusermount3 nor fusermount is installed; install the package fuse3", switch];
    fails(&sandbox, &up("PATH=/proc"), FAILED, &words);
}

/// The version is that of a kernel of 2011; the trials decide whether a view is possible, and the names of what may lack are told.
#[test]
fn doctor_names_an_old_kernel() {
    require!(Fuse, Command("setarch"));
    let sandbox = Sandbox::new();
    let mut old = Program::new("setarch");
    sandbox.surround(&mut old);
    let done = run(old.arg("--uname-2.6").arg(binary()).arg("doctor"));
    for part in [
        "limited  kernel: 2.6.",
        "is older than 4.18: no FUSE in user namespaces",
        "is older than 5.2: no detached mounts",
    ] {
        assert!(done.text().contains(part), "{part}: {}", done.text());
    }
}

/// A machine without any interface but the loopback, a directory for temporary files without programs, and a home that cannot be written to.
#[test]
fn neither_a_network_nor_programs_in_tmpdir_nor_a_home_are_needed() {
    require!(Root, Fuse, Command("unshare"), Command("ip"));
    let sandbox = Sandbox::new();
    fs::write(sandbox.source().join("file"), "contents\n").unwrap();
    let home = sandbox.base().join("home");
    fs::create_dir(&home).unwrap();
    let script = r#"
        ip link set lo up
        mount --bind "$2" "$2"; mount -o remount,bind,noexec "$2"
        mount -t tmpfs -o ro none "$HOME"
        unset XDG_STATE_HOME XDG_CACHE_HOME; export TMPDIR="$2"
        "$1" up --local 2 --job "$job" --export "$export" --view "$view"
        for rank in 0 1; do "$1" run --job "$job" --rank $rank -- cat "$export/file"; done
        "$1" doctor | grep 'limited  network:'
        "$1" down --job "$job"
    "#;
    let mut unshare = Program::new("unshare");
    sandbox.surround(&mut unshare);
    unshare.env("job", &sandbox.name).env("export", sandbox.source()).env("view", sandbox.view()).env("HOME", &home);
    unshare.args(["--net", "--mount", "--propagation", "private", "sh", "-euc", script, "sh"]).arg(binary());
    let done = run(unshare.arg(sandbox.base())).good();
    assert!(
        done.text().contains("\ncontents\ncontents\nlimited  network: the loopback interface only"),
        "{}",
        done.text()
    );
    assert_eq!(done.stderr, "", "no complaint");
    assert!(sandbox.left().is_empty(), "{:?}", sandbox.left());
}

/// By the number in its head; nothing is installed.
#[test]
fn a_binary_of_another_architecture_is_not_installed() {
    const E_MACHINE: usize = 18;
    let sandbox = Sandbox::new();
    let (foreign, prefix) = (sandbox.base().join("foreign"), sandbox.base().join("prefix"));
    let mut program = fs::read(binary()).unwrap();
    let (other, name) = if cfg!(target_arch = "x86_64") { (183_u16, "aarch64") } else { (62, "x86_64") };
    program[E_MACHINE..E_MACHINE + 2].copy_from_slice(&other.to_le_bytes());
    fs::write(&foreign, program).unwrap();
    fs::set_permissions(&foreign, fs::Permissions::from_mode(0o755)).unwrap();
    let script = forebay_tests::program::file_of_tests("../packaging/install.sh");
    let done = run(Program::new(script).arg(&prefix).arg(&foreign).arg("none"));
    let told = format!(
        "{} is of {name}, and this machine of {}: nothing is installed",
        foreign.display(),
        std::env::consts::ARCH
    );
    fails(&sandbox, &done, FAILED, &[&told]);
    assert!(!prefix.exists());
}

/// Of an installation of which parts were removed; the command goes on, and says which.
#[test]
fn doctor_names_what_an_installation_has_lost() {
    let sandbox = Sandbox::new();
    let root = sandbox.base().join("root");
    for directory in ["bin", "lib", "share/forebay"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    forebay_tests::program::copy_program(&binary(), &root.join("bin/forebay"));
    let list = "bin/forebay\nlib/libforebay_mpiio_mpich.so\nshare/man/man1/forebay.1\nshare/forebay/files.txt\nbin/\n";
    fs::write(root.join("share/forebay/files.txt"), list).unwrap();
    let doctor = || {
        let mut doctor = Program::new(root.join("bin/forebay"));
        sandbox.surround(&mut doctor);
        run(doctor.arg("doctor")).text()
    };
    let said = doctor();
    let line = format!("note     installation: {} lacks lib/libforebay_mpiio_mpich.so\n", root.display());
    assert!(said.contains(&line) && said.contains("install it again"), "{said}");
    fs::write(root.join("lib/libforebay_mpiio_mpich.so"), "").unwrap();
    assert!(!doctor().contains("installation:"), "the manual pages are not needed");
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
