//! Queries over files of the burst tier that have not landed: answered by the nodes whose logs have the bytes.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use forebay_tests::require;
use serde_json::{Value, json};

use crate::bed::Bed;

const ALL: &str = "count-lines,stats,gramian,digits,entropy";

/// A block of a query.
const BLOCK: u64 = 4 << 20;

/// How often a file is tried to be changed while a query reads it.
const TRIALS: usize = 20;

/// Rows with quoted fields that hold newlines, of so many bytes at least.
fn table(bytes: usize) -> Vec<u8> {
    let mut text = b"a,note,b\n".to_vec();
    for index in 0.. {
        let note = "said \"\"so\"\",\nand\n".repeat(index as usize % 40);
        writeln!(text, "{}.{:03},\"{note}\",{}", index % 97, index % 1000, f64::from(index).sqrt()).unwrap();
        if text.len() >= bytes {
            return text;
        }
    }
    unreachable!("a table ends");
}

fn bed() -> Bed {
    Bed::with(4, &["--drain", "manual"])
}

/// The output of `--json` without the fields that differ between runs, the nodes that made it, and the bytes that nodes sent each other.
#[track_caller]
fn asked(bed: &Bed, path: &Path, more: &[&str]) -> (Value, Value, u64) {
    let sent = || bed.job.status()["totals"]["overlay"]["bytes_sent"].as_u64().unwrap();
    let before = sent();
    let done = bed.command(&[&["query", ALL, path.to_str().unwrap(), "--json"], more].concat()).good();
    let moved = sent() - before;
    let mut said: Value = serde_json::from_slice(&done.stdout).unwrap();
    let fields = said.as_object_mut().unwrap();
    let by = fields.remove("made_by").unwrap_or(Value::Null);
    ["where", "seconds", "predicted", "took"].iter().for_each(|field| drop(fields.remove(*field)));
    (said, by, moved)
}

/// The answer over the same bytes in an ordinary file.
#[track_caller]
fn plain(bed: &Bed, bytes: &[u8]) -> Value {
    let copy = bed.job.sandbox.base().join("plain.csv");
    fs::write(&copy, bytes).unwrap();
    asked(bed, &copy, &["--where", "host"]).0
}

#[test]
fn the_node_whose_log_has_a_file_answers() {
    require!(Fuse, Root);
    let bed = bed();
    let bytes = table(20 << 20);
    fs::write(bed.mount_of(2).join("log.csv"), &bytes).unwrap();
    assert_eq!(bed.landed("log.csv")["state"], "committed");
    let here = plain(&bed, &bytes);
    let seen = bed.mount_of(0).join("log.csv");
    let (there, by, moved) = asked(&bed, &seen, &["--where", "data"]);
    assert_eq!(by, json!([{"node": 2, "bytes": bytes.len()}]), "the writer made all of it");
    assert_eq!(there, here);
    assert!(moved < bytes.len() as u64 / 20, "{moved} bytes moved");
    let explained = bed.command(&["query", "stats", seen.to_str().unwrap(), "--where", "data", "--explain"]).good();
    assert!(explained.text().contains("from the logs of the burst tier"), "{}", explained.text());
    // A column, too.
    let column = |place: &str| {
        let output = bed.job.sandbox.base().join(format!("{place}.csv"));
        let more = ["--where", place, "--json", "--output", output.to_str().unwrap()];
        let done = bed.command(&[&["query", "normalise", seen.to_str().unwrap()], &more[..]].concat()).good();
        let said: Value = serde_json::from_slice(&done.stdout).unwrap();
        (said["normalise"]["made_by"].clone(), fs::read(output).unwrap())
    };
    let ((_, here), (by, there)) = (column("host"), column("data"));
    assert_eq!(by, json!([{"node": 2, "bytes": bytes.len()}]));
    assert!(here == there, "other bytes than on the host");
    assert_eq!(bed.landed("log.csv")["state"], "committed", "it has not landed meanwhile");
    bed.drain();
    bed.job.down();
}

#[test]
fn each_block_is_made_by_the_node_that_has_most_of_it() {
    require!(Fuse, Root);
    let bed = bed();
    let bytes = table(24 << 20);
    // Node 1 writes the first half of each pair of blocks and some of the next, node 3 the rest.
    let open = |node| {
        let path = bed.mount_of(node).join("shared.csv");
        OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap()
    };
    let (one, three) = (open(1), open(3));
    let mut wanted = [0, 0];
    for (block, part) in bytes.chunks(BLOCK as usize).enumerate() {
        let is_one = block % 2 == 0;
        let offset = block as u64 * BLOCK;
        let (most, little) = if is_one { (&one, &three) } else { (&three, &one) };
        let cut = part.len() / 4;
        little.write_all_at(&part[..cut], offset).unwrap();
        most.write_all_at(&part[cut..], offset + cut as u64).unwrap();
        wanted[usize::from(!is_one)] += part.len() as u64;
    }
    drop((one, three));
    let (there, by, _) = asked(&bed, &bed.mount_of(0).join("shared.csv"), &["--where", "data"]);
    assert_eq!(by, json!([{"node": 1, "bytes": wanted[0]}, {"node": 3, "bytes": wanted[1]}]));
    assert_eq!(there, plain(&bed, &bytes));
    bed.drain();
    bed.job.down();
}

#[test]
fn a_file_that_changes_while_nodes_read_their_logs_is_an_error() {
    require!(Fuse, Root);
    let bed = bed();
    let path = bed.mount_of(2).join("log.csv");
    let bytes = table(96 << 20);
    fs::write(&path, &bytes).unwrap();
    let seen = bed.mount_of(0).join("log.csv");
    let read_bytes = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        let number = text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
        number.parse::<u64>().unwrap()
    };
    let writer = bed.job.daemon(2).unwrap();
    let has_failed = (0..TRIALS).any(|_| {
        let before = read_bytes(writer);
        let mut command = bed.job.sandbox.command();
        command.args(["query", "--job", &bed.job.sandbox.name, ALL, "--where", "data"]).arg(&seen);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let is_over = loop {
            if child.try_wait().unwrap().is_some() {
                break true;
            }
            if read_bytes(writer) > before + (4 << 20) {
                break false;
            }
            std::thread::yield_now();
        };
        // Of the same size: only its version is another.
        let changed = OpenOptions::new().write(true).open(bed.mount_of(3).join("log.csv")).unwrap();
        changed.write_all_at(b"1", bytes.len() as u64 / 2).unwrap();
        drop(changed);
        let status = child.wait().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.success() || said.contains("changed while it was read"), "{said}");
        !is_over && !status.success()
    });
    assert!(has_failed, "no query of {TRIALS} met a change");
    bed.drain();
    bed.job.down();
}
