//! The test bed: GlusterFS and client nodes in namespaces of their own, by `testbed/pfs-testbed.sh`.
//!
//! The link and the metadata server are slowed only after the files are in place, so that filling takes seconds. A child
//! brings it up, waits for the end of its input, and takes it down: so none stays of a process that is killed, either.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use anyhow::{Context, ensure};
use forebay_trial::{Place, run, stop};

pub use forebay_trial::traffic::{Traffic, grown};

/// How the server is slowed.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Slowness {
    /// The server's link, in the syntax of tc(8).
    pub link: &'static str,
    /// Server time of a metadata request, microseconds.
    pub metadata_us: u32,
    /// Requests that are worked on at once.
    pub at_once: u32,
}

/// The conditions of every figure over GlusterFS: a fast Ethernet of clusters past and a busy metadata server.
pub const BUSY: Slowness = Slowness { link: "1gbit", metadata_us: 2000, at_once: 2 };

/// A test bed that is up; `down` when dropped.
pub struct Testbed {
    script: PathBuf,
    state: PathBuf,
    prefix: String,
    nodes: usize,
    /// The process that holds it up for as long as its input is open.
    holder: Child,
}

/// Brings a test bed up, says so, and takes it down when its input ends, or when there is nobody to be told. Its own and the
/// script's outputs are apart, because servers keep the script's.
const HOLD: &str = r#"
script=$1; shift
"$script" up "$@" </dev/null >/dev/null && (trap '' PIPE; echo up 2>/dev/null) && cat >/dev/null
exec "$script" down </dev/null >/dev/null
"#;

impl Testbed {
    /// Brings up a server and `nodes` clients, not slowed yet. The server's files live in memory, below `/dev/shm`.
    ///
    /// # Errors
    /// When a command, a package or a privilege is missing; the script's message says which.
    pub fn up(script: &Path, nodes: usize, at_once: u32) -> anyhow::Result<Self> {
        let pid = std::process::id();
        let state = PathBuf::from(format!("/dev/shm/forebay-testbed-{pid}"));
        let prefix = format!("fb{}-", pid % 100_000);
        let script = script.canonicalize().with_context(|| format!("there is no {}", script.display()))?;
        let options = ["-n", &nodes.to_string(), "-r", "none", "-t", &at_once.to_string()];
        let holder = hold(&script).args(options).envs(variables(&state, &prefix)).spawn().context("cannot start sh")?;
        let mut testbed = Self { script, state, prefix, nodes, holder };
        testbed.wait_until_up()?;
        std::os::unix::fs::symlink(&testbed.script, testbed.link()).context("cannot link the test bed's script")?;
        Ok(testbed)
    }

    fn wait_until_up(&mut self) -> anyhow::Result<()> {
        let mut said = self.holder.stdout.take().context("a piped child has its pipe")?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut text = [0; 3];
            // The receiver is gone only when the user asked for an end.
            let _ = sender.send(said.read_exact(&mut text).is_ok());
        });
        loop {
            match receiver.recv_timeout(stop::LOOK_EVERY) {
                Ok(is_up) => return is_up.then_some(()).context("the test bed does not come up"),
                Err(RecvTimeoutError::Timeout) => stop::check()?,
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the thread that waits for the test bed is gone"),
            }
        }
    }

    /// The script with `words`.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut argv = vec![self.script.as_os_str()];
        argv.extend(words.iter().map(std::ffi::OsStr::new));
        let mut command = Place::here().command(&argv);
        // A working directory need not be there on a node.
        command.envs(self.environment()).current_dir("/");
        command
    }

    /// Where it is, with its logs; nothing of it is left when the test bed is down.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The variables that tell the script which test bed is meant.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        variables(&self.state, &self.prefix)
    }

    /// From now on slow.
    ///
    /// # Errors
    /// When the script fails.
    pub fn slow_down(&self, slowness: Slowness) -> anyhow::Result<()> {
        run::output(&mut self.command(&["rate", slowness.link]))?;
        run::output(&mut self.command(&["fault", "delay", &slowness.metadata_us.to_string()]))?;
        Ok(())
    }

    /// How many client nodes there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Client node `index`.
    #[must_use]
    pub fn place(&self, index: usize) -> Place {
        let (prefix, state) = (&self.prefix, self.state.display());
        let words = [
            "nsenter".to_owned(),
            format!("--net=/run/netns/{prefix}n{index}"),
            format!("--mount={state}/ns/n{index}.mnt"),
            format!("--uts={state}/ns/n{index}.uts"),
            "--".to_owned(),
        ];
        Place::behind(words.map(OsString::from).to_vec())
    }

    /// The names of the first `count` client nodes.
    #[must_use]
    pub fn names(&self, count: usize) -> Vec<String> {
        (0..count).map(|index| format!("n{index}")).collect()
    }

    /// The command that runs another one on a node, as `forebay up --remote-shell` wants it.
    #[must_use]
    pub fn shell(&self) -> String {
        format!("{} exec", self.link().display())
    }

    /// The script by a path of one word: that of a checkout may have blanks, which divide a remote shell's words.
    fn link(&self) -> PathBuf {
        self.state.join("testbed.sh")
    }

    /// Where the file system is, on every node.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.state.join("pfs")
    }

    /// Copies a file or a directory's contents to `name` in the file system, through node 0's mount.
    ///
    /// # Errors
    /// When copying fails.
    pub fn copy_in(&self, from: &Path, name: &str) -> anyhow::Result<PathBuf> {
        // The working directory on a node is not ours.
        let (from, to) = (from.canonicalize()?, self.files().join(name));
        // `-T`: the copy is called `name` whether `from` is a file or a directory.
        let argv = ["cp".as_ref(), "-aT".as_ref(), from.as_os_str(), to.as_os_str()];
        run::output(&mut self.place(0).command(&argv)).context("filling the test bed")?;
        Ok(to)
    }

    /// Fresh mounts on the first `count` nodes: nothing of the file system is in their caches.
    ///
    /// # Errors
    /// When the script fails.
    pub fn remount(&self, count: usize) -> anyhow::Result<()> {
        let names = self.names(count);
        let mut words = vec!["remount"];
        words.extend(names.iter().map(String::as_str));
        run::output(&mut self.command(&words)).map(drop)
    }

    /// The processes of the file system: its servers, and the clients of all nodes.
    ///
    /// # Errors
    /// When the test bed's state cannot be read.
    pub fn processes(&self) -> anyhow::Result<Vec<u32>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.state.join("run")).context("the test bed's processes")? {
            let path = entry?.path();
            if path.extension().is_some_and(|kind| kind == "pid") {
                let text = std::fs::read_to_string(&path)?;
                found.push(text.trim().parse().with_context(|| format!("no process id in {}", path.display()))?);
            }
        }
        Ok(found)
    }

    /// The server's counts so far.
    ///
    /// # Errors
    /// When the script fails or prints something else than counts.
    pub fn traffic(&self) -> anyhow::Result<Traffic> {
        parse_traffic(&run::output(&mut self.command(&["metrics"]))?)
    }
}

