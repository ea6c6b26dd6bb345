//! Running one command to its end, watching for Ctrl-C meanwhile.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::stop;

/// A started program and everything it starts in turn (its process group), ended when this is dropped.
pub struct Group {
    child: Child,
    done: bool,
}

/// The time that a program may take to end after SIGTERM; `forebay up` takes its daemons down in this time.
const TERM_GRACE: Duration = Duration::from_secs(10);

impl Group {
    /// Starts `command`, which must have a process group of its own ([`crate::Place::command`] sees to it).
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.spawn().with_context(|| format!("cannot start {}", described(command)))?;
        Ok(Self { child, done: false })
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The process id, which is the group's id too.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the end of the child. Does not look at the flag of [`stop`].
    ///
    /// # Errors
    /// When waiting fails.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.done = true;
        Ok(status)
    }

    fn wait_until(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            if let Ok(Some(_)) = self.child.try_wait() {
                self.done = true;
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // The group may be gone already; then there is nothing to end.
        let _ = kill_process_group(self.pid(), Signal::TERM);
        if !self.wait_until(Instant::now() + TERM_GRACE) {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Runs `command` and returns what it printed on standard output.
///
/// # Errors
/// When it cannot be started, ends with a failure, or the user asks for an end meanwhile.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = described(command);
    let mut group = Group::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
    let pipe = group.child().stdout.take().context("a piped child has its pipe")?;
    let reader = thread::spawn(move || io::read_to_string(pipe));
    loop {
        if let Some(status) = group.child().try_wait().with_context(|| format!("waiting for {name}"))? {
            group.done = true;
            // A process that inherited the pipe could keep it open; a daemon must not, and then the text ends here.
            let text = reader.join().map_err(|_| anyhow::anyhow!("reading from {name}"))??;
            if !status.success() {
                bail!("{name} failed ({status}){}", if text.is_empty() { String::new() } else { format!(": {text}") });
            }
            return Ok(text);
        }
        stop::check()?;
        thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a command that gives things back. It is not interrupted by Ctrl-C, and a failure is told, not returned: there
/// is nothing a caller that is itself cleaning up could do.
pub fn cleanup(command: &mut Command) {
    let name = described(command);
    match command.stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("cleaning up: {name} failed ({status})"),
        Err(error) => eprintln!("cleaning up: cannot start {name}: {error}"),
    }
}

fn described(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
