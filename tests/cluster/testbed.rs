//! The test bed and a job on it.
//!
//! Every node has a `/tmp` of its own, as real hosts have, so that the daemons' records and views do not meet. The
//! command, the host file and the remote shell lie in the test bed's own directory, where all nodes see them, and go with it.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_testkit::testbed::{Testbed as Bed, Traffic};
use forebay_tests::job::{binary, running};
use forebay_tests::program::{Finished, file_of_tests, run};
use forebay_tests::{Sandbox, tree};
use serde_json::Value;

use crate::turn::{Kind, Turn};

/// The first node's address; the others follow.
const FIRST_ADDRESS: usize = 10;

/// Requests that the server works on at once.
const AT_ONCE: u32 = 16;

/// A file server and client nodes, up until dropped.
pub struct Testbed {
    /// There until it is dropped.
    bed: Option<Bed>,
    sandbox: Sandbox,
    /// The directory that all nodes see.
    shared: PathBuf,
    name: String,
    /// None while it is handed on.
    turn: Option<Turn>,
}

impl Testbed {
    /// `nodes` clients over a file system that holds, as directory `name`, what `build` puts into a directory. Whatever has the
    /// same name is the same. One that another test has handed on knows nothing of the files either.
    pub fn up(nodes: usize, name: &str, build: impl FnOnce(&Path)) -> Self {
        let (turn, left) = Turn::take(&(nodes, name.to_owned()));
        if let Some(mut testbed) = left {
            testbed.turn = Some(turn);
            let _ = testbed.script(&["remount"]);
            return testbed;
        }
        let bed = Bed::up(&file_of_tests("../crates/harness/testkit/testbed/pfs-testbed.sh"), nodes, AT_ONCE).unwrap();
        let shared = bed.state().join("shared");
        std::fs::create_dir(&shared).unwrap();
        let testbed = Self { bed: Some(bed), sandbox: Sandbox::new(), shared, name: name.to_owned(), turn: Some(turn) };
        forebay_tests::program::copy_program(&binary(), &testbed.command());
        testbed.write_shell();
        build(&testbed.sandbox.source());
        let (from, to) = (testbed.sandbox.source(), testbed.source());
        let _ = testbed.on(0, &["cp".as_ref(), "-aT".as_ref(), from.as_ref(), to.as_ref()]).good();
        // The client that wrote shows times of change as it remembers them for a second; a job that begins within it
        // would list those, and find other ones when it opens the files.
        let _ = testbed.script(&["remount", "n0"]);
        for node in 0..nodes {
            let _ = testbed.on(node, &["mount", "-t", "tmpfs", "none", "/tmp"].map(OsStr::new)).good();
        }
        testbed
    }

    /// Leaves it as it is to another test, if one waits for the like of it.
    pub fn hand_on(mut self) {
        let kind: Kind = (self.bed().nodes(), self.name.clone());
        if let Some(turn) = self.turn.take() {
            drop(turn.hand_on(kind, self));
        }
    }

