//! Access to a job: where its key is and is not, and who may speak to its daemons.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::hosts::{free_ports, remote_shell_that};
use crate::place::{Place, signal};

/// Where a secret must not be: the environment and the arguments of a process, the files below a directory.
fn places_of(pid: u64, directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let process = |name: &str| (format!("{name} of {pid}"), fs::read(format!("/proc/{pid}/{name}")).unwrap());
    let mut places = BTreeMap::from([process("environ"), process("cmdline")]);
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_file() {
                places.insert(entry.path().display().to_string(), fs::read(entry.path()).unwrap());
            } else if kind.is_dir() && entry.file_name() != "view" {
                pending.push(entry.path());
            }
        }
    }
    places
}

fn assert_nowhere(secret: &[u8], places: &BTreeMap<String, Vec<u8>>) {
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    for (place, contents) in places {
        let holds = |what: &[u8]| contents.windows(what.len()).any(|window| window == what);
        assert!(!holds(secret) && !holds(hex.as_bytes()), "the key is in {place}");
    }
}

/// The memory in which a keeper has the key.
fn key_memory(pid: u64) -> PathBuf {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(Result::unwrap);
    let is_key = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("forebay-key"));
    descriptors.map(|entry| entry.path()).find(is_key).expect("a keeper has the key")
}

#[test]
fn the_key_of_local_nodes_is_in_memory_alone() {
    let Some(place) = Place::with_views() else { return };
    let mut keys = vec![];
    for (job, level) in [("auth", "auth"), ("seal", "seal")] {
        place.succeeds(&["up", "--local", "2", "--job", job, "--security", level, "--export", &place.source()]);
        for rank in 0..2 {
            let pid = place.daemon(job, rank)["process"]["pid"].as_u64().unwrap();
            let memory = key_memory(pid);
            assert_eq!(fs::metadata(&memory).unwrap().permissions().mode() & 0o777, 0o600);
            let key = fs::read(memory).unwrap();
            assert_eq!(key.len(), 32);
            assert_nowhere(&key, &places_of(pid, &place.job(job)));
            keys.push(key);
        }
        let status = place.json(&["status", "--job", job]);
        assert_eq!(status["job"]["security"], level);
        assert_eq!(
            (&status["totals"]["overlay"]["refused"], &status["totals"]["overlay"]["checksum_failures"]),
            (&0.into(), &0.into())
        );
        place.succeeds(&["down", "--job", job]);
    }
    assert!(keys[0] == keys[1] && keys[2] == keys[3] && keys[0] != keys[2], "one key a job");
    place.assert_clean();
}

/// The contents of a process's core dump: the memory that it writes to, but for pages marked as not to be dumped.
fn dumped(pid: u64) -> Vec<(String, Vec<u8>)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let (mut found, mut mapping, mut is_there) = (vec![], String::new(), false);
    for line in maps.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "Rss:" => is_there = rest.trim() != "0 kB",
            "VmFlags:" if is_there && mapping.contains(" rw") && !rest.split(' ').any(|flag| flag == "dd") => {
                let range = mapping.split(' ').next().unwrap().split_once('-').unwrap();
                let [start, end] = [range.0, range.1].map(|address| u64::from_str_radix(address, 16).unwrap());
                let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
                // A mapping that cannot be read is in no dump either.
                if memory.read_exact_at(&mut bytes, start).is_ok() {
                    found.push((format!("{mapping} of {pid}"), bytes));
                }
            }
            _ if !first.ends_with(':') => mapping = line.to_owned(),
            _ => {}
        }
    }
    found
}

/// The descriptors of a process that lead to what holds a key.
fn key_descriptors(pid: u64) -> Vec<String> {
    let descriptors =
        fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let names = descriptors.map(|to| to.display().to_string());
    names.filter(|to| ["forebay-key", "forebay-job-spec"].iter().any(|name| to.contains(name))).collect()
}

