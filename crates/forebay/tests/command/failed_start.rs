//! A start that fails says once what is wrong, and leaves nothing behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::Signal;

use crate::hosts::{free_ports, remote_shell_that};
use crate::place::{Place, signal, wait_until};

#[test]
fn exports_that_cannot_be_shown() {
    let Some(place) = Place::with_views() else { return };
    let file = format!("{}/file", place.source());
    for (export, part) in [
        ("/nonexistent", "cannot export /nonexistent: No such file or directory"),
        (file.as_str(), "it is not a directory"),
        ("/usr/../etc", "must not be '.' or '..'"),
    ] {
        let message = place.fails(1, &["up", "--local", "3", "--export", export]);
        assert!(message.contains(part), "{message}");
        // Three nodes with one reason are one line.
        assert!(message.contains("node 0-2: ") && message.lines().count() == 2, "{message}");
        place.assert_clean();
    }
}

#[test]
fn an_export_that_the_user_cannot_read() {
    let Some(place) = Place::with_views() else { return };
    // Another user needs a program, a directory for jobs and a way there of their own.
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.path("source"), fs::Permissions::from_mode(0o700)).unwrap();
    let run = place.path("run-of-another");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&run, Some(65_534), Some(65_534)).unwrap();
    let program = place.path("forebay");
    fs::copy(env!("CARGO_BIN_EXE_forebay"), &program).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["up", "--export", &place.source()])
        .env("FOREBAY_DIRECTORY", &run)
        .current_dir("/")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(message.contains("it cannot be read by this user: Permission denied"), "{message}");
    assert!(fs::read_dir(&run).is_ok_and(|mut jobs| jobs.next().is_none()) || !run.exists());
}

#[test]
fn views_that_cannot_be_mounted_on() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    let file = format!("{source}/file");
    for (view, part) in [
        (source.as_str(), "it is not empty ("),
        (file.as_str(), "it is not a directory"),
        ("/proc", "a file system of type proc is mounted there"),
        ("/nonexistent/view", "its parent /nonexistent does not exist; create it"),
    ] {
        let message = place.fails(1, &["up", "--view", view, "--export", &source]);
        assert!(message.contains(part) && message.contains(view), "{message}");
        place.assert_clean();
    }
}

#[test]
fn another_file_at_the_path_of_the_device_is_named() {
    let Some(place) = Place::with_views() else { return };
    let within = |command: &str| {
        let script = format!("mount --bind /dev/null /dev/fuse && exec {} {command}", env!("CARGO_BIN_EXE_forebay"));
        let mut unshare = place.shell(&place.path(""));
        unshare.args(["-c", "exec unshare -m sh -c \"$0\"", &script]).output().unwrap()
    };
    let fault = "the character device 1:3, not that of FUSE (character device 10:229)";
    let up = within(&format!("up --export {}", place.source()));
    let message = String::from_utf8_lossy(&up.stderr);
    assert_eq!(up.status.code(), Some(1), "{message}");
    assert!(message.contains(&format!("/dev/fuse is {fault}; in a container, pass the host's device in")), "{message}");
    let doctor = within("doctor");
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("missing  /dev/fuse: {fault}")), "{said}");
    place.assert_clean();
}

#[test]
fn a_burst_tier_at_a_file() {
    let Some(place) = Place::with_views() else { return };
    let (source, file) = (place.source(), place.path("source/file").display().to_string());
    let tier = format!("{file}={source}/below");
    let up = ["up", "--export", &source, "--burst", &tier, "--burst-store", "store", "--burst-capacity", "256MiB"];
    let message = place.fails(1, &up);
    assert!(message.contains(&format!("--burst: {file} is not a directory")), "{message}");
    assert!(!place.path("store").exists());
    place.assert_clean();
}

#[test]
fn views_of_several_nodes_that_have_no_place() {
    let Some(place) = Place::with_views() else { return };
    let message = place.fails(1, &["up", "--local", "2", "--view", "/proc/views", "--export", &place.source()]);
    assert!(
        message.contains("cannot use /proc/views for the views; choose another directory with --view"),
        "{message}"
    );
    let message = place.fails(1, &["up", "--directory", "/proc/jobs", "--export", &place.source()]);
    assert!(message.contains("choose one with --directory"), "{message}");
    place.assert_clean();
}

#[test]
fn settings_for_several_machines_are_passed_over_with_a_message() {
    let Some(place) = Place::with_views() else { return };
    let up = place.run(&["up", "--interface", "none", "--port", "7", "--export", &place.source()]);
    let message = String::from_utf8_lossy(&up.stderr);
    assert!(up.status.success(), "{message}");
    assert!(message.contains("--interface and --port are ignored: all nodes are on this machine"), "{message}");
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn a_view_of_another_job_is_left_alone() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    place.succeeds(&["up", "--job", "first", "--view", "view", "--export", &source]);
    let message = place.fails(1, &["up", "--job", "second", "--view", "view", "--export", &source]);
    assert!(message.contains("a view of another job is mounted there"), "{message}");
    assert!(place.path("view").join(source.trim_start_matches('/')).join("file").exists());
    assert!(!place.job("second").exists());
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn a_machine_that_lacks_what_was_asked_for() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    let message = place.fails(1, &["up", "--cores", "8000", "--export", &source]);
    assert!(message.contains("--cores"), "{message}");
    place.assert_clean();
}

