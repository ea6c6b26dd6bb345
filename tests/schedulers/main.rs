//! Under a real scheduler: a private Slurm on this machine (`crates/harness/testkit/testbed/slurm-up.sh`), each of its nodes with a host
//! name, an address and mounts of its own.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command as Program;
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_tests::job::{binary, running};
use forebay_tests::program::{Finished, file_of_tests, run};
use forebay_tests::{Sandbox, require, tree};

const NODES: usize = 4;

/// A Slurm that is down when dropped.
struct Slurm {
    sandbox: Sandbox,
    /// A copy of the command, by whose path its daemons are known.
    command: PathBuf,
    /// Of its script, beside what is the same for all.
    environment: Vec<(&'static str, PathBuf)>,
    /// Among those of this process.
    number: u32,
    /// The first of its ports.
    port: u32,
}

/// The controller and its nodes have a port each, one after the other.
const PORTS: u32 = 8;

/// Where its ports lie: neither where Forebay's daemons listen nor where the kernel chooses ports.
const FIRST_PORT: u32 = 10_000;
const SETS_OF_PORTS: u32 = 1200;

/// No test submits as many jobs.
const JOBS: u32 = 50;

/// The first of `PORTS` ports at which no program listens.
fn free_ports(start: u32) -> u32 {
    let is_free = |port: u32| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port as u16)).is_ok();
    let mut sets = (0..SETS_OF_PORTS).map(|set| FIRST_PORT + (start + set) % SETS_OF_PORTS * PORTS);
    sets.find(|first| (*first..first + PORTS).all(is_free)).expect("ports that are free")
}

impl Slurm {
    fn up() -> Self {
        Self::with_topology("")
    }