#[test]
fn no_core_dump_holds_the_key_and_only_keepers_have_its_descriptor() {
    let Some(place) = Place::with_views() else { return };
    let (shell, source, job) = (remote_shell_that(&place, "exec \"$@\""), place.source(), "dump");
    let hosts: String = free_ports(2).iter().map(|port| format!("127.0.0.1:{port}\n")).collect();
    fs::write(place.path("hosts"), hosts).unwrap();
    let far = ["--hostfile", "hosts", "--remote-shell", &shell, "--view", "view"];
    for nodes in [&["--local", "2"][..], &far] {
        place.succeeds(&[&["up", "--job", job, "--export", &source], nodes].concat());
        // They have shaken hands: the key was in use.
        assert_eq!(place.json(&["status", "--job", job])["nodes"][1]["state"], "ready");
        for rank in 0..2 {
            let record = place.daemon(job, rank);
            let [keeper, daemon] = ["process", "daemon"].map(|which| record[which]["pid"].as_u64().unwrap());
            let key = fs::read(key_memory(keeper)).unwrap();
            assert_eq!(key.len(), 32);
            assert_eq!(key_descriptors(keeper).len(), 1, "{:?}", key_descriptors(keeper));
            assert_eq!(key_descriptors(daemon), [] as [String; 0]);
            for pid in [keeper, daemon] {
                assert_nowhere(&key, &dumped(pid).into_iter().collect());
                let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
                let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
                assert_eq!(core.split_whitespace().collect::<Vec<_>>(), ["0", "0", "bytes"]);
            }
        }
        place.succeeds(&["down", "--job", job]);
    }
    place.assert_clean();
}

#[test]
fn the_key_of_other_hosts_goes_through_standard_input_alone() {
    let Some(place) = Place::with_views() else { return };
    let job = "far";
    // The shell records its input, its environment and its arguments, and passes them to the daemon.
    let shell = remote_shell_that(
        &place,
        "cat > \"$0.$$.spec\"; env > \"$0.$$.env\"; echo \"$@\" > \"$0.$$.args\"; exec \"$@\" < \"$0.$$.spec\"",
    );
    let hosts: String = free_ports(2).iter().map(|port| format!("127.0.0.1:{port}\n")).collect();
    fs::write(place.path("hosts"), hosts).unwrap();
    let source = place.source();
    let arguments = ["up", "--hostfile", "hosts", "--remote-shell", &shell, "--job", job, "--view", "view"];
    place.succeeds(&[&arguments[..], &["--export", &source]].concat());
    let seen = |suffix: &str| {
        let own = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().path());
        own.filter(|path| path.to_string_lossy().ends_with(suffix))
            .map(|path| fs::read(path).unwrap())
            .collect::<Vec<_>>()
    };
    let specs = seen(".spec");
    assert_eq!(specs.len(), 2);
    let line = specs[0].split_inclusive(|byte| *byte == b'\n').next().unwrap();
    let line: Value = serde_json::from_slice(line).unwrap();
    let hex = line["key"]["plain"].as_str().unwrap();
    let key: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    for words in [seen(".env"), seen(".args")].concat() {
        assert_nowhere(&key, &BTreeMap::from([("what the shell is called with".to_owned(), words)]));
    }
    for rank in 0..2 {
        let pid = place.daemon(job, rank)["process"]["pid"].as_u64().unwrap();
        assert_nowhere(&key, &places_of(pid, &place.job(job)));
    }
    assert_eq!(fs::read_to_string(place.path(&format!("view/1{source}/file"))).unwrap(), "contents of file\n");
    place.succeeds(&["down", "--job", job]);
    place.assert_clean();
}

