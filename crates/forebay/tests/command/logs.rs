//! Logs while a job is up and after its end, and the archive for a bug report.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::place::{Place, signal, wait_until};

#[test]
fn logs_are_shown_while_the_job_is_up_and_after_its_end() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    assert!(place.fails(1, &["logs"]).contains("no logs are kept"));
    let up = ["up", "--local", "2", "--log", "debug", "--export", &source];
    place.succeeds(&up);
    let both = place.succeeds(&["logs"]);
    assert!(
        both.lines().any(|line| line.starts_with("0: 2")) && both.lines().any(|line| line.starts_with("1: 2")),
        "{both}"
    );
    let times: Vec<&str> = both.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert!(times.is_sorted() && times.iter().all(|time| time.ends_with('Z')), "in the order of time: {both}");
    let one = place.succeeds(&["logs", "--node", "1"]);
    assert!(one.starts_with("2") && one.contains("DEBUG"), "{one}");
    let grave = place.succeeds(&["logs", "--level", "info"]);
    assert!(!grave.contains("DEBUG") && grave.lines().count() < both.lines().count(), "{grave}");
    assert!(place.fails(2, &["logs", "--level", "verbose"]).contains("the levels are error, warn"));
    assert!(place.fails(1, &["logs", "--node", "7"]).contains("has no node 7; it has 2"));
    place.succeeds(&["down"]);
    place.assert_clean();
    let kept = place.path("state/forebay/default");
    wait_until("the logs are kept", || kept.join("node-1.log").exists());
    let ended = place.succeeds(&["logs", "--node", "1"]);
    assert!(ended.starts_with(&one[..one.len() / 2]), "{ended}");
    place.succeeds(&up);
    wait_until("the earlier logs are set aside", || !kept.exists());
    place.succeeds(&["down"]);
    wait_until("both are kept", || kept.exists() && fs::read_dir(place.path("state/forebay")).unwrap().count() == 2);
}

#[test]
fn followed_logs_end_with_the_job() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--export", &place.source()]);
    let mut follower = place.command(&["logs", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    place.succeeds(&["down"]);
    assert!(lines.all(|line| line.is_ok()));
    assert!(follower.wait().unwrap().success());
    place.assert_clean();
}

/// A log that fails to start is wanted most.
#[test]
fn logs_of_a_start_that_failed_are_kept() {
    let place = Place::new();
    place.fails(1, &["up", "--job", "failed", "--export", "/nonexistent"]);
    let log = place.path("state/forebay/failed/node-0.log");
    wait_until("the log is kept", || fs::read_to_string(&log).is_ok_and(|log| log.contains("cannot export")));
}

#[test]
fn a_job_ends_whatever_the_home_directory_does() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    place.succeeds(&["up", "--job", "hung", "--export", &source]);
    let hung = place.job("hung").join("view").join(source.trim_start_matches('/')).join("below/state");
    let daemon = place.daemon("hung", 0)["daemon"]["pid"].as_u64().unwrap();
    signal(daemon, Signal::STOP);
    let home = |state: Option<&str>, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env_remove("HOME").env_remove("XDG_STATE_HOME");
        let output = command.envs(state.map(|state| ("XDG_STATE_HOME", state))).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    for state in [hung.to_str(), Some("/proc/none"), Some("/dev/null"), None] {
        home(state, &["up", "--job", "quick", "--export", &source]);
        home(state, &["down", "--job", "quick"]);
        assert!(!place.job("quick").exists());
    }
    signal(daemon, Signal::CONT);
    place.succeeds(&["down", "--job", "hung"]);
    place.assert_clean();
}

