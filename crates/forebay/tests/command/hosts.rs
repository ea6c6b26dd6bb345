//! Nodes started through a remote shell, which here runs everything on this machine.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::place::{Place, signal, wait_until};

/// A host called `bad` cannot be reached.
fn remote_shell(place: &Place) -> String {
    remote_shell_that(place, "case $host in bad) echo 'no route to bad' >&2; exit 255;; esac\nexec \"$@\"")
}

/// One that does this with a call, its host in `$host`.
pub fn remote_shell_that(place: &Place, does: &str) -> String {
    let shell = place.path("rsh");
    // As a remote shell does it, the host's own shell takes the words apart.
    let divides = "host=$1; shift; [ \"$1\" = -- ] || exit 99; shift; eval \"set -- $*\"";
    let script = format!("#!/bin/sh\n{divides}\n{does}\n");
    fs::write(&shell, script).unwrap();
    fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
    shell.display().to_string()
}

/// Ports that were free a moment ago, below those that the kernel gives to outgoing connections: another test's would
/// take one in between.
pub fn free_ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let candidate = || {
        let number = std::process::id().wrapping_mul(97) + NEXT.fetch_add(1, Ordering::Relaxed);
        u16::try_from(20_000 + number % 12_000).unwrap()
    };
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(candidate).filter(is_free).take(count).collect()
}

#[test]
fn a_host_file_of_three() {
    let Some(place) = Place::with_views() else { return };
    let (job, shell) = ("hosts", remote_shell(&place));
    let hosts: String = free_ports(3).iter().map(|port| format!("127.0.0.1:{port}\n")).collect();
    fs::write(place.path("hosts"), hosts).unwrap();
    let source = place.source();
    let up = place.json(&[
        "up",
        "--hostfile",
        "hosts",
        "--remote-shell",
        &shell,
        "--job",
        job,
        "--view",
        "view",
        "--export",
        &source,
    ]);
    assert_eq!(up["nodes"].as_array().unwrap().len(), 3);
    for rank in 0..3 {
        let file = place.path(&format!("view/{rank}{source}/file"));
        assert_eq!(fs::read_to_string(file).unwrap(), "contents of file\n");
    }
    assert_eq!(place.json(&["status", "--job", job])["nodes"].as_array().unwrap().len(), 3);
    let down = place.json(&["down", "--job", job]);
    assert_eq!(down["ended"], serde_json::json!([0, 1, 2]));
    place.assert_clean();
}

/// The program lies in a directory with a blank in its name, and has an argument with one.
#[test]
fn the_remote_shell_is_split_as_a_shell_would() {
    let Some(place) = Place::with_views() else { return };
    fs::create_dir(place.path("my programs")).unwrap();
    let moved = place.path("my programs/rsh");
    fs::write(
        &moved,
        "#!/bin/sh\n[ \"$1\" = 'an argument' ] && [ \"$3\" = -- ] || exit 98\nshift 3\neval \"exec $*\"\n",
    )
    .unwrap();
    fs::set_permissions(&moved, fs::Permissions::from_mode(0o755)).unwrap();
    let command = format!("'{}' an\\ argument", moved.display());
    let nodes = format!("127.0.0.1:{}", free_ports(1)[0]);
    let arguments = ["up", "--nodes", &nodes, "--remote-shell", &command, "--job", "split", "--view", "view"];
    place.succeeds(&[&arguments[..], &["--export", &place.source()]].concat());
    place.succeeds(&["down", "--job", "split"]);
    let open = place.fails(2, &["up", "--nodes", &nodes, "--remote-shell", "ssh 'x"]);
    assert!(open.contains("has an unfinished quotation or escape"), "{open}");
    place.assert_clean();
}

#[test]
fn a_host_that_cannot_be_reached_ends_the_start() {
    let Some(place) = Place::with_views() else { return };
    let (job, shell) = ("unreachable", remote_shell(&place));
    let arguments = ["up", "--nodes", "127.0.0.1,bad", "--remote-shell", &shell, "--job", job, "--view", "view"];
    let message = place.fails(1, &[&arguments[..], &["--export", &place.source()]].concat());
    assert!(message.contains("1 of 2 nodes did not start; "), "{message}");
    let counted = "; 1 stopped, 1 unknown: bad (forebay down there ends what may run)\n";
    assert!(message.contains(counted), "{message}");
    assert!(message.contains("to bad failed with exit status 255") && message.contains("no route to bad"), "{message}");
    assert_eq!(message.matches("no route to bad").count(), 1, "a reason is told once: {message}");
    assert!(message.contains("what may run there could not be ended: bad"), "{message}");
    place.assert_clean();
    assert!(!place.path("view").exists());
}

