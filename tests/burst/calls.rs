//! A program on a node that makes the system calls it is told to.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use forebay_tests::program::file_of_tests;

/// See the module: expressions of Python, over several of which its descriptors stay open.
pub struct Calls {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Calls {
    pub fn new(directory: &Path) -> Self {
        let mut command = Command::new("python3");
        command.arg(file_of_tests("burst/calls.py")).current_dir(directory);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { input: child.stdin.take(), child, output }
    }

    /// The value of an expression, or the name of the error that it raises.
    #[track_caller]
    pub fn says(&mut self, expression: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{expression}").unwrap();
        let mut said = String::new();
        assert!(self.output.read_line(&mut said).unwrap() > 0, "the program ended at: {expression}");
        said.trim_end().to_owned()
    }

    /// The program ends, and what it has open is closed.
    pub fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// The same by SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
