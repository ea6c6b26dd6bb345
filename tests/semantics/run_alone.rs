//! Jobs of users for whom nothing mounts where their programs are: the views lie in user namespaces of the keepers, and
//! `forebay run` enters them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command as Program;
use std::time::Duration;

use forebay_tests::job::{NOBODY, send};
use forebay_tests::program::{run, wait_until};
use forebay_tests::{Job, Sandbox, require, tree};
use rustix::process::Signal;

use crate::own_paths::{Running, command, job, shell};

/// How long a node may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// The note of a node that has its view so.
const NOTE: &str = "the view is in a user namespace, where programs of `forebay run` alone see it: ";

/// The namespaces of a process that `run` starts.
fn namespaces(job: &Job, rank: &str) -> String {
    let mut command = job.sandbox.command();
    command.args(["run", "--job", &job.sandbox.name, "--rank", rank, "--", "readlink"]);
    run(command.args(["/proc/self/ns/user", "/proc/self/ns/mnt"])).good().text()
}

#[test]
fn without_fusermount_programs_of_run_alone_see_the_view() {
    require!(Fuse, Root, FuseForUsers, Command("setpriv"));
    let sandbox = Sandbox::of_nobody_without_fusermount();
    let source = sandbox.source();
    fs::create_dir(source.join("dir")).unwrap();
    tree::write(&source.join("dir/file"), b"contents\n");
    let mut up = sandbox.command();
    up.args(["up", "--job", &sandbox.name, "--local", "2", "--export"]).arg(&source).arg("--view").arg(sandbox.view());
    let up = run(&mut up).good();
    let note = format!(
        "forebay: note: node 0-1: {NOTE}neither fusermount3 nor fusermount is installed; install the package fuse3\n"
    );
    assert_eq!(up.stderr, note);
    let views = format!("views:   {0}/0 to {0}/1 (under forebay run alone)\n", sandbox.view().display());
    let tries = format!("try:     forebay run --job {} -- ls {}\n", sandbox.name, source.display());
    assert!(up.text().contains(&views) && up.text().contains(&tries), "{}", up.text());
    let job = Job::of(sandbox);
    assert_eq!(job.sandbox.mounts(), Vec::<String>::new(), "it is not seen from here");
    for node in job.status()["nodes"].as_array().unwrap() {
        assert_eq!(node["view_made_by"], "mount(2) in a user namespace");
    }
    let status = job.command("status", &[]).good().text();
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(status.contains("views of nodes 0, 1 can be seen under forebay run alone; install fuse3"), "{status}");

    let look = r#"pwd -P; cat file; stat -f -c %T .; id -u; id -g; stat -c %u file; kill -TERM $$"#;
    let done = run(command(&job, &["sh", "-c", look]).current_dir(source.join("dir")));
    let shown = format!("{}\ncontents\nfuseblk\n{NOBODY}\n{NOBODY}\n", source.join("dir").display());
    assert!(done.text().starts_with(&shown), "{} {}", done.text(), done.stderr);
    assert_eq!(done.signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(run(&mut command(&job, &["sh", "-c", "exit 7"])).status.code(), Some(7));
    // Programs of a node are in one namespace, which stays when the first has ended; each node has its own.
    let [first, other] = ["0", "1"].map(|rank| namespaces(&job, rank));
    assert_eq!([namespaces(&job, "0"), namespaces(&job, "1")], [first.clone(), other.clone()]);
    assert_ne!(first, other);
    // The program is on this machine, and a keeper finds it by PATH alone.
    let doctor = run(job.sandbox.command().arg("doctor")).text();
    let lost = doctor.lines().find(|line| line.contains("fusermount3: ")).unwrap_or_default();
    assert!(lost.contains("limited") && lost.ends_with(" is in no directory of PATH"), "{doctor}");
    // On the view too.
    let mut on_view = job.sandbox.command();
    on_view.args(["run", "--job", &job.sandbox.name, "--view", "--", "sh", "-c", r#"cat "$FOREBAY_PREFIX$0""#]);
    assert_eq!(run(on_view.arg(source.join("dir/file"))).good().text(), "contents\n");
    job.down();
}

/// As where a package was unpacked by a user. A user may be in the group of the device, and nobody else may open it.
#[test]
fn without_a_setuid_bit_a_member_of_the_devices_group_comes_up() {
    require!(Fuse, Root, Command("setpriv"), Command("unshare"), Command("fusermount3"));
    let sandbox = Sandbox::of_nobody_without_fusermount();
    let programs = sandbox.programs().unwrap();
    for name in ["fusermount3", "fusermount"] {
        fs::copy("/usr/bin/fusermount3", programs.join(name)).unwrap();
        fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    symlink(sandbox.base().join("forebay"), programs.join("forebay")).unwrap();
    tree::write(&sandbox.source().join("file"), b"contents\n");
    let script = r#"
        device=$PWD/device; mknod -m 660 $device c 10 229; chgrp 1234 $device; mount --bind $device /dev/fuse; rm $device || true
        as() { setpriv --reuid=65534 --regid=65534 "$@"; }
        if as --clear-groups forebay up --job "$job" --export "$export"; then exit 9; fi
        as --groups=1234 forebay up --job "$job" --export "$export" >/dev/null
        as --groups=1234 forebay run --job "$job" -- cat "$export/file"
        as --groups=1234 forebay doctor || echo "doctor: $?"
        as --groups=1234 forebay down --job "$job" >/dev/null
    "#;
    let mut unshare = Program::new("/usr/bin/unshare");
    sandbox.surround(&mut unshare);
    unshare.env("job", &sandbox.name).env("export", sandbox.source());
    let done = run(unshare.args(["--mount", "--propagation", "private", "sh", "-euc", script])).good();
    let text = done.text();
    assert!(text.starts_with("contents\n"), "{text}");
    let limited =
        format!("limited  view: {NOTE}fusermount3 refused (exit status: 1): mount failed: Operation not permitted");
    assert!(text.contains(&limited) && text.ends_with("doctor: 3\n"), "{text}");
    let closed = format!("user {NOBODY} may not open /dev/fuse (Permission denied");
    for part in [closed.as_str(), "neither fusermount3 nor a user namespace can mount", "chmod 666 /dev/fuse"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    let remedy = "mount failed: Operation not permitted; it must be set-user-ID root: reinstall the package fuse3";
    assert!(done.stderr.contains(&format!("node 0: {NOTE}fusermount3 refused (exit status: 1): {remedy}\n")));
    assert_eq!(sandbox.left(), Vec::<String>::new());
}

#[test]
fn a_burst_tier_is_seen_and_lands() {
    require!(Fuse, Root, FuseForUsers, Command("setpriv"));
    let sandbox = Sandbox::of_nobody_without_fusermount();
    let [dir, backing, store] = ["ckpt", "backing", "store"].map(|name| sandbox.base().join(name));
    for path in [&dir, &backing, &store] {
        fs::create_dir(path).unwrap();
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let burst = format!("{}={}", dir.display(), backing.display());
    let tier = ["--burst", &burst, "--burst-store", store.to_str().unwrap(), "--burst-capacity", "256MiB"];
    let job = job(sandbox, &tier);
    let script =
        r#"echo step > "$0/file"; stat -f -c %T "$0"; cat "$0/file" "$source/file"; cat "$FOREBAY_BURST$0/file""#;
    let mut writes = command(&job, &["sh", "-euc", script]);
    let shown = run(writes.arg(&dir).env("source", job.sandbox.source())).good().text();
    assert_eq!(shown, "fuseblk\nstep\ncontents\nstep\n");
    let _ = job.command("drain", &["--wait".as_ref()]).good();
    assert_eq!(fs::read_to_string(backing.join("file")).unwrap(), "step\n");
    assert_eq!(job.sandbox.mounts(), Vec::<String>::new());
    job.down();
}

/// Neither root nor its group has a number in a user namespace of this user, who is not the one whose number stands for all that
/// have none.
#[test]
fn burst_files_of_others_cannot_be_changed_and_up_says_so() {
    require!(Fuse, Root, FuseForUsers, Command("setpriv"));
    let sandbox = Sandbox::of_nobody_without_fusermount();
    let programs = sandbox.programs().unwrap();
    symlink(sandbox.base().join("forebay"), programs.join("forebay")).unwrap();
    let script = r#"
        cd "$base"; mkdir ckpt backing store; echo before > backing/of-root; chmod 666 backing/of-root
        chmod 700 store; chown 1234:1234 . ckpt backing store run source
        as() { setpriv --reuid=1234 --regid=1234 --clear-groups "$@"; }
        as forebay up --job "$job" --export "$base/source" --burst "$base/ckpt=$base/backing" --burst-store "$base/store" \
            --burst-capacity 256MiB >told
        grep ^burst: told
        as forebay run --job "$job" -- sh -c 'echo after > ckpt/of-root || cat ckpt/of-root; echo own > ckpt/own'
        as forebay down --job "$job" >/dev/null
        cat backing/of-root backing/own
    "#;
    let mut shell = Program::new("/usr/bin/sh");
    sandbox.surround(&mut shell);
    let shell = shell.args(["-euc", script]).env("job", &sandbox.name).env("base", sandbox.base());
    let done = run(shell).good();
    let shown = format!(
        "(forebay run shows it at {}/ckpt; files of other users and groups cannot be changed in it)\nbefore\nbefore\nown\n",
        sandbox.base().display()
    );
    assert!(done.text().ends_with(&shown), "{} {}", done.text(), done.stderr);
    assert!(done.stderr.contains("cannot create ckpt/of-root: Permission denied"), "{}", done.stderr);
    assert_eq!(sandbox.left(), Vec::<String>::new());
}

/// The namespaces live as long as the keeper. Programs inside get errors then, and no mount, file or process stays.
#[test]
fn nothing_stays_when_the_keeper_is_killed() {
    require!(Fuse, Root, FuseForUsers, Command("setpriv"));
    let job = job(Sandbox::of_nobody_without_fusermount(), &[]);
    let wait = r#"exec 3< "$source/large"; echo inside; read x; cat "$source/dir/inner" 2>&1 || true; head -c1 <&3 2>&1 || true"#;
    let mut inside = Running::start(command(&job, &["sh", "-uc", wait]).env("source", job.sandbox.source()));
    assert_eq!(inside.line(), "inside");
    // A daemon that dies is followed by another, in the same namespaces.
    job.kill_daemon(0);
    assert_eq!(shell(&job, r#"cat "$source/file""#).good().text(), "contents\n");
    job.kill_keeper(0);
    wait_until("nothing is left but who is inside", PATIENCE, || job.sandbox.left().is_empty());
    assert!(!job.view(0).exists(), "the directory of the view stays");
    let said = inside.go_on();
    let is_refused = |line: &str| line.contains("not connected") || line.contains("aborted");
    assert_eq!(said.lines().filter(|line| is_refused(line)).count(), 2, "{said}");
    job.forget();
}

/// Keeper and daemon at once: `down` removes what they could not.
#[test]
fn nothing_stays_when_the_whole_node_is_killed() {
    require!(Fuse, Root, FuseForUsers, Command("setpriv"));
    let job = job(Sandbox::of_nobody_without_fusermount(), &[]);
    job.kill_node(0);
    let _ = job.command("down", &[]).good();
    wait_until("nothing is left", PATIENCE, || job.sandbox.left().is_empty());
    assert!(!job.view(0).exists(), "the directory of the view stays");
    job.forget();
}

/// One node has its view, the other never comes up.
#[test]
fn an_interrupted_start_leaves_nothing() {
    require!(Fuse, Root, FuseForUsers, Command("setpriv"));
    for ends in [Signal::INT, Signal::KILL] {
        let sandbox = Sandbox::of_nobody_without_fusermount();
        let remote_shell = sandbox.base().join("rsh");
        // The one that is absent shares its directory with the other, which may have ended all before.
        let hangs = "host=$1; shift 2; eval \"set -- $*\"; case \"$host $*\" in absent*' down '*) exit 0;; *' down '*) ;; absent*) exec sleep 60;; esac; exec \"$@\"";
        fs::write(&remote_shell, format!("#!/bin/sh\n{hangs}\n")).unwrap();
        fs::set_permissions(&remote_shell, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(sandbox.runtime(), fs::Permissions::from_mode(0o700)).unwrap();
        let mut up = sandbox.command();
        up.args(["up", "--job", &sandbox.name, "--nodes", "127.0.0.1,absent", "--wait-timeout", "10min"]);
        up.arg("--directory").arg(sandbox.runtime());
        up.arg("--remote-shell").arg(&remote_shell).arg("--export").arg(sandbox.source());
        let mut up = Running::start(up.arg("--view").arg(sandbox.view()));
        let entrance = sandbox.runtime().join(&sandbox.name).join("enter-0.sock");
        wait_until("the node has its view", PATIENCE, || entrance.exists());
        send(up.0.id(), ends);
        let _ = up.0.wait().unwrap();
        // After a kill, `absent` is the remote shell's.
        let is_ended = || !sandbox.processes().iter().any(|pid| is_node(*pid)) && sandbox.mounts().is_empty();
        wait_until("the node has ended", PATIENCE, is_ended);
        assert!(!sandbox.view().exists(), "the directory of the view stays");
        if ends == Signal::KILL {
            sandbox.processes().into_iter().for_each(forebay_tests::job::kill);
            let mut down = sandbox.command();
            let _ = run(down.args(["down", "--job", &sandbox.name, "--directory"]).arg(sandbox.runtime())).good();
        }
        assert_eq!(sandbox.left(), Vec::<String>::new());
    }
}

fn is_node(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program.ends_with("forebay"))
}

#[test]
fn other_users_cannot_be_let_in() {
    require!(Fuse, Root, FuseForUsers, Command("setpriv"));
    let sandbox = Sandbox::of_nobody_without_fusermount();
    let mut up = sandbox.command();
    up.args(["up", "--job", &sandbox.name, "--allow-other", "--export"]).arg(sandbox.source());
    let refused = run(up.arg("--view").arg(sandbox.view()));
    assert_eq!(refused.status.code(), Some(1));
    for part in [
        "neither fusermount3 nor fusermount is installed",
        "without --allow-other, the view can be in a user namespace",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert_eq!(sandbox.left(), Vec::<String>::new());
}
