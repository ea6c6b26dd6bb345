//! Files that `forebay query` cannot make sense of, and questions that make none.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use forebay_tests::program::run;
use forebay_tests::{Finished, Sandbox, tree};
use serde_json::Value;

use crate::{FAILED, WRONG_USAGE, fails};

fn query(sandbox: &Sandbox, operators: &str, text: &[u8], more: &[&str]) -> Finished {
    let file = sandbox.source().join("table.csv");
    tree::write(&file, text);
    run(sandbox.command().args(["query", operators]).arg(&file).args(more))
}

#[test]
fn files_that_are_no_table() {
    let cases: [(&[u8], &[&str], &[&str]); 16] = [
        (b"", &[], &["table.csv", "is empty"]),
        (b"\n\n", &[], &["table.csv", "is empty"]),
        (b"\x7fELF\0\0\0", &[], &["table.csv", "it is a program"]),
        (b"a\0b,1\n", &[], &["table.csv", "not a CSV file", "NUL byte"]),
        (b"some words\nand more\n", &[], &["table.csv", "no numeric column"]),
        (b"a,b\n", &[], &["table.csv", "no numeric column"]),
        (
            b"a,b\n1,2\n3\n4,5,6\n",
            &[],
            &["2 rows are bad", "table.csv line 3: 1 fields, the first record has 2", "line 4: 3"],
        ),
        (b"a,b\n1,2\n3,x\n", &[], &["1 row is bad", "line 3: \"x\"", "column \"b\"", "--on-error skip"]),
        (b"a,b\n1,\"2\n3,4\n", &[], &["table.csv line 2: a quote that is never closed"]),
        (b"a,b\n1,x\n", &["--columns", "c"], &["table.csv", "no column \"c\"", "a,b"]),
        (b"a,b\n1,x\n", &["--columns", "3"], &["no column \"3\""]),
        (b"a,b\n1,x\n", &["--columns", "b"], &["column \"b\" is not numeric"]),
        (b"a\n5\n5\n", &[], &["column \"a\" cannot be normalised", "deviation is 0"]),
        (b"a\n5\ninf\n", &[], &["cannot be normalised", "infinite values"]),
        (b"a\n5\n6\n", &["--output", "/nowhere/x"], &["/nowhere/x", "o such file"]),
        (b"a\n5\n6\n", &["--plot", "/nowhere/x.svg"], &["/nowhere/x.svg", "o such file"]),
    ];
    for (text, more, words) in cases {
        let sandbox = Sandbox::new();
        fails(&sandbox, &query(&sandbox, "stats,gramian,normalise", text, more), FAILED, words);
        let left: Vec<_> =
            std::fs::read_dir(sandbox.source()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["table.csv"], "{words:?}");
    }
}

#[test]
fn what_is_no_file() {
    let sandbox = Sandbox::new();
    let about = |path: &str| run(sandbox.command().args(["query", "stats", path]));
    fails(&sandbox, &about("/nowhere/table.csv"), FAILED, &["/nowhere/table.csv", "o such file"]);
    fails(&sandbox, &about("/dev"), FAILED, &["/dev", "not a regular file", "'/dev/*.csv'"]);
    fails(&sandbox, &about("/nowhere/*.csv"), FAILED, &["no file matches /nowhere/*.csv"]);
    fails(&sandbox, &about("/dev/zero"), FAILED, &["/dev/zero", "not a regular file"]);
    // The output would replace what is read.
    let file = sandbox.source().join("table.csv");
    tree::write(&file, b"a\n1\n2\n");
    let onto_itself = run(sandbox.command().args(["query", "normalise"]).arg(&file).arg("--output").arg(&file));
    fails(&sandbox, &onto_itself, FAILED, &["table.csv", "is read by this query"]);
    // Tables of different columns are no one table.
    let other = sandbox.source().join("other.csv");
    tree::write(&other, b"a,b\n1,2\n");
    let both = run(sandbox.command().args(["query", "stats"]).args([&file, &other]));
    fails(&sandbox, &both, FAILED, &["other.csv", "columns are a,b", "first file a"]);
}