#[test]
fn jobs_are_not_kept_where_others_could_have_prepared_them() {
    let place = Place::new();
    let base = place.path("run");
    std::os::unix::fs::symlink(place.path("source"), &base).unwrap();
    let message = place.fails(1, &["up", "--job", "below", "--export", &place.source()]);
    assert!(message.contains("is not safe to use: it is not a directory; choose another"), "{message}");
    for command in [&["status"][..], &["down", "--job", "below"]] {
        let message = place.fails(1, command);
        assert!(message.contains("is not safe to use"), "not that there is no job: {message}");
    }
    fs::remove_file(&base).unwrap();
    assert!(place.path("source/below/large").exists());
}

#[test]
fn entries_that_are_no_jobs_are_passed_over() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--export", &place.source()]);
    let (stray, open) = (place.job("stray"), place.job("open"));
    fs::write(&stray, "").unwrap();
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    // A job whose directory was opened is there all the same.
    let job = place.job("default");
    fs::set_permissions(&job, fs::Permissions::from_mode(0o755)).unwrap();
    let message = place.fails(1, &["down"]);
    assert!(message.contains("default is not safe to use: others may enter it (mode 0755)"), "{message}");
    fs::set_permissions(&job, fs::Permissions::from_mode(0o700)).unwrap();
    for command in [&["status"][..], &["metrics"], &["logs"], &["run", "--view", "--", "true"], &["down"]] {
        let done = place.run(command);
        let message = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && !message.contains("stray"), "{command:?}: {message}");
    }
    assert!(!place.job("default").exists() && stray.exists());
    let message = place.fails(1, &["status"]);
    for path in [&stray, &open] {
        let told = format!("note: passed over: the directory {} is not safe to use", path.display());
        assert_eq!(message.matches(&told).count(), 1, "{message}");
    }
    assert!(message.contains("no job is up on this host"), "{message}");
    let message = place.fails(1, &["status", "--job", "stray"]);
    assert!(message.contains("stray is not safe to use: it is not a directory; choose another"), "{message}");
}

/// A remote shell whose daemon never answers keeps `up` waiting for as long as the test needs.
#[test]
fn an_interrupt_stops_everything() {
    let Some(place) = Place::with_views() else { return };
    let shell = place.path("rsh");
    let script = "case \"$*\" in *' down '*) exit 0;; esac\necho \"$1\" >>\"${0%/*}/called\"\nexec sleep 60\n";
    fs::write(&shell, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["up", "--nodes", "slow", "--remote-shell", shell.to_str().unwrap(), "--job", "slow"];
    let child = place.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the remote shell is called", || {
        fs::read_to_string(place.path("called")).is_ok_and(|text| !text.is_empty())
    });
    signal(child.id().into(), Signal::INT);
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(message.contains("interrupted; everything is stopped"), "{message}");
    place.assert_clean();
}

/// The other nodes have come to terms with no owner of the burst tree; they have nothing that would have to land.
#[test]
fn a_start_without_its_first_node_leaves_no_store() {
    let Some(place) = Place::with_views() else { return };
    let ports = free_ports(3);
    let hangs = "case $* in *' down '*) exit 0;; *' node '*) [ $host != absent ] || exec sleep 60;; esac\nexec \"$@\"";
    let shell = remote_shell_that(&place, hangs);
    let nodes = format!("absent:{},127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1], ports[2]);
    fs::create_dir(place.path("backing")).unwrap();
    let (burst, store) = (format!("/ckpt={}", place.path("backing").display()), place.path("store"));
    let arguments = ["up", "--nodes", &nodes, "--remote-shell", &shell, "--job", "absent", "--view", "view"];
    let tier = ["--burst", &burst, "--burst-store", store.to_str().unwrap(), "--burst-capacity", "256MiB"];
    let source = place.source();
    let command = [&arguments[..], &tier, &["--export", &source, "--wait-timeout", "10min"]].concat();
    let mut child = place.command(&command).stderr(Stdio::piped()).spawn().unwrap();
    // Beside the mark of who has made the directory.
    let is_store = |entry: &fs::DirEntry| entry.path().is_dir();
    let stores = || fs::read_dir(&store).map_or(0, |entries| entries.flatten().filter(is_store).count());
    wait_until("the other nodes have stores", || stores() == 2 || child.try_wait().unwrap().is_some());
    assert_eq!(stores(), 2, "{:?}", child.try_wait().unwrap().map(|_| child.wait_with_output().unwrap()));
    signal(child.id().into(), Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("interrupted; everything is stopped"), "{message}");
    place.assert_clean();
    assert_eq!(stores(), 0);
}