#[test]
fn off_is_said_aloud_and_a_level_without_a_key_is_refused() {
    let Some(place) = Place::with_views() else { return };
    let output = place.run(&["up", "--local", "2", "--job", "off", "--security", "off", "--export", &place.source()]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning: --security off"), "{output:?}");
    assert_eq!(place.json(&["status", "--job", "off"])["job"]["security"], "off");
    place.succeeds(&["down", "--job", "off"]);
    fs::write(place.path("hosts"), "127.0.0.1\n").unwrap();
    let message = place.fails(1, &["node", "--hostfile", "hosts", "--rank", "0", "--job", "keyless"]);
    assert!(message.contains("give --key FILE") && message.contains("--security off"), "{message}");
    place.assert_clean();
}

#[test]
fn refused_connections_are_counted() {
    let Some(place) = Place::with_views() else { return };
    let up = place.json(&["up", "--local", "2", "--job", "port", "--export", &place.source()]);
    let port = u16::try_from(up["nodes"][0]["port"].as_u64().unwrap()).unwrap();
    for _ in 0..3 {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        connection.shutdown(Shutdown::Write).unwrap();
        assert_eq!(connection.read_to_end(&mut vec![]).unwrap(), 0, "not a word");
    }
    crate::place::wait_until("they are counted", || {
        place.json(&["status", "--job", "port"])["nodes"][0]["overlay"]["refused"] == 3
    });
    assert!(place.succeeds(&["status", "--job", "port"]).contains("refused      3 connections;"));
    let log = fs::read_to_string(place.job("port").join("logs/node-0.log")).unwrap();
    assert_eq!(log.matches("a connection was refused").count(), 1, "{log}");
    place.succeeds(&["down", "--job", "port"]);
    place.assert_clean();
}

/// Even where the directories were opened by mistake, the daemon looks at who connects.
#[test]
fn another_user_gets_nothing_from_the_control_socket() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--job", "own", "--export", &place.source()]);
    let socket = place.job("own").join("node-0.sock");
    for path in [place.path(""), place.path("run"), place.job("own")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o711)).unwrap();
    }
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let ask = |socket: PathBuf, uid: u32| {
        std::thread::spawn(move || {
            let user = rustix::fs::Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            let mut stream = UnixStream::connect(socket).unwrap();
            // It may be closed before this is written.
            let _ = std::io::Write::write_all(&mut stream, b"{\"command\":\"status\"}\n");
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer
        })
        .join()
        .unwrap()
    };
    assert_eq!(ask(socket.clone(), 65_534), "", "another user");
    assert!(ask(socket, 0).contains("\"ok\""), "the user himself");
    for path in [place.path("run"), place.job("own")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    place.succeeds(&["down", "--job", "own"]);
    place.assert_clean();
}

/// A directory that others may enter, or that is another user's, is not used by any command.
#[test]
fn a_jobs_directory_that_is_not_private_is_refused() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--job", "open", "--export", &place.source()]);
    let set = |mode: u32| fs::set_permissions(place.job("open"), fs::Permissions::from_mode(mode)).unwrap();
    set(0o711);
    for command in ["status", "down"] {
        let message = place.fails(1, &[command, "--job", "open"]);
        assert!(message.contains("others may enter it"), "{message}");
    }
    set(0o700);
    std::os::unix::fs::chown(place.job("open"), Some(65_534), None).unwrap();
    let message = place.fails(1, &["status", "--job", "open"]);
    assert!(message.contains("belongs to user 65534"), "{message}");
    std::os::unix::fs::chown(place.job("open"), Some(0), None).unwrap();
    place.succeeds(&["down", "--job", "open"]);
    place.assert_clean();
}

/// Another user makes the directory of this user's jobs first, with a job in it. In a `/tmp` of the test's own: the name is
/// that of all jobs of this user.
#[test]
fn another_user_who_takes_the_place_of_jobs_keeps_none_from_starting() {
    let Some(place) = Place::with_views() else { return };
    fs::create_dir(place.path("tmp")).unwrap();
    fs::set_permissions(place.path("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    remote_shell_that(&place, "exec \"$@\"");
    fs::copy(place.path("rsh"), place.path("tmp/rsh")).unwrap();
    // The command itself may lie below the real /tmp.
    let script = r#"
        cp "$2" "$1/tmp/forebay"
        mount --bind "$1/tmp" /tmp
        cd /
        planted() { mkdir -p /tmp/forebay-0/$1; chown -R 65534 /tmp/forebay-0; }
        planted local
        /tmp/forebay up --job local --export /etc
        /tmp/forebay status --job local
        /tmp/forebay run --job local -- cat /etc/hostname
        ls -d /tmp/forebay-0.*/local
        /tmp/forebay down --job local
        planted far
        /tmp/forebay up --job far --export /etc --nodes 127.0.0.1 --port "$3" --remote-shell /tmp/rsh
        /tmp/forebay status --job far
        rm -r /tmp/forebay-0
        /tmp/forebay status --job far
        /tmp/forebay down --job far
        left() { ls /tmp | grep -vx -e rsh -e forebay; }
        ! left >&2
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-euc", script, "sh"]);
    command.arg(place.path("")).arg(env!("CARGO_BIN_EXE_forebay")).arg(free_ports(1)[0].to_string());
    for (name, _) in
        std::env::vars().filter(|(name, _)| ["FOREBAY_", "SLURM", "XDG_"].iter().any(|start| name.starts_with(start)))
    {
        command.env_remove(name);
    }
    let output = command.env("FOREBAY_PROFILE", "off").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stdout));
    assert!(said.contains("another user owns /tmp/forebay-0; the job's files are below /tmp/forebay-0."), "{said}");
    place.assert_clean();
}