#[test]
fn what_is_asked_for_wrongly() {
    let cases: [(&str, &[&str], &[&str]); 11] = [
        ("median", &[], &["no operator \"median\"", "count-lines"]),
        ("stats,", &[], &["no operator \"\""]),
        ("SELECT 1", &[], &["SQL names its own files"]),
        ("stats", &["--delimiter", "\""], &["--delimiter"]),
        ("stats", &["--delimiter", "ab"], &["--delimiter"]),
        ("stats", &["--on-error", "panic"], &["--on-error", "skip"]),
        ("stats", &["--header", "maybe"], &["--header", "auto"]),
        ("stats", &["--format", "xml"], &["--format", "markdown"]),
        ("stats", &["--json", "--format", "csv"], &["different formats"]),
        ("stats", &["--output", "x"], &["--output", "normalise"]),
        ("count-lines", &["--plot", "x.svg"], &["--plot", "gramian"]),
    ];
    for (operators, more, words) in cases {
        let sandbox = Sandbox::new();
        let done = query(&sandbox, operators, b"a\n1\n2\n", more);
        assert_eq!(done.status.code(), Some(WRONG_USAGE), "{operators}: {}", done.stderr);
        words.iter().for_each(|word| assert!(done.stderr.contains(word), "{}", done.stderr));
    }
    let sandbox = Sandbox::new();
    assert_eq!(run(sandbox.command().args(["query", "stats"])).status.code(), Some(WRONG_USAGE));
}

#[test]
fn bytes_of_whatever_there_is() {
    let sandbox = Sandbox::new();
    let bytes = |text: &[u8]| {
        let done = query(&sandbox, "count-lines,digits,entropy", text, &["--json"]).good();
        serde_json::from_str::<Value>(&done.text()).unwrap()
    };
    let empty = bytes(b"");
    assert_eq!((&empty["lines"], &empty["bytes"]), (&0.into(), &0.into()));
    assert_eq!(empty["entropy_bits_per_byte"], 0.0);
    let binary = bytes(&(0..=255).collect::<Vec<u8>>());
    assert_eq!((&binary["entropy_bits_per_byte"], &binary["lines"]), (&8.0.into(), &1.into()));
    assert!(binary["digits"].as_array().unwrap().iter().all(|count| *count == 1));
}

#[test]
fn one_line_of_two_gigabytes() {
    let sandbox = Sandbox::new();
    let path = sandbox.source().join("line.csv");
    tree::write(&path, b"a,b\n1,2\n3,4");
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Holes are zeros: a field of two billion bytes.
    file.seek(SeekFrom::Start(2 << 30)).unwrap();
    file.write_all(b"\n5,6\n").unwrap();
    let about = |more: &[&str]| run(sandbox.command().args(["query", "stats,count-lines"]).arg(&path).args(more));
    fails(&sandbox, &about(&[]), FAILED, &["line.csv line 3: a record of more than 64 MiB"]);
    let said: Value = serde_json::from_str(&about(&["--on-error", "skip", "--json"]).good().text()).unwrap();
    assert_eq!((&said["rows"], &said["bad_rows"], &said["lines"]), (&2.into(), &1.into(), &4.into()));
    assert_eq!(said["columns"][0]["sum"], 6.0);
}

#[test]
fn a_file_that_grows_while_it_is_read() {
    let sandbox = Sandbox::new();
    let path = sandbox.source().join("log.csv");
    tree::write(&path, "1.5,2.5\n".repeat(1 << 20).as_bytes());
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let mut child = sandbox.command();
    let mut child = child
        .args(["query", "stats,gramian,entropy"])
        .args(std::iter::repeat_n(&path, 40))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Until it has read, and as long as it does.
    while child.try_wait().unwrap().is_none() {
        file.write_all(b"1,2\n").unwrap();
    }
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(FAILED), "{message}");
    assert!(message.contains("log.csv changed while it was read"), "{message}");
}

/// A column becomes a regular file, or replaces one: no device or pipe, and no link that somebody else may have put there. A link that the user
/// names stays one.
#[test]
fn a_column_replaces_regular_files_only() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.base().join(name);
    fs::write(at("c.csv"), "a,b\n1,2\n3,4\n").unwrap();
    fs::write(at("target"), "kept").unwrap();
    let normalise = |output: Option<&str>| {
        let mut command = sandbox.command();
        command.args(["query", "normalise", "--columns", "a"]).arg(at("c.csv"));
        if let Some(output) = output {
            command.arg("--output").arg(at(output));
        }
        run(&mut command)
    };
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    fails(&sandbox, &normalise(Some("pipe")), FAILED, &["pipe is not a regular file", "--output"]);
    symlink("target", at("c.normalised.csv")).unwrap();
    fails(&sandbox, &normalise(None), FAILED, &["c.normalised.csv is a symbolic link", "--output"]);
    symlink("nowhere", at("dangling")).unwrap();
    fails(&sandbox, &normalise(Some("dangling")), FAILED, &["leads to nothing"]);
    assert_eq!(fs::read_to_string(at("target")).unwrap(), "kept");
    let _ = normalise(Some("c.normalised.csv")).good();
    assert_eq!(fs::read_link(at("c.normalised.csv")).unwrap().to_str(), Some("target"));
    assert_eq!(fs::read_to_string(at("target")).unwrap(), "a\n-1.0\n1.0\n");
}
