//! The examples of the promise (docs/semantics.md, "The burst tier") do what they show.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use forebay_tests::program::file_of_tests;
use forebay_tests::require;

use crate::bed::Bed;

/// The line that a shell prints when a command is over.
const OVER: &str = "--over--";

/// A shell on a node.
pub struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    pub fn new(directory: &Path) -> Self {
        let mut child =
            Command::new("sh").current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    /// The output of a command.
    pub fn says(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}\necho {OVER}").unwrap();
        let mut said = String::new();
        while !said.ends_with(&format!("{OVER}\n")) {
            assert!(self.output.read_line(&mut said).unwrap() > 0, "the shell ended at: {command}");
        }
        said.trim_end_matches(&format!("{OVER}\n")).to_owned()
    }

    pub fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn its_examples_do_what_they_show() {
    require!(Fuse, Root);
    let page = file_of_tests("../docs/semantics.md");
    let page = fs::read_to_string(page).unwrap();
    let bed = Bed::of(2);
    let mut commands = 0;
    for example in page.split("```console\n").skip(1) {
        let mut shells = [0, 1].map(|node| Shell::new(&bed.mount_of(node)));
        let (example, _) = example.split_once("```").unwrap();
        let mut lines = example.lines().peekable();
        while let Some(line) = lines.next() {
            let (node, command) = line.split_once("$ ").unwrap();
            let shown = std::iter::from_fn(|| lines.next_if(|line| !line.starts_with("node")));
            let shown: String = shown.map(|line| format!("{line}\n")).collect();
            let shell = &mut shells[usize::from(node == "node1")];
            assert_eq!(shell.says(command), shown, "{line}");
            commands += 1;
        }
        shells.into_iter().for_each(Shell::end);
    }
    assert!(commands > 20, "{commands} examples");
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}