/// The key is in the node's memory, and was on its way there in a file.
#[test]
fn the_archive_for_a_bug_report_has_no_key() {
    let Some(place) = Place::with_views() else { return };
    let key: Vec<u8> = (0..32_u8).map(|number| number.wrapping_mul(37) | 0x81).collect();
    fs::write(place.path("key"), &key).unwrap();
    Command::new("chmod").arg("600").arg(place.path("key")).status().unwrap();
    fs::write(place.path("hosts"), "127.0.0.1\n").unwrap();
    let source = place.source();
    let node = ["node", "--hostfile", "hosts", "--key", "key", "--rank", "0", "--job", "known", "--view", "view"];
    let node = [&node[..], &["--log-file", "node.log", "--log", "trace", "--export", &source]].concat();
    let mut daemon = place.command(&node).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line}");
    let archive = place.path("bug.tar.gz");
    let said = place.succeeds(&["debug", "--job", "known", "--output", archive.to_str().unwrap()]);
    assert_eq!(said.trim(), archive.to_str().unwrap());
    let unpacked = place.path("unpacked");
    fs::create_dir(&unpacked).unwrap();
    assert!(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&unpacked).status().unwrap().success());
    let read = |name: &str| fs::read(unpacked.join("forebay-debug-known").join(name)).unwrap();
    let text = |name: &str| String::from_utf8_lossy(&read(name)).into_owned();
    assert!(text("status.json").contains("\"known\"") && text("doctor.json").starts_with('{'));
    assert!(text("mounts.txt").contains("view") && text("versions.txt").starts_with("forebay 0"));
    assert!(text("threads.txt").contains("wchan: ") && text("threads.txt").contains("Name:\tforebay"));
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = key.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    for name in
        ["status.json", "doctor.json", "config.json", "mounts.txt", "versions.txt", "threads.txt", "node-0.json"]
    {
        let bytes = read(name);
        assert!(!bytes.windows(8).any(|part| part == &key[..8]), "{name}");
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        assert!(!text.contains(&hex[..16]) && !text.replace(' ', "").contains(&list[..24]), "{name}");
    }
    assert!(
        place.fails(1, &["debug", "--job", "known", "--output", "/proc/x"]).contains("choose another with --output")
    );
    place.succeeds(&["down", "--job", "known"]);
    daemon.wait().unwrap();
    place.assert_clean();
}

#[test]
fn a_bug_report_is_of_a_job_that_something_is_known_of() {
    let place = Place::new();
    let archive = place.path("bug.tar.gz");
    let debug = ["debug", "--job", "gone", "--output", archive.to_str().unwrap()];
    let message = place.fails(1, &debug);
    assert!(message.contains("no job gone is up on this host") && !archive.exists(), "{message}");
    let kept = place.path("state/forebay/gone");
    fs::create_dir_all(&kept).unwrap();
    for directory in [kept.parent().unwrap(), &kept] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::write(kept.join("node-0.log"), "ended\n").unwrap();
    place.succeeds(&debug);
    assert!(archive.exists());
}

/// A file of the name that was wanted is there only when it is whole, and nothing is anywhere else.
#[test]
fn a_killed_bug_report_leaves_one_file_that_the_next_one_removes() {
    let place = Place::new();
    let (temporary, wanted) = (place.path("tmp"), place.path("bug.tar.gz"));
    let part = place.path("bug.tar.gz.part");
    fs::create_dir(&temporary).unwrap();
    let debug = || {
        let mut command = place.command(&["debug", "--output", wanted.to_str().unwrap()]);
        command.env("TMPDIR", &temporary).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let mut killed = debug().spawn().unwrap();
    wait_until("it has begun", || part.exists());
    let second = debug().output().unwrap();
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(second.status.code() == Some(1) && message.contains("another forebay debug writes"), "{message}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(part.exists() && !wanted.exists());
    let is_free = || {
        let done = debug().output().unwrap();
        done.status.success().then_some(()).or_else(|| {
            let message = String::from_utf8(done.stderr).unwrap();
            assert!(message.contains("another forebay debug writes"), "{message}");
            None
        })
    };
    wait_until("what compressed for it has ended", || is_free().is_some());
    assert!(wanted.exists() && !part.exists());
    wait_until("the checks of the killed one have ended", || fs::read_dir(&temporary).unwrap().count() == 0);
    let message = String::from_utf8(debug().output().unwrap().stderr).unwrap();
    assert!(message.contains("it exists") && message.contains("choose another with --output"), "{message}");
    place.assert_clean();
}