/// On one host the login hangs, on the other what is sent there arrives in part: both are named while the start goes on, by their cause.
#[test]
fn hosts_that_are_dead_or_half_dead_are_named_while_the_start_waits() {
    let Some(place) = Place::with_views() else { return };
    let wait = "tail --pid=$$ -f /dev/null";
    let does = format!(
        "case \"$host $*\" in\n127.0.0.[34]*--job-spec*) exec {wait};;\n\
         127.0.0.5*--job-spec*) {{ head -c 200; exec {wait}; }} | \"$@\";;\n*) exec \"$@\";;\nesac"
    );
    let (shell, source) = (remote_shell_that(&place, &does), place.source());
    let nodes = "127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5";
    let arguments = ["up", "--job", "late", "--nodes", nodes, "--remote-shell", &shell, "--wait-timeout", "6s"];
    let message = place.fails(1, &[&arguments[..], &["--view", "view", "--export", &source]].concat());
    let (waits, ends) = message.split_once("did not start").unwrap_or_else(|| panic!("{message}"));
    assert!(waits.contains("forebay: still waiting for 3 of 4 nodes:"), "{message}");
    for told in [waits, ends] {
        let named = |host: &str| told.lines().filter(|line| line.starts_with("  node ") && line.contains(host)).count();
        assert_eq!(["127.0.0.3", "127.0.0.4", "127.0.0.5"].map(named), [1; 3], "{message}");
    }
    assert!(
        waits.contains("not ready after 4 s; ") && ends.contains("not ready after 6s (--wait-timeout); "),
        "{message}"
    );
    place.assert_clean();
}

/// The document that one host gets is that of another build.
#[test]
fn a_host_with_another_version_is_named_with_both() {
    let Some(place) = Place::with_views() else { return };
    let own = format!("version {} (protocol {})", env!("CARGO_PKG_VERSION"), forebay_wire::message::PROTOCOL_VERSION);
    for (change, theirs) in [
        (r#"s/"version":"[^"]*"/"version":"99.0.0"/"#, "version 99.0.0 (protocol ".to_owned()),
        (r#"s/"protocol":[0-9]*/"protocol":999/"#, format!("version {} (protocol 999)", env!("CARGO_PKG_VERSION"))),
    ] {
        let does =
            format!("case \"$host $*\" in 127.0.0.3*--job-spec*) sed '{change}' | exec \"$@\";; *) exec \"$@\";; esac");
        let (shell, source) = (remote_shell_that(&place, &does), place.source());
        let arguments = ["up", "--job", "mixed", "--nodes", "127.0.0.2,127.0.0.3", "--remote-shell", &shell];
        let message = place.fails(1, &[&arguments[..], &["--view", "view", "--export", &source]].concat());
        assert!(message.contains("node 1 (127.0.0.3): ") && !message.contains("node 0"), "{message}");
        assert!(message.contains(&format!("it is of {theirs}")), "{message}");
        assert!(
            message.contains(&format!("this program is of {own}: start the same build on every host")),
            "{message}"
        );
        place.assert_clean();
    }
}

/// Each of its calls has an empty directory in place of the jobs' one, as where a login has a `/tmp` of its own.
fn shell_with_own_directory(place: &Place, unreachable: &str) -> String {
    let run = place.path("run").display().to_string();
    let does = format!(
        "case $host in {unreachable}) echo 'no route' >&2; exit 255;; esac\n\
         exec unshare --mount sh -ec 'mkdir -p -m 700 \"$0\"; mount -t tmpfs -o mode=700 tmpfs \"$0\"; exec \"$@\"' {run} \"$@\""
    );
    remote_shell_that(place, &does)
}

/// A copy of the program, by whose path its processes are known: `down` does not find them.
struct OwnProgram<'a> {
    place: &'a Place,
    program: PathBuf,
}

impl<'a> OwnProgram<'a> {
    fn of(place: &'a Place) -> Self {
        let program = place.path("forebay-of-its-own");
        // Not by this process: what another test starts meanwhile would have the copy open, and it could not be run.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_forebay")).arg(&program).status();
        assert!(copied.unwrap().success());
        Self { place, program }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let like = self.place.command(arguments);
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.place.path(""));
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?)))).output().unwrap()
    }

    fn processes(&self) -> Vec<u64> {
        let of_program = |pid: &u64| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == self.program);
        let pids =
            fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(of_program).collect()
    }

    fn end(&self) {
        for pid in self.processes() {
            // A daemon ends with its keeper, perhaps just now.
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::TERM);
        }
        wait_until("the nodes have ended", || self.processes().is_empty());
    }
}