fn hold(script: &Path) -> Command {
    let mut command = Place::here().command(&["sh", "-c", HOLD, "sh"]);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn variables(state: &Path, prefix: &str) -> [(&'static str, OsString); 2] {
    [("PFS_STATE", state.into()), ("PFS_PREFIX", prefix.into())]
}

fn parse_traffic(text: &str) -> anyhow::Result<Traffic> {
    let mut traffic = Traffic::default();
    for line in text.lines() {
        let (kind, count) = line.split_once(' ').with_context(|| format!("not a count: {line}"))?;
        let count = count.parse().with_context(|| format!("not a count: {line}"))?;
        match kind {
            "TOTAL" => {}
            "SENT_BYTES" => traffic.sent_bytes = count,
            _ => drop(traffic.requests.insert(kind.to_lowercase(), count)),
        }
    }
    ensure!(text.contains("TOTAL"), "the server's counters lack their total");
    Ok(traffic)
}

impl Drop for Testbed {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        match self.holder.wait() {
            Ok(status) if status.success() => {}
            outcome => eprintln!("cleaning up: the test bed in {} is not down: {outcome:?}", self.state.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_trial::scratch::Scratch;

    /// A script that writes down how it is called, and where it does.
    fn noting() -> (Scratch, PathBuf) {
        let scratch = Scratch::new(&std::env::temp_dir(), "forebay-holder-test").unwrap();
        let script = scratch.path().join("script");
        // Another process writes it: what this one has open for writing, a child of another test may hold for a moment.
        let write = r#"printf '#!/bin/sh\necho "$*" >>"${0%%/*}/calls"\n' >"$0" && chmod 755 "$0""#;
        run::output(&mut Place::here().command(&["sh".as_ref(), "-c".as_ref(), write.as_ref(), script.as_os_str()]))
            .unwrap();
        (scratch, script)
    }

    #[test]
    fn a_dead_test_leaves_no_test_bed() {
        for is_heard in [true, false] {
            let (scratch, script) = noting();
            let mut holder = hold(&script).arg("-n").spawn().unwrap();
            let mut said = holder.stdout.take().unwrap();
            if is_heard {
                said.read_exact(&mut [0; 3]).unwrap();
            }
            drop((said, holder.stdin.take()));
            assert!(holder.wait().unwrap().success());
            assert_eq!(std::fs::read_to_string(scratch.path().join("calls")).unwrap(), "up -n\ndown\n");
        }
    }

    #[test]
    fn only_what_grew_is_reported() {
        let before = parse_traffic("SENT_BYTES 100\nLOOKUP 5\nOPEN 1\nTOTAL 6").unwrap();
        let after = parse_traffic("SENT_BYTES 350\nLOOKUP 9\nOPEN 1\nREAD 2\nTOTAL 12").unwrap();
        let grown = after.since(&before);
        assert_eq!((grown.total(), grown.sent_bytes), (6, 250));
        assert_eq!(grown.requests.keys().collect::<Vec<_>>(), ["lookup", "read"]);
    }

    #[test]
    fn a_message_is_not_a_count() {
        assert!(parse_traffic("pfs-testbed: server 0 is not running").is_err());
        assert!(parse_traffic("").is_err());
    }
}
