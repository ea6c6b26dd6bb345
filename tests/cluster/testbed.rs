//! The test bed and a job on it.
//!
//! Every node has a `/tmp` of its own, as real hosts have, so that the daemons' records and views do not meet. The
//! command, the host file and the remote shell lie beside the test bed, where all nodes see them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_tests::job::{binary, running};
use forebay_tests::program::{Finished, file_of_tests, run};
use forebay_tests::{Sandbox, tree};
use serde_json::Value;

/// One test bed at a time: its addresses are fixed, and two cores have enough to do with one.
static ONE: Mutex<()> = Mutex::new(());

/// The first node's address; the others follow.
const FIRST_ADDRESS: usize = 10;

/// A file server and client nodes, up until dropped.
pub struct Testbed {
    sandbox: Sandbox,
    /// In memory, so that taking it down is quick.
    shared: PathBuf,
    nodes: usize,
    name: String,
    _one: MutexGuard<'static, ()>,
}

impl Testbed {
    /// `nodes` clients over a file system that holds, as directory `name`, what `build` puts into a directory.
    pub fn up(nodes: usize, name: &str, build: impl FnOnce(&Path)) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let sandbox = Sandbox::new();
        let shared = PathBuf::from(format!("/dev/shm/forebay-testbed-{}", std::process::id()));
        std::fs::create_dir(&shared).unwrap();
        let testbed = Self { sandbox, shared, nodes, name: name.to_owned(), _one: one };
        forebay_tests::program::copy_program(&binary(), &testbed.command());
        testbed.write_shell();
        testbed.script(&["up", "--clients", &nodes.to_string(), "--rate", "none"]);
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

    /// A remote shell as `up --remote-shell` wants it, from a node's address to its namespaces.
    fn write_shell(&self) {
        let hosts: String = (0..self.nodes).map(|node| format!("10.66.0.{}\n", FIRST_ADDRESS + node)).collect();
        tree::write(&self.shared.join("hosts"), hosts.as_bytes());
        let text = format!(
            "#!/bin/sh\naddress=$1; shift 2; cd /\nexport PFS_STATE='{}' PFS_PREFIX='{}'\n\
             exec '{}' exec \"n$((${{address##*.}} - {FIRST_ADDRESS}))\" -- sh -c \"$*\"\n",
            self.state().display(),
            self.prefix(),
            self.shared.join("pfs-testbed.sh").display(),
        );
        let script = file_of_tests("testbed/pfs-testbed.sh");
        forebay_tests::program::copy_program(&script, &self.shared.join("pfs-testbed.sh"));
        tree::write(&self.shared.join("shell"), text.as_bytes());
        for name in ["shell", "pfs-testbed.sh"] {
            std::fs::set_permissions(self.shared.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn state(&self) -> PathBuf {
        self.shared.join("state")
    }

    fn prefix(&self) -> String {
        format!("t{}-", std::process::id() % 100_000)
    }

    fn command(&self) -> PathBuf {
        self.shared.join("forebay")
    }

    /// The exported directory, on every node.
    pub fn source(&self) -> PathBuf {
        self.state().join("pfs").join(&self.name)
    }

    fn scripted(&self, arguments: &[&OsStr]) -> Finished {
        let mut script = Command::new(self.shared.join("pfs-testbed.sh"));
        self.sandbox.surround(&mut script);
        script.env("PFS_STATE", self.state()).env("PFS_PREFIX", self.prefix()).env_remove("XDG_RUNTIME_DIR");
        run(script.current_dir("/").args(arguments))
    }

    /// Runs the test bed's script.
    #[track_caller]
    pub fn script(&self, arguments: &[&str]) -> String {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        self.scripted(&arguments).good().text()
    }

    /// Runs a command on a node.
    pub fn on(&self, node: usize, command: &[&OsStr]) -> Finished {
        let node = format!("n{node}");
        let fixed: [&OsStr; 3] = ["exec".as_ref(), node.as_ref(), "--".as_ref()];
        self.scripted(&[&fixed, command].concat())
    }

    /// A file that stands for the mount namespace of a node.
    pub fn namespace(&self, node: usize) -> PathBuf {
        self.state().join(format!("ns/n{node}.mnt"))
    }

    /// Requests at the server by kind, since it started.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let printed = self.script(&["metrics"]);
        let counts = printed.lines().filter_map(|line| line.split_once(' '));
        let kinds = counts.filter(|(kind, _)| !["TOTAL", "SENT_BYTES"].contains(kind));
        kinds.map(|(kind, count)| (kind.to_owned(), count.parse().unwrap())).collect()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let ended = self.scripted(&["down".as_ref()]);
        let _ = std::fs::remove_dir_all(&self.shared);
        if !ended.status.success() && !std::thread::panicking() {
            panic!("the test bed does not go down: {}", ended.stderr);
        }
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

    /// What it runs on.
    pub fn testbed(&self) -> &Testbed {
        self.testbed.as_ref().unwrap()
    }

    /// The daemon of a node, as it was started.
    pub fn pid(&self, node: usize) -> u32 {
        self.pids[node]
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
        serde_json::from_slice(&self.forebay("status", &["--json".as_ref()]).good().stdout).unwrap()
    }

    /// Takes the job down and checks that nothing of it is left on any node.
    #[track_caller]
    pub fn down(mut self) -> Testbed {
        let _ = self.forebay("down", &[]).good();
        let testbed = self.testbed.take().unwrap();
        for node in 0..testbed.nodes {
            let look = format!("grep '^forebay:{} ' /proc/self/mounts; ls -A /tmp", testbed.sandbox.name);
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