#[test]
fn nodes_that_the_remote_shell_does_not_find_are_not_said_to_have_ended() {
    let Some(place) = Place::with_views() else { return };
    let (job, shell) = ("own-tmp", shell_with_own_directory(&place, "none"));
    let program = OwnProgram::of(&place);
    let (port, view) = (free_ports(1)[0].to_string(), place.path("view").display().to_string());
    let up = ["up", "--nodes", "127.0.0.2,127.0.0.3", "--remote-shell", &shell, "--job", job, "--port", &port];
    let up = program.run(&[&up[..], &["--view", &view, "--export", &place.source()]].concat());
    assert!(up.status.success(), "{up:?}");
    let down = program.run(&["down", "--job", job, "--json"]);
    let told: Value = serde_json::from_slice(&down.stdout).unwrap();
    assert_eq!((&told["ended"], &told["missing"]), (&json!([]), &json!([0, 1])), "{told}");
    assert_eq!(down.status.code(), Some(3), "{told}");
    let note = "127.0.0.3: nothing of the job was found there: it has ended, or";
    assert!(told["notes"].to_string().contains(note), "{told}");
    assert!(!program.processes().is_empty(), "they do run");
    program.end();
}

#[test]
fn a_start_that_fails_says_what_was_stopped_and_what_is_not_known() {
    let Some(place) = Place::with_views() else { return };
    let shell = shell_with_own_directory(&place, "bad");
    let program = OwnProgram::of(&place);
    let view = place.path("view").display().to_string();
    let up = ["up", "--nodes", "127.0.0.2,bad", "--remote-shell", &shell, "--job", "half", "--view", &view];
    let up = program.run(&[&up[..], &["--export", &place.source()]].concat());
    let message = String::from_utf8(up.stderr).unwrap();
    assert_eq!(up.status.code(), Some(1), "{message}");
    assert!(message.contains("1 of 2 nodes did not start"), "{message}");
    assert!(!message.contains("everything is stopped"), "{message}");
    assert!(message.contains("what may run there could not be ended: bad"), "{message}");
    let unknown = "it is not known whether all is cleaned up:\n    127.0.0.2: nothing of the job was found there";
    assert!(message.contains(unknown), "{message}");
    program.end();
}

/// Another host, whose own directory of jobs is empty, starts a job of the name of one that is up on a host of its list.
#[test]
fn a_start_that_fails_leaves_another_job_of_its_name_alone() {
    let Some(place) = Place::with_views() else { return };
    let (shell, source, run) = (remote_shell(&place), place.source(), place.path("run").display().to_string());
    let ports = free_ports(4);
    let first = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    let second = format!("127.0.0.1:{},127.0.0.4:{}", ports[2], ports[3]);
    let up = ["--job", "twice", "--view", "view", "--export", &source, "--remote-shell"];
    place.succeeds(&[&["up", "--nodes", &first], &up[..], &[&shell]].concat());
    let to_first = format!(
        "case $host in 127.0.0.1) exec nsenter --mount=/proc/{}/ns/mnt -- \"$@\";; esac\nexec \"$@\"",
        std::process::id()
    );
    let other_shell = place.path("other");
    fs::create_dir(&other_shell).unwrap();
    let text = fs::read_to_string(place.path("rsh")).unwrap();
    let divides: String = text.lines().take(2).map(|line| format!("{line}\n")).collect();
    let other_shell = other_shell.join("rsh");
    fs::write(&other_shell, format!("{divides}{to_first}\n")).unwrap();
    fs::set_permissions(&other_shell, fs::Permissions::from_mode(0o755)).unwrap();
    let mut elsewhere = place.shell(&place.path(""));
    let script = r#"exec unshare --mount sh -ec 'mount -t tmpfs -o mode=700 tmpfs "$0"; exec "$@"' "$@""#;
    elsewhere.args(["-c", script, "sh", &run, env!("CARGO_BIN_EXE_forebay"), "up", "--nodes", &second]);
    let failed = elsewhere.args(up).arg(&other_shell).output().unwrap();
    let message = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(1), "{message}");
    assert!(message.contains("node 0 (127.0.0.1): another job twice is up here (process "), "{message}");
    for rank in 0..2 {
        let file = place.path(&format!("view/{rank}{source}/file"));
        assert_eq!(fs::read_to_string(file).unwrap(), "contents of file\n");
    }
    assert_eq!(place.json(&["down", "--job", "twice"])["ended"], json!([0, 1]));
    place.assert_clean();
}

