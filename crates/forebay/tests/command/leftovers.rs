//! After a crash: nothing is in the way, and nothing stays.

use std::fs;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::hosts::{free_ports, remote_shell_that};
use crate::place::{Place, is_running, signal, wait_until};

#[test]
fn down_cleans_up_after_daemons_that_died() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--local", "3", "--job", "dead", "--export", &place.source()]);
    (0..3).for_each(|rank| place.kill("dead", rank));
    assert_eq!(place.mounts().len(), 3);
    for mount in place.mounts() {
        let error = fs::read_dir(mount.split(' ').nth(1).unwrap()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()), "{mount}: {error}");
    }
    let message = place.fails(1, &["status"]);
    assert!(message.contains("no daemon of the job dead answers; forebay down --job dead cleans up"), "{message}");
    let output = place.run(&["down"]);
    assert!(output.status.success(), "{output:?}");
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(notes.contains("unmounted ") && notes.contains("/view/2"), "{notes}");
    place.assert_clean();
    assert!(place.succeeds(&["down", "--job", "dead"]).contains("no job dead is up"));
}

/// When a process started, as records of processes have it (field 22 of proc_pid_stat(5)).
fn start_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, behind_name) = stat.rsplit_once(')').unwrap();
    behind_name.split_whitespace().nth(19).unwrap().parse().unwrap()
}

/// A daemon that hangs does not hear that it is to end. `down` gives it three seconds, all but these being over at once.
#[test]
fn down_kills_a_daemon_that_does_not_end_after_three_seconds() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--job", "deaf", "--export", &place.source()]);
    place.kill("deaf", 0);
    // An ignored signal stays so in the program that follows.
    let mut deaf = Command::new("sh").args(["-c", "trap '' TERM; exec sleep 600"]).spawn().unwrap();
    let name = || fs::read_to_string(format!("/proc/{}/comm", deaf.id())).unwrap();
    wait_until("it is deaf", || name().trim() == "sleep");
    let mut record = place.daemon("deaf", 0);
    record["daemon"] = serde_json::json!({"pid": deaf.id(), "start_ticks": start_ticks(deaf.id())});
    fs::write(place.job("deaf").join("node-0.json"), record.to_string()).unwrap();
    let began = Instant::now();
    let down = place.json(&["down", "--job", "deaf"]);
    let took = began.elapsed();
    deaf.kill().unwrap();
    deaf.wait().unwrap();
    let notes = down["notes"].to_string();
    assert!(notes.contains("ended 1 process (1 had to be killed)"), "{down}");
    assert!(took >= Duration::from_secs(3), "after {took:?}");
    place.assert_clean();
}

#[test]
fn up_cleans_up_after_a_dead_job_of_the_same_name() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--local", "2", "--export", &place.source()]);
    (0..2).for_each(|rank| place.kill("default", rank));
    let output = place.run(&["up", "--local", "2", "--export", &place.source()]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("note: cleaned up after a dead job default"));
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn a_view_whose_daemon_died_is_taken_over() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    place.succeeds(&["up", "--job", "crashed", "--view", "view", "--export", &source]);
    place.kill("crashed", 0);
    let output = place.run(&["up", "--job", "next", "--view", "view", "--export", &source]);
    assert!(output.status.success(), "{output:?}");
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(notes.contains("unmounted a view whose daemon had died"), "{notes}");
    assert!(place.path("view").join(source.trim_start_matches('/')).join("file").exists());
    place.succeeds(&["down", "--job", "next"]);
    place.succeeds(&["down", "--job", "crashed"]);
    place.assert_clean();
}

#[test]
fn down_ends_what_a_dead_root_cuts_off() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--local", "4", "--job", "headless", "--fanout", "3", "--export", &place.source()]);
    place.kill("headless", 0);
    let status = place.run(&["status"]);
    assert_eq!(status.status.code(), Some(3), "{status:?}");
    assert!(String::from_utf8_lossy(&status.stdout).contains("SILENT"));
    let down = place.json(&["down"]);
    assert_eq!(down["ended"], serde_json::json!([1, 2, 3]));
    place.assert_clean();
}

#[test]
fn an_empty_directory_of_a_job_is_a_dead_job() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--job", "a", "--export", &place.source()]);
    place.succeeds(&["down"]);
    fs::create_dir_all(place.job("a")).unwrap();
    for path in [place.path("run"), place.job("a")] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
    place.succeeds(&["up", "--job", "a", "--export", &place.source()]);
    place.succeeds(&["down"]);
    // It was there before the job.
    fs::remove_dir(place.path("run")).unwrap();
    place.assert_clean();
}

/// How far the start of a job is, by its record.
fn progress(place: &Place, job: &str) -> Option<String> {
    let record = fs::read(place.job(job).join("job.json")).ok()?;
    Some(serde_json::from_slice::<Value>(&record).ok()?["progress"].as_str()?.to_owned())
}

#[test]
fn a_killed_local_start_leaves_no_trace() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    loop {
        let mut up = place.command(&["up", "--local", "3", "--job", "killed", "--export", &source]);
        let mut up = up.stdout(Stdio::null()).spawn().unwrap();
        let last = place.job("killed").join("node-2.json");
        wait_until("the last node has a record", || last.exists());
        signal(up.id().into(), Signal::STOP);
        let is_early = progress(&place, "killed").as_deref() == Some("starting");
        signal(up.id().into(), if is_early { Signal::KILL } else { Signal::CONT });
        up.wait().unwrap();
        if is_early {
            break;
        }
        place.succeeds(&["down", "--job", "killed"]);
    }
    // A keeper takes its files away and then ends; nobody waits for it.
    wait_until("its nodes have ended", || !place.path("run").exists() && place.daemons().is_empty());
    place.assert_clean();
}

#[test]
fn a_start_that_was_killed_is_not_in_the_way_of_the_next() {
    let Some(place) = Place::with_views() else { return };
    let hosts: String = free_ports(2).iter().map(|port| format!("127.0.0.1:{port}\n")).collect();
    fs::write(place.path("hosts"), hosts).unwrap();
    // As a host that does not answer.
    let waits = "case \"$*\" in *'--rank 1'*) echo $$ >waiting; until [ -e over ]; do sleep 0.05; done; exit 1;; esac";
    let shell = remote_shell_that(&place, &format!("{waits}\nexec \"$@\""));
    let source = place.source();
    let arguments = ["up", "--hostfile", "hosts", "--remote-shell", &shell, "--job", "killed", "--export", &source];
    let mut up = place.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    wait_until("one node has its view", || place.mounts().len() == 1 && place.path("waiting").exists());
    signal(up.id().into(), Signal::KILL);
    up.wait().unwrap();
    wait_until("it has ended", || place.mounts().is_empty());
    let message = place.fails(1, &["status", "--job", "killed"]);
    assert!(message.contains("no node of the job killed answers; forebay down --job killed"), "{message}");
    let output = place.run(&["up", "--job", "killed", "--export", &source]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cleaned up after a dead job killed"), "{output:?}");
    place.succeeds(&["down", "--job", "killed"]);
    fs::write(place.path("over"), "").unwrap();
    let shell = fs::read_to_string(place.path("waiting")).unwrap().trim().parse().unwrap();
    wait_until("the remote shell has ended", || !is_running(shell));
    place.assert_clean();
}