    /// One with more settings of its script.
    fn with(environment: &[(&'static str, PathBuf)]) -> Self {
        Self::start("", environment.to_vec())
    }

    /// One whose network has switches, as Slurm's `topology.conf` describes them.
    fn with_topology(switches: &str) -> Self {
        Self::start(switches, vec![])
    }

    fn start(switches: &str, environment: Vec<(&'static str, PathBuf)>) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let sandbox = Sandbox::new();
        // Slurm's daemons and munge insist on directories that others may enter.
        fs::set_permissions(sandbox.base(), Permissions::from_mode(0o755)).unwrap();
        let command = sandbox.base().join("forebay");
        forebay_tests::program::copy_program(&binary(), &command);
        if !switches.is_empty() {
            tree::write(&sandbox.base().join("topology.conf"), switches.as_bytes());
        }
        let slurm = Self { sandbox, command, environment, number, port: free_ports(std::process::id() + 101 * number) };
        let up = slurm.script(&["up", &NODES.to_string()]);
        assert!(up.status.success(), "{}", fs::read_to_string(slurm.log()).unwrap_or_default());
        slurm
    }

    fn state(&self) -> PathBuf {
        self.sandbox.base().join("slurm")
    }

    fn script(&self, arguments: &[&str]) -> Finished {
        let mut shell = Program::new("sh");
        self.surround(&mut shell);
        // Its daemons would keep a pipe open, so that reading it would never end.
        shell.args(["-c", "log=$1; shift; exec bash \"$@\" >>\"$log\" 2>&1", "sh"]).arg(self.log());
        run(shell.arg(file_of_tests("../crates/harness/testkit/testbed/slurm-up.sh")).args(arguments))
    }

    fn log(&self) -> PathBuf {
        self.sandbox.base().join("script.log")
    }

    fn surround(&self, program: &mut Program) {
        self.sandbox.surround(program);
        // Neither its ports nor its jobs' numbers, by which go their ports and directories, are those of another Slurm here.
        let pid = std::process::id();
        let first_job = pid % 60_000 * 1000 + self.number % (1000 / JOBS) * JOBS + 1;
        program.env("FB_SLURM", self.state()).env("FB_SLURM_PORT", self.port.to_string()).env_remove("XDG_RUNTIME_DIR");
        program.env("FB_SLURM_FIRST_JOB", first_job.to_string());
        program.env("SLURM_CONF", self.state().join("slurm.conf"));
        // Its munged has a socket of its own.
        program.env("FOREBAY_MUNGE", self.state().join("munge/sock"));
        program.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let topology = self.sandbox.base().join("topology.conf");
        if topology.exists() {
            program.env("FB_SLURM_TOPOLOGY", topology);
        }
    }

    /// Runs a job's script on all nodes; `$forebay` is the command, `$source` what is to be exported, `$view` the view.
    fn batch(&self, script: &str) -> Finished {
        let mut salloc = Program::new("salloc");
        self.surround(&mut salloc);
        salloc.env("forebay", &self.command).env("source", self.sandbox.source()).env("view", self.sandbox.view());
        run(salloc.args(["--quiet", &format!("--nodes={NODES}"), "sh", "-euc", script]))
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let ended = self.script(&["down"]);
        if !std::thread::panicking() {
            assert!(ended.status.success(), "{}", fs::read_to_string(self.log()).unwrap_or_default());
            assert_eq!(running(&self.command), [] as [u32; 0], "daemons of the job");
        }
    }
}

macro_rules! require_slurm {
    () => {
        require!(
            Root,
            Fuse,
            Command("slurmctld"),
            Command("slurmd"),
            Command("munged"),
            Command("munge"),
            Command("unmunge"),
            Command("salloc"),
            Command("sbatch"),
            Command("srun")
        )
    };
}

mod batch;
mod directives;
mod epilog;
mod epilog_limits;
mod failures;
mod init;
mod launchers;
mod lsf;
mod own_paths;
mod requeue;
mod sealed_key;
mod stage;
mod stores;
mod topology;

#[test]
fn up_takes_the_nodes_of_the_allocation() {
    require_slurm!();
    let slurm = Slurm::up();
    tree::write(&slurm.sandbox.source().join("file"), b"hello\n");
    let script = r#"
        "$forebay" up --export "$source" --view "$view" --fanout 2 >&2
        srun --overlap --ntasks-per-node=1 sh -c 'echo "$(hostname) $(cat "$view$source/file")"'
        "$forebay" status --json
        "$forebay" down >&2
        srun --overlap --ntasks-per-node=1 sh -c '! grep "^forebay:" /proc/self/mounts | grep " $view "' >&2
    "#;
    let printed = slurm.batch(script).good().text();
    let (seen, status) = printed.split_at(printed.find('{').unwrap());
    let seen: BTreeSet<&str> = seen.lines().collect();
    assert_eq!(seen, BTreeSet::from(["n1 hello", "n2 hello", "n3 hello", "n4 hello"]));
    let status: serde_json::Value = serde_json::from_str(status).unwrap();
    let hosts: Vec<_> = status["nodes"].as_array().unwrap().iter().map(|node| node["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["n1", "n2", "n3", "n4"], "ranks are in the order of the allocation");
    assert_eq!(slurm.sandbox.left(), Vec::<String>::new());
}

/// A job that forgets `down`, or is cancelled: the scheduler ends the daemons, and nothing stays mounted.
#[test]
fn the_end_of_the_allocation_is_the_end_of_the_tier() {
    require_slurm!();
    let slurm = Slurm::up();
    tree::write(&slurm.sandbox.source().join("file"), b"hello\n");
    let script = r#""$forebay" up --export "$source" --view "$view" >&2; cat "$view/gone" || true"#;
    let _ = slurm.batch(script).good();
    let gone = || running(&slurm.command).is_empty();
    forebay_tests::program::wait_until("the daemons end with the job", std::time::Duration::from_secs(20), gone);
    // On the nodes, not here: the next job looks.
    let look = slurm.batch(
        r#"srun --ntasks-per-node=1 sh -c 'grep " $view " /proc/self/mounts; ls -A "$view" 2>/dev/null' || true"#,
    );
    assert_eq!(look.good().text(), "", "a view is left on a node");
}

#[test]
fn an_export_that_is_missing_on_the_nodes_is_told_once() {
    require_slurm!();
    let slurm = Slurm::up();
    let done = slurm.batch(r#""$forebay" up --export "$source/nowhere" --view "$view""#);
    assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("/source/nowhere") && done.stderr.contains("o such file"), "{}", done.stderr);
    assert_eq!(slurm.sandbox.left(), Vec::<String>::new());
    assert_eq!(running(&slurm.command), [] as [u32; 0]);
}
