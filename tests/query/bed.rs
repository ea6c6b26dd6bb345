//! A job whose nodes hold files.

use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tests::program::{Finished, run};
use forebay_tests::{Job, Sandbox};
use serde_json::Value;

/// All operators that have an answer of their own.
pub const ALL: &str = "count-lines,stats,gramian,digits,entropy";

/// A job, and where its devices' files lie.
pub struct Bed {
    pub job: Job,
    data: PathBuf,
}

impl Bed {
    /// Four devices, each with a directory of its own.
    pub fn of_devices() -> Self {
        let sandbox = Sandbox::new();
        let data = sandbox.base().join("data");
        (0..4).for_each(|rank| fs::create_dir_all(data.join(rank.to_string())).unwrap());
        let source = sandbox.source();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let job = Job::up_local(sandbox, 4, &source, &["--role", "device", "--data", &text(&data)]);
        Self { job, data }
    }

    /// Nodes over an export, which so many of them read for all.
    pub fn of_nodes(nodes: u32, roots: u32) -> Self {
        let sandbox = Sandbox::new();
        let (source, roots) = (sandbox.source(), roots.to_string());
        let job = Job::up_local(sandbox, nodes, &source, &["--roots", &roots]);
        Self { job, data: source }
    }

    /// A file of a device.
    pub fn file(&self, rank: usize, name: &str) -> PathBuf {
        self.data.join(rank.to_string()).join(name)
    }

    /// `forebay query` in this job.
    pub fn command(&self, operators: &str, file: &Path, more: &[&str]) -> Command {
        let mut command = self.job.sandbox.command();
        command.args(["query", "--job", &self.job.sandbox.name, operators]).arg(file).args(more);
        command
    }

    #[track_caller]
    pub fn query(&self, operators: &str, file: &Path, more: &[&str]) -> Finished {
        run(&mut self.command(operators, file, more))
    }

    /// The answer of node 0's daemon over its control socket.
    pub fn asked(&self, question: &Value) -> String {
        let socket = socket_below(&self.job.sandbox.runtime()).expect("a socket");
        let mut stream = UnixStream::connect(socket).unwrap();
        writeln!(stream, "{question}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    }

    /// The same with descriptions of all columns.
    pub fn described(&self, file: &Path, place: &str, more: &[&str]) -> (Value, Value) {
        let operators = format!("{ALL},describe,histogram,top,correlation");
        parted(&self.query(&operators, file, &[&["--json", "--where", place], more].concat()).good().stdout)
    }

    /// The answer, and which nodes made how much of it.
    #[track_caller]
    pub fn answer(&self, file: &Path, place: &str, more: &[&str]) -> (Value, Value) {
        let done = self.query(ALL, file, &[&["--json", "--where", place], more].concat()).good();
        parted(&done.stdout)
    }
}

/// The control socket of node 0, somewhere below a directory.
fn socket_below(directory: &Path) -> Option<PathBuf> {
    let entries: Vec<_> = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
    let own = entries.iter().find(|path| path.ends_with("node-0.sock")).cloned();
    own.or_else(|| entries.iter().filter(|path| path.is_dir()).find_map(|path| socket_below(path)))
}

/// Bytes that a process has read so far.
pub fn read_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The output of `--json` without the fields that differ between runs; and the amounts that each node made.
#[track_caller]
pub fn parted(printed: &[u8]) -> (Value, Value) {
    let mut said: Value = serde_json::from_slice(printed).unwrap();
    let fields = said.as_object_mut().unwrap();
    let by = fields.remove("made_by").unwrap_or(Value::Null);
    ["where", "seconds", "predicted", "took"].iter().for_each(|field| drop(fields.remove(*field)));
    (said, by)
}

/// A table of some blocks whose fields hold newlines, delimiters and quotes, also where blocks and parts end.
pub fn quoted_table(rows: u32) -> String {
    let mut text = "a,note,b\n".to_owned();
    for index in 0..rows {
        let note = "said \"\"so\"\",\nand\n".repeat(index as usize % 40);
        writeln!(text, "{}.{:03},\"{note}\",{}", index % 97, index % 1000, f64::from(index).sqrt()).unwrap();
    }
    text
}

/// A table of some blocks in which quotes stand where none may, in odd numbers here and there: what is within quotes changes with each.
pub fn stray_table(rows: u32) -> String {
    let mut text = "a,note,b\n".to_owned();
    for index in 0..rows {
        let note = match index % 997 {
            0 => "5\" pipe".to_owned(),
            1..200 => format!("\"said \"\"so\"\",\nand {}\"", "x".repeat(index as usize % 300)),
            _ => "plain words".to_owned(),
        };
        writeln!(text, "{}.{:03},{note},{}", index % 97, index % 1000, f64::from(index).sqrt()).unwrap();
    }
    text
}

/// A table of plain numbers.
pub fn plain_table(rows: u32) -> String {
    let row = |text: &mut String, index: u32| {
        writeln!(text, "{index},{}.25,{},-{}.5,17", index % 1009, index % 7, index % 13).unwrap();
    };
    (0..rows).fold(String::new(), |mut text, index| {
        row(&mut text, index);
        text
    })
}