    /// A remote shell as `up --remote-shell` wants it, from a node's address to its namespaces.
    fn write_shell(&self) {
        let hosts: String = (0..self.bed().nodes()).map(|node| format!("10.66.0.{}\n", FIRST_ADDRESS + node)).collect();
        tree::write(&self.shared.join("hosts"), hosts.as_bytes());
        let variables = self.bed().environment().map(|(name, value)| format!("{name}='{}'", value.to_string_lossy()));
        let text = format!(
            "#!/bin/sh\naddress=$1; shift 2; cd /\nexport {}\n\
             exec {} \"n$((${{address##*.}} - {FIRST_ADDRESS}))\" -- sh -c \"$*\"\n",
            variables.join(" "),
            self.bed().shell(),
        );
        let shell = self.shared.join("shell");
        tree::write(&shell, text.as_bytes());
        std::fs::set_permissions(shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn bed(&self) -> &Bed {
        self.bed.as_ref().unwrap()
    }

    fn command(&self) -> PathBuf {
        self.shared.join("forebay")
    }

    /// The exported directory, on every node.
    pub fn source(&self) -> PathBuf {
        self.bed().files().join(&self.name)
    }

    fn run(&self, mut command: Command) -> Finished {
        self.sandbox.surround(&mut command);
        run(command.env_remove("XDG_RUNTIME_DIR").current_dir("/"))
    }

    /// Runs the test bed's script.
    #[track_caller]
    pub fn script(&self, arguments: &[&str]) -> String {
        self.run(self.bed().command(arguments)).good().text()
    }

    /// Runs a command on a node.
    pub fn on(&self, node: usize, command: &[&OsStr]) -> Finished {
        self.run(self.bed().place(node).command(command))
    }

    /// A file that stands for the mount namespace of a node.
    pub fn namespace(&self, node: usize) -> PathBuf {
        self.bed().state().join(format!("ns/n{node}.mnt"))
    }

    /// The server's counts since it started.
    pub fn traffic(&self) -> Traffic {
        self.bed().traffic().unwrap()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let state = self.bed().state().to_owned();
        drop(self.bed.take());
        assert!(!state.exists() || std::thread::panicking(), "the test bed in {} does not go down", state.display());
    }
}

/// A job on all nodes of a test bed; down when dropped.
pub struct Cluster {
    /// There until the job is down.
    testbed: Option<Testbed>,
    /// The daemons' processes, by rank.
    pids: Vec<u32>,
}

impl Cluster {
    /// Starts it, fan-out 2, with more options.
    #[track_caller]
    pub fn up(testbed: Testbed, options: &[&str]) -> Self {
        let (hosts, shell) = (testbed.shared.join("hosts"), testbed.shared.join("shell"));
        let source = testbed.source();
        let mut cluster = Self { testbed: Some(testbed), pids: Vec::new() };
        let mut arguments: Vec<&OsStr> =
            vec!["--hostfile".as_ref(), hosts.as_ref(), "--export".as_ref(), source.as_ref()];
        arguments.extend([OsStr::new("--remote-shell"), shell.as_ref(), "--view".as_ref(), "/tmp/view".as_ref()]);
        arguments.extend(["--fanout", "2"].map(OsStr::new));
        arguments.extend(options.iter().map(OsStr::new));
        let _ = cluster.forebay("up", &arguments).good();
        let status = cluster.status();
        let nodes = status["nodes"].as_array().unwrap().iter();
        cluster.pids = nodes.map(|node| node["pid"].as_u64().unwrap().try_into().unwrap()).collect();
        cluster
    }

    /// The testbed that it runs on.
    pub fn testbed(&self) -> &Testbed {
        self.testbed.as_ref().unwrap()
    }

    /// The daemon of a node, as it was started.
    pub fn pid(&self, node: usize) -> u32 {
        self.pids[node]
    }

    /// The nodes that go past a node, by rank, among those that tell.
    pub fn bypassing(&self, node: usize) -> Vec<usize> {
        let asked = self.forebay("status", &["--json".as_ref()]);
        let status: Value = serde_json::from_slice(&asked.stdout).unwrap_or_default();
        let nodes = status["nodes"].as_array().into_iter().flatten().enumerate();
        let has = |other: &Value| other["bypassed"].as_array().is_some_and(|ranks| ranks.contains(&node.into()));
        nodes.filter(|(_, other)| has(other)).map(|(rank, _)| rank).collect()
    }

    /// The daemon of a node, as it is now; nothing while it is not there.
    pub fn pid_now(&self, node: usize) -> Option<u32> {
        let asked = self.forebay("status", &["--json".as_ref()]);
        let status: Value = serde_json::from_slice(&asked.stdout).ok()?;
        status["nodes"][node]["pid"].as_u64()?.try_into().ok()
    }

    /// `forebay NAME` for this job, from outside the nodes: a front end that reaches them by the remote shell alone.
    pub fn forebay(&self, name: &str, arguments: &[&OsStr]) -> Finished {
        let mut command = Command::new(self.testbed().command());
        self.testbed().sandbox.surround(&mut command);
        run(command.args([name, "--job", &self.testbed().sandbox.name]).args(arguments))
    }

    /// Where every node shows the file at the absolute path `source`.
    pub fn view(&self, source: &Path) -> PathBuf {
        Path::new("/tmp/view").join(source.strip_prefix("/").unwrap())
    }

    /// `forebay status --json`.
    pub fn status(&self) -> Value {
        serde_json::from_slice(&self.forebay("status", &["--json".as_ref()]).stdout).unwrap()
    }

    /// Takes the job down and checks that nothing of it is left on any node.
    #[track_caller]
    pub fn down(mut self) -> Testbed {
        let _ = self.forebay("down", &[]).good();
        let testbed = self.testbed.take().unwrap();
        for node in 0..testbed.bed().nodes() {
            let look = format!("grep '^forebay:{}/' /proc/self/mounts; ls -A /tmp", testbed.sandbox.name);
            let left = testbed.on(node, &["sh".as_ref(), "-c".as_ref(), look.as_ref()]).text();
            assert_eq!(left, "", "left on node {node}");
        }
        assert_eq!(testbed.sandbox.left(), Vec::<String>::new());
        assert_eq!(running(&testbed.command()), [] as [u32; 0], "daemons");
        testbed
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.testbed.is_some() {
            let _ = self.forebay("down", &[]);
        }
    }
}
