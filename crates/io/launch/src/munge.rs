//! The job's key on its way through a launcher whose connections others may read: sealed by MUNGE, a service that the
//! hosts of a cluster share, so that it is opened only there and only by this user.
//!
//! The programs `munge` and `unmunge` do it; what they are given and what they say goes through pipes, never through
//! arguments. They may hang with their service, so they are given a time, and no more is read of them than they can
//! have to say. A credential is opened once by every node. Nodes that share a `munged` open it several times there,
//! which `munged` calls a replay. That is no danger here: a credential admits nobody, and only its owner can open it.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay_secret::{JobKey, Zeroizing};
use rustix::process::geteuid;

use crate::error::{LaunchError, MungeProblem};
use crate::limits;
use crate::{Process, wait_for_end};

/// How long `munge` and `unmunge` may take: they answer in milliseconds, and a job must not wait for a service that hangs.
const MUNGE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a sealed key can be opened: longer than nodes take to start, with clocks that do not quite agree. After
/// that, what somebody has recorded of it cannot be opened any more.
const MUNGE_TIME_TO_LIVE: Duration = Duration::from_secs(600);

/// Exit status of `unmunge` for a credential that it has opened and that was opened there before
/// (`EMUNGE_CRED_REPLAYED` of munge.h).
const REPLAYED: i32 = 17;

/// Exit statuses of `unmunge` for a credential that is too old and for one of the future. It prints what is in them, and no
/// error (`EMUNGE_CRED_EXPIRED`, `EMUNGE_CRED_REWOUND`).
const EXPIRED: i32 = 15;
const REWOUND: i32 = 16;

/// Whether a key is sealed by MUNGE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeySealing {
    /// If this host has the program `munge`; then its service must answer.
    Auto,
    /// Never.
    Off,
    /// Always, by the service that listens here.
    Socket(PathBuf),
}

/// MUNGE's service on this host.
#[derive(Clone, Debug)]
pub struct Munge {
    socket: Option<PathBuf>,
    timeout: Duration,
}

impl Munge {
    /// The service at this socket, by default where MUNGE was built to have it.
    #[must_use]
    pub fn at(socket: Option<&Path>) -> Self {
        Self { socket: socket.map(Path::to_owned), timeout: MUNGE_TIMEOUT }
    }

    /// The key as text that only this user can read, on hosts with the same MUNGE key, for a few minutes.
    ///
    /// # Errors
    /// `Munge` when the service does not do it.
    pub fn seal(&self, key: &JobKey) -> Result<String, LaunchError> {
        self.try_seal(key).map_err(|source| LaunchError::Munge { doing: "seal", source })
    }

    /// The key in such a text.
    ///
    /// # Errors
    /// `Munge` when the service does not open it, and when somebody else has sealed it.
    pub fn open(&self, sealed: &str) -> Result<JobKey, LaunchError> {
        self.try_open(sealed).map_err(|source| LaunchError::Munge { doing: "open", source })
    }

    fn try_seal(&self, key: &JobKey) -> Result<String, MungeProblem> {
        let own = format!("--restrict-uid={}", geteuid().as_raw());
        let ttl = format!("--ttl={}", MUNGE_TIME_TO_LIVE.as_secs());
        let said = self.run("munge", &[&own, &ttl], key.secret_hex().as_bytes())?;
        let text = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        match said.status.success() {
            true if text.is_empty() => Err(MungeProblem::NotAKey("munge printed nothing")),
            true => Ok(text),
            false => Err(said.refusal()),
        }
    }

    fn try_open(&self, sealed: &str) -> Result<JobKey, MungeProblem> {
        if sealed.len() > limits::MUNGE_BYTES_MAX {
            return Err(MungeProblem::NotAKey("it is too long for a sealed key"));
        }
        let said = self.run("unmunge", &["--numeric", "--keys=UID"], sealed.as_bytes())?;
        if !said.status.success() && said.status.code() != Some(REPLAYED) {
            return Err(said.refusal());
        }
        // Lines about the credential, an empty one, the contents.
        let text = String::from_utf8_lossy(&said.stdout);
        let (about, contents) =
            text.split_once("\n\n").ok_or(MungeProblem::NotAKey("the output of unmunge cannot be read"))?;
        let found = about.lines().find_map(|line| line.strip_prefix("UID:")).unwrap_or("unknown").trim();
        let own = geteuid().as_raw();
        if found.parse() != Ok(own) {
            return Err(MungeProblem::Foreign { found: found.to_owned(), own });
        }
        JobKey::from_hex(contents).ok_or(MungeProblem::NotAKey("what was sealed is not a key"))
    }

    fn run(&self, program: &'static str, arguments: &[&str], input: &[u8]) -> Result<Said, MungeProblem> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.args(self.socket.iter().map(|socket| format!("--socket={}", socket.display())));
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => MungeProblem::NotInstalled(program),
            _ => MungeProblem::NotRun(program, error),
        };
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A pipe holds all of it. A program that does not read it says why.
            stdin.write_all(input).ok();
        }
        listen(child, self.timeout)
            .map_err(|error| MungeProblem::NotRun(program, error))?
            .ok_or(MungeProblem::Silent(program, self.timeout))
    }
}

/// The output of a program that has ended.
struct Said {
    status: ExitStatus,
    /// Of `unmunge` the key.
    stdout: Zeroizing<Vec<u8>>,
    stderr: Zeroizing<Vec<u8>>,
}

impl Said {
    fn refusal(&self) -> MungeProblem {
        let text = String::from_utf8_lossy(&self.stderr);
        MungeProblem::Refused(match (text.trim(), self.status.code()) {
            ("", Some(EXPIRED)) => {
                "it has expired: it is older than 10 minutes, or the hosts' clocks disagree".to_owned()
            }
            ("", Some(REWOUND)) => "it is of the future: the hosts' clocks disagree".to_owned(),
            ("", _) => format!("it ended by {}", self.status),
            (text, _) => text.to_owned(),
        })
    }
}

/// Reads what `child` says until it ends; `None` when it does not in time, and then it is killed.
fn listen(mut child: Child, timeout: Duration) -> std::io::Result<Option<Said>> {
    let deadline = Instant::now() + timeout;
    let process = Process::of(child.id());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (sender, read) = channel();
    // Not joined: something else that has inherited the pipes may keep them open.
    std::thread::spawn(move || sender.send((bounded(stdout), bounded(stderr))));
    let said = read.recv_timeout(timeout).ok();
    let running = wait_for_end(process.as_slice(), if said.is_some() { deadline } else { Instant::now() });
    if !running.is_empty() {
        child.kill()?;
    }
    let status = child.wait()?;
    Ok(said.filter(|_| running.is_empty()).map(|(stdout, stderr)| Said { status, stdout, stderr }))
}

fn bounded(stream: Option<impl Read>) -> Zeroizing<Vec<u8>> {
    // As long as it can be: what grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(limits::MUNGE_BYTES_MAX));
    if let Some(stream) = stream {
        // Bytes that were read before an error are judged as they are.
        stream.take(limits::MUNGE_BYTES_MAX as u64).read_to_end(&mut bytes).ok();
    }
    bytes
}

#[cfg(test)]
#[path = "munge_tests.rs"]
mod tests;