/// Where the program `munge` is; `None`, said aloud, where it is not.
fn munge_program() -> Option<&'static str> {
    let program = ["/usr/bin/munge", "/bin/munge"].into_iter().find(|path| Path::new(path).exists());
    if program.is_none() {
        assert!(std::env::var_os("CI").is_none(), "needs munge");
        println!("skipped: needs the command munge");
    }
    program
}

/// An allocation of a stand-in for Slurm, with the real program `munge`, which asks the service at `socket`.
struct Allocation<'a> {
    place: &'a Place,
    programs: PathBuf,
}

impl<'a> Allocation<'a> {
    fn new(place: &'a Place, munge: &str, socket: &Path) -> Self {
        let programs = place.path("programs");
        fs::create_dir(&programs).unwrap();
        let script = |name: &str, does: &str| {
            fs::write(programs.join(name), format!("#!/bin/sh\n{does}\n")).unwrap();
            fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        script("munge", &format!("exec {munge} --socket={} \"$@\"", socket.display()));
        // A call to end nodes has no job spec.
        script("srun", &format!("case \"$*\" in *\"--job-spec -\") cat >{}/heard ;; esac", programs.display()));
        Self { place, programs }
    }

    /// The exit status of `up` and what it says.
    fn up(&self, more: &[&str]) -> (Option<i32>, String) {
        let path = format!("{}:{}", self.programs.display(), std::env::var("PATH").unwrap());
        let source = self.place.source();
        let mut command = self.place.command(&[&["up", "--export", &source], more].concat());
        command.env("PATH", path).env("SLURM_JOB_ID", "77").env("SLURM_JOB_NODELIST", "n1");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// Whether a job spec was sent.
    fn was_sent(&self) -> bool {
        self.programs.join("heard").exists()
    }
}

#[test]
fn a_munged_that_does_not_answer_ends_the_start() {
    let Some(place) = Place::with_views() else { return };
    let Some(munge) = munge_program() else { return };
    let allocation = Allocation::new(&place, munge, &place.path("nowhere"));
    let (code, said) = allocation.up(&[]);
    assert!(!allocation.was_sent(), "the key was sent as it is: {said}");
    assert_eq!(code, Some(1), "{said}");
    for part in ["cannot seal the job's key by MUNGE", "nowhere", "start munged on this host", "--munge off"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let (_, said) = allocation.up(&["--munge", "off", "--wait-timeout", "5s"]);
    assert!(allocation.was_sent(), "{said}");
    place.assert_clean();
}

/// A real `munged` of the test's own, which ends with it.
struct Munged {
    place: tempfile::TempDir,
    child: Child,
}

impl Munged {
    fn start() -> Option<Self> {
        let program = ["/usr/sbin/munged", "/sbin/munged"].into_iter().find(|path| Path::new(path).exists());
        let Some(program) = program else {
            assert!(std::env::var_os("CI").is_none(), "needs munged");
            println!("skipped: needs the command munged");
            return None;
        };
        let place = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("key"), [1; 1024]).unwrap();
        fs::set_permissions(path("key"), fs::Permissions::from_mode(0o400)).unwrap();
        let mut command = Command::new(program);
        // --force: /tmp is everybody's.
        command.args(["--foreground", "--force"]).arg(format!("--socket={}", path("socket").display()));
        for name in ["key", "pid", "log", "seed"] {
            command.arg(format!("--{name}-file={}", path(name).display()));
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let munged = Self { place, child };
        crate::place::wait_until("munged listens", || UnixStream::connect(munged.socket()).is_ok());
        Some(munged)
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("socket")
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A process that can stop `munged` does not get the key, and the start ends.
#[test]
fn a_munged_that_hangs_ends_the_start_after_ten_seconds() {
    let Some(place) = Place::with_views() else { return };
    let Some(munge) = munge_program() else { return };
    let Some(munged) = Munged::start() else { return };
    let allocation = Allocation::new(&place, munge, &munged.socket());
    signal(munged.child.id().into(), Signal::STOP);
    let (code, said) = allocation.up(&[]);
    assert!(!allocation.was_sent(), "the key was sent as it is: {said}");
    assert_eq!(code, Some(1), "{said}");
    for part in ["cannot seal the job's key by MUNGE", "did not end within 10s"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    signal(munged.child.id().into(), Signal::CONT);
    let (_, said) = allocation.up(&["--wait-timeout", "1s"]);
    assert!(allocation.was_sent(), "{said}");
    place.assert_clean();
}
