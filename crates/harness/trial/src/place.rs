//! Where a program runs: on this machine as it is, or inside a node's namespaces.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A node to run programs on.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The words before a command that run it there (`nsenter ... --`); empty for this machine itself.
    prefix: Vec<OsString>,
}

impl Place {
    /// This machine, no namespaces.
    #[must_use]
    pub fn here() -> Self {
        Self::default()
    }

    /// A node that is reached by putting `prefix` before the command.
    #[must_use]
    pub fn behind(prefix: Vec<OsString>) -> Self {
        Self { prefix }
    }

    /// `argv` as a command for this place, in a process group of its own.
    ///
    /// # Panics
    /// When `argv` is empty.
    pub fn command<S: AsRef<OsStr>>(&self, argv: &[S]) -> Command {
        let mut words = self.prefix.iter().map(OsString::as_os_str).chain(argv.iter().map(AsRef::as_ref));
        let program = words.next().expect("a command has a name");
        let mut command = Command::new(program);
        command.args(words).process_group(0);
        command
    }

    /// `argv` with `prepare`, a shell line, run before it by the same shell; the shell waits for a line on its
    /// standard input first, so that many nodes can be let go at one moment.
    pub fn gated<S: AsRef<OsStr>>(&self, prepare: &str, argv: &[S]) -> Command {
        let prepare = if prepare.is_empty() { ":" } else { prepare };
        let script = format!("echo ready; read -r go || exit 1; {prepare} && exec \"$@\"");
        let mut words: Vec<&OsStr> = ["sh", "-c", &script, "sh"].map(OsStr::new).to_vec();
        words.extend(argv.iter().map(AsRef::as_ref));
        self.command(&words)
    }
}