/// As where the login goes on when its client has been ended: the node begins when nobody waits for it any more.
#[test]
fn a_node_that_begins_after_the_start_was_interrupted_ends_by_itself() {
    let Some(place) = Place::with_views() else { return };
    let go = place.path("go").display().to_string();
    let waits = "cat > \"$0\"; while [ ! -e \"$0.now\" ]; do sleep 0.05; done; exec \"$@\" < \"$0\"";
    let does = format!(
        "case \"$host $*\" in 127.0.0.3*--job-spec*) exec 3<&0; setsid sh -c '{waits}' {go} \"$@\" <&3 & : > {go}.asked; wait;; *) exec \"$@\";; esac"
    );
    let (shell, source) = (remote_shell_that(&place, &does), place.source());
    let program = OwnProgram::of(&place);
    let arguments = ["up", "--job", "late", "--nodes", "127.0.0.2,127.0.0.3", "--remote-shell", &shell];
    let like = place.command(&arguments);
    let mut up = Command::new(&program.program);
    up.args([&arguments[..], &["--view", "view", "--export", &source]].concat()).current_dir(place.path(""));
    up.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let up = up.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let has_all =
        || fs::metadata(place.path("go")).is_ok_and(|found| found.len() > 0) && place.path("go.asked").exists();
    wait_until("the late host has its job spec", has_all);
    signal(up.id().into(), Signal::INT);
    let told = up.wait_with_output().unwrap();
    let message = String::from_utf8(told.stderr).unwrap();
    assert!(message.contains("interrupted; "), "{message}");
    fs::write(place.path("go.now"), "").unwrap();
    wait_until("the late node has begun", || place.job("late").join("node-1.json").exists());
    let began = std::time::Instant::now();
    while !program.processes().is_empty() {
        assert!(began.elapsed() < std::time::Duration::from_secs(120), "it goes on: {message}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    place.assert_clean();
}

/// Each host's command has open files; here nothing comes of any.
#[test]
fn a_usual_limit_of_open_files_is_enough_for_many_hosts() {
    let place = Place::new();
    let (shell, source) = (remote_shell_that(&place, "echo 'no route' >&2; exit 255"), place.source());
    let hosts: String = (0..200).map(|host| format!("127.0.1.{host}\n")).collect();
    fs::write(place.path("hosts"), hosts).unwrap();
    let script = "ulimit -Sn 100; exec \"$@\"";
    let up = ["up", "--job", "many", "--hostfile", "hosts", "--remote-shell", &shell, "--export", &source];
    let mut limited = place.shell(&place.path(""));
    let failed = limited.args(["-c", script, "sh", env!("CARGO_BIN_EXE_forebay")]).args(up).output().unwrap();
    let message = String::from_utf8(failed.stderr).unwrap();
    assert!(message.contains("200 of 200 nodes did not start") && message.contains("no route"), "{message}");
    assert!(!message.contains("Too many open files"), "{message}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let Some(place) = Place::with_views() else { return };
    let (job, shell) = ("port", remote_shell(&place));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut arguments = vec!["up", "--nodes", "127.0.0.1", "--remote-shell", &shell, "--job", job, "--port", &port];
    let source = place.source();
    arguments.extend(["--export", &source]);
    let message = place.fails(1, &arguments);
    assert!(message.contains(&port) && message.contains("--port"), "{message}");
    place.assert_clean();
}

#[test]
fn a_node_by_hand_speaks_one_line_and_ends_on_a_signal() {
    let Some(place) = Place::with_views() else { return };
    let job = "by-hand";
    let source = place.source();
    let port = free_ports(1)[0];
    let key = place.path("key");
    fs::write(&key, [7; 32]).unwrap();
    let arguments = ["node", "--hostfile", "-", "--rank", "0", "--job", job, "--view", "view", "--export", &source];
    let arguments = [&arguments[..], &["--key", key.to_str().unwrap()]].concat();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = place.fails(1, &arguments);
    assert!(refused.contains("others may read it"), "{refused}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let mut child =
        place.command(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "127.0.0.1:{port}").unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(said["ready"]["rank"], 0);
    assert_eq!(said["ready"]["port"], port);
    assert!(place.path(&format!("view{source}/file")).exists());
    assert!(place.json(&["status", "--job", job])["nodes"][0]["state"] == "ready");
    signal(child.id().into(), Signal::INT);
    assert!(child.wait().unwrap().success());
    line.clear();
    assert_eq!(stdout.read_line(&mut line).unwrap(), 0, "{line}");
    assert!(!place.path("view").exists());
    place.assert_clean();
}

#[test]
fn a_node_that_cannot_know_its_place() {
    let place = Place::new();
    fs::write(place.path("hosts"), "elsewhere\n").unwrap();
    let job = "lost";
    for (arguments, part) in [
        (&["node", "--hostfile", "hosts"][..], "is not in the list of nodes; say which it is with --rank"),
        (&["node", "--hostfile", "hosts", "--rank", "1"], "rank 1 is not one of the 1 nodes"),
        (&["node"], "no list of nodes: give --hostfile"),
    ] {
        let message = place.fails(1, &[arguments, &["--job", job]].concat());
        assert!(message.contains(part), "{message}");
    }
    place.assert_clean();
}

/// Each host has mounts of its own, so that all may have their view at one place.
fn takes_each_host_of_its_job_once(scheduler: &str, environment: &[(&str, &str)], hosts: &str, job: &str) {
    let Some(place) = Place::with_views() else { return };
    let shell = remote_shell_that(&place, "exec unshare --mount \"$@\"");
    fs::write(place.path("nodes"), "127.0.0.2\n127.0.0.2\n127.0.0.3\n127.0.0.2\n").unwrap();
    let (source, port) = (place.source(), free_ports(1)[0].to_string());
    let in_job = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.envs(environment.iter().copied()).env(hosts, place.path("nodes"));
        command.output().unwrap()
    };
    let doctor = String::from_utf8(in_job(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains(&format!("in the {scheduler} job {job} of 2 hosts")), "{doctor}");
    let in_job = |arguments: &[&str]| {
        let output = in_job(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let view = place.path("view").display().to_string();
    let arguments = ["up", "--json", "--remote-shell", &shell, "--port", &port, "--view", &view, "--export", &source];
    let up = in_job(&arguments);
    assert_eq!(up["job"], job);
    let hosts: Vec<&str> = up["nodes"].as_array().unwrap().iter().map(|node| node["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["127.0.0.2", "127.0.0.3"]);
    for rank in 0..2 {
        let keeper = &place.daemon(job, rank)["process"]["pid"];
        let file = format!("/proc/{keeper}/root{view}{source}/file");
        assert_eq!(fs::read_to_string(file).unwrap(), "contents of file\n");
    }
    assert_eq!(in_job(&["status", "--json"])["nodes"].as_array().unwrap().len(), 2, "the job is found by its number");
    assert_eq!(in_job(&["down", "--json"])["ended"], serde_json::json!([0, 1]));
    place.assert_clean();
}

#[test]
fn a_job_of_pbs_takes_each_of_its_hosts_once() {
    let environment = [("PBS_JOBID", "17[2].a-server.with-a-long.name.in-a-large.site.example.org")];
    takes_each_host_of_its_job_once("PBS", &environment, "PBS_NODEFILE", "17-2-");
}

#[test]
fn a_job_of_lsf_takes_each_of_its_hosts_once() {
    let environment = [("LSB_JOBID", "18"), ("LSB_JOBINDEX", "3")];
    takes_each_host_of_its_job_once("LSF", &environment, "LSB_DJOB_HOSTFILE", "18-3");
}
