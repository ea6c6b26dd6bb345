//! `node --background`: starts the daemon in a session of its own, relays what it says until the job is up, and ends.
//!
//! A remote shell returns when nobody holds its streams any more. So the daemon gets none of them: its job spec comes
//! through a pipe, its lines go through another, its errors into its log. When nobody listens any more, because `up` has
//! ended, so does this.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, ExitCode, Stdio};

use anyhow::{Context, anyhow};
use forebay_keeper::{take_stdin, tell};
use forebay_launch::{JobDirectory, attach_to_pbs};
use forebay_types::NodeRank;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use crate::cli::NodeArguments;
use crate::job_spec::{JobSpec, read_input, read_key_line};
use crate::output::causes;
use crate::search_path::in_path;

/// Starts the daemon that the job spec on standard input describes.
pub fn run(arguments: &NodeArguments) -> anyhow::Result<ExitCode> {
    let rank = NodeRank(arguments.rank.unwrap_or(0));
    match start(arguments, rank) {
        Ok(code) => Ok(code),
        Err(error) => {
            tell(&json!({"failed": {"rank": rank, "message": causes(&error).join(": ")}}));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn start(arguments: &NodeArguments, rank: NodeRank) -> anyhow::Result<ExitCode> {
    let key = read_key_line().context("standard input is not a job spec of forebay up")?;
    let text = read_input(arguments.job_spec.as_deref().unwrap_or(Path::new("-")))?;
    let spec = JobSpec::parse(&text).context("standard input is not a job spec of forebay up")?;
    let directory = JobDirectory::at(&spec.job_directory)?;
    directory.make_logs()?;
    let log = directory.log(rank);
    let stderr = OpenOptions::new().create(true).append(true).open(&log);
    let stderr = stderr.with_context(|| format!("cannot write the log {}", log.display()))?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut child = Command::new(&program)
        .args(["node", "--session", "--relayed", "--job-spec", "-", "--rank", &rank.to_string()])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let mut stdin = child.stdin.take().context("the daemon has no standard input")?;
    stdin.write_all(&key).and_then(|()| stdin.write_all(&text)).context("cannot pass the job spec to the daemon")?;
    drop((stdin, key));
    drop(take_stdin().context("cannot close standard input")?);
    if let Some(Err(why)) = arguments.pbs_job.as_deref().map(|number| attach_to_pbs(number, child.id(), &in_path)) {
        let message = format!("PBS does not know of the daemon and will not end it with the job: {why}");
        tell(&json!({"note": {"rank": rank, "message": message}}));
    }
    let stdout = child.stdout.take().context("the daemon has no standard output")?;
    match relay(stdout)? {
        Relayed::ToItsEnd | Relayed::ToNobody => return Ok(ExitCode::SUCCESS),
        Relayed::Nothing => {}
    }
    let status = child.wait().context("the daemon is lost")?;
    Err(anyhow!("the daemon ended by {status} without saying why; see {}", log.display()))
}

/// How far it came.
enum Relayed {
    /// The job is up, or the daemon has said why it cannot start.
    ToItsEnd,
    /// The listener is gone.
    ToNobody,
    /// The daemon said neither.
    Nothing,
}

/// Passes lines on.
fn relay(mut from: ChildStdout) -> anyhow::Result<Relayed> {
    let (mut said, mut was_ready) = (Vec::new(), false);
    while somebody_listens(&from)? {
        let mut some = [0; 4096];
        let len = from.read(&mut some).context("the daemon's output cannot be read")?;
        if len == 0 {
            // Ready, it was told to end before the job was up.
            return Ok(if was_ready { Relayed::ToItsEnd } else { Relayed::Nothing });
        }
        said.extend_from_slice(&some[..len]);
        while let Some(end) = said.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = said.drain(..=end).collect();
            let Ok(line) = serde_json::from_slice::<Value>(&line) else { continue };
            if line.get("up").is_some() {
                return Ok(Relayed::ToItsEnd);
            }
            was_ready |= line.get("ready").is_some();
            tell(&line);
            if line.get("failed").is_some() {
                return Ok(Relayed::ToItsEnd);
            }
        }
    }
    Ok(Relayed::ToNobody)
}

/// Waits until the daemon says something; `false` when what it says would reach nobody.
fn somebody_listens(from: &ChildStdout) -> anyhow::Result<bool> {
    let stdout = std::io::stdout();
    let mut polled = [PollFd::new(from, PollFlags::IN), PollFd::new(&stdout, PollFlags::empty())];
    loop {
        match poll(&mut polled, None) {
            Ok(_) => return Ok(polled[1].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno).context("waiting for the daemon"),
        }
    }
}
