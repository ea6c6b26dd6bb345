//! Files and the command, as tests on one host begin with them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A log with missing fields, a quoted newline, and names.
const LOG: &str = "a,b,note\n1,2.5,x\n2,,\"y\nz\"\n3,4.5,12\n";

/// A directory with files, and the command within it.
pub struct Bed(tempfile::TempDir);

impl Bed {
    /// With `log.csv`.
    pub fn new() -> Self {
        let bed = Self(tempfile::tempdir().unwrap());
        fs::write(bed.path().join("log.csv"), LOG).unwrap();
        bed
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The outcome of a statement with more options.
    pub fn run(&self, statement: &str, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-sql"));
        command.current_dir(self.path()).arg(statement).args(more).output().unwrap()
    }

    /// Standard output of a command that succeeds.
    #[track_caller]
    pub fn good(&self, statement: &str, more: &[&str]) -> String {
        let done = self.run(statement, more);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Standard error of a command that fails.
    #[track_caller]
    pub fn bad(&self, statement: &str, more: &[&str]) -> String {
        let done = self.run(statement, more);
        assert_eq!(done.status.code(), Some(1), "{}", String::from_utf8_lossy(&done.stdout));
        assert!(done.stdout.is_empty());
        String::from_utf8(done.stderr).unwrap()
    }
}
