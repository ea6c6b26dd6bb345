//! `down` tells the truth of what has landed, whatever programs do meanwhile.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use forebay_tests::job::{NOBODY, as_nobody, send};
use forebay_tests::program::wait_until;
use forebay_tests::{Sandbox, require};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bed::{Bed, DIR};
use crate::promise::Shell;

const PATIENCE: Duration = Duration::from_secs(60);

/// A program that makes one file after the other in a directory, until it cannot. It says elsewhere how many it has made, and why it ended.
fn writer(directory: &Path, said: &Path) -> Child {
    let script = format!(
        "i=0; while /bin/echo $i > by.$i; do i=$((i + 1)); echo $i > {0}.new; mv {0}.new {0}; done 2> {0}.why",
        said.display()
    );
    Command::new("sh").args(["-c", &script]).current_dir(directory).stdin(Stdio::null()).spawn().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Programs of both nodes write until they are refused. All that they could write has landed, since `down` says so.
#[test]
fn writes_while_the_job_ends_have_landed_or_were_refused() {
    require!(Fuse, Root);
    // So slowly that the last drain lasts for longer than a program is kept from its next write.
    let bed = Bed::with(2, &["--drain-ops", "100/s"]);
    let base = bed.job.sandbox.base().to_owned();
    let said = |node: u32| base.join(format!("said.{node}"));
    let directories = [0, 1].map(|node| {
        let directory = bed.mount_of(node).join(format!("of-{node}"));
        fs::create_dir(&directory).unwrap();
        directory
    });
    let writers = [0, 1].map(|node: u32| writer(&directories[node as usize], &said(node)));
    wait_until("they write", PATIENCE, || (0..2).all(|node| read(&said(node)).trim().parse().unwrap_or(0) > 20));
    let down = bed.command(&["down", "--json"]);
    for mut writer in writers {
        wait_until("a writer ends", PATIENCE, || writer.try_wait().unwrap().is_some());
    }
    let told: Value = serde_json::from_slice(&down.stdout).unwrap_or_else(|_| panic!("{}", down.stderr));
    assert_eq!(down.status.code(), Some(0), "{told} {}", down.stderr);
    for node in 0..2 {
        let made: u32 = read(&said(node)).trim().parse().unwrap();
        let missing = |number: &u32| {
            let landed = read(&bed.backing().join(format!("of-{node}/by.{number}")));
            landed != format!("{number}\n")
        };
        assert_eq!((0..made).filter(missing).collect::<Vec<_>>(), [0; 0], "{made} were made on node {node}");
        let why = read(&said(node).with_extension(format!("{node}.why")));
        assert!(why.contains("Read-only file system"), "node {node}: {why}");
    }
    assert!(!base.join("store").exists(), "nothing is kept");
    assert_eq!(told["left"], json!([]));
    bed.job.forget();
}

/// The first line of a program's output.
fn first_line(program: &mut Child) -> String {
    let mut said = String::new();
    BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    said
}

/// A program ends that reads its standard input.
fn let_end(mut program: Child) {
    drop(program.stdin.take());
    wait_until("the program ends", PATIENCE, || program.try_wait().unwrap().is_some());
}

/// Data that a program has stored through a map and not synced were written before the end: they land.
#[test]
fn changes_of_programs_in_maps_land() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    // So much that the kernel sends it for a while.
    let script = "import mmap, sys\nmaps = []\nfor number in range(8):\n    with open(f'mapped.{number}', 'w+b') as file:\n        \
                  file.write(b'a' * (4 << 20))\n        file.flush()\n        maps.append(mmap.mmap(file.fileno(), 4 << 20))\n\
                  for map in maps:\n    map[:] = b'B' * (4 << 20)\nprint('stored', flush=True)\nsys.stdin.read()";
    let mut program = Command::new("python3")
        .args(["-c", script])
        .current_dir(bed.mount_of(1))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(first_line(&mut program), "stored\n");
    let down = bed.command(&["down", "--json"]);
    let told = format!("{} {}", down.text(), down.stderr);
    assert_eq!(down.status.code(), Some(0), "{told}");
    for number in 0..8 {
        let landed = fs::read(bed.backing().join(format!("mapped.{number}"))).unwrap();
        let stored = landed.iter().filter(|byte| **byte == b'B').count();
        assert_eq!((stored, landed.len()), (4 << 20, 4 << 20), "mapped.{number}: {told}");
    }
    let_end(program);
    bed.job.forget();
}

/// A drain cannot wait for data in the kernel of a file that the job's own user may not open: it says so.
#[test]
fn a_drain_says_that_a_kernel_may_have_more() {
    require!(Fuse, Root, Command("setpriv"));
    let sandbox = Sandbox::of_nobody();
    let backing = sandbox.base().join("backing");
    fs::create_dir(&backing).unwrap();
    std::os::unix::fs::chown(&backing, Some(NOBODY), Some(NOBODY)).unwrap();
    let bed = Bed::up(sandbox, 1);
    let script = "cd \"$0\" && umask 777 && exec 9<> a && echo x >&9 && echo written && read line";
    let mut program = as_nobody("sh".as_ref())
        .args(["-c", script])
        .arg(bed.mount())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(first_line(&mut program), "written\n");
    let drained = bed.command(&["drain", "--wait", "--timeout", "2s"]);
    assert_eq!(drained.status.code(), Some(3), "{}", drained.stderr);
    assert!(drained.text().contains("the kernel of node 0 has not sent all"), "{}", drained.text());
    wait_until("it lands with what it has sent", PATIENCE, || bed.landed("a")["state"] == "landed");
    let_end(program);
    bed.drain();
    bed.job.down();
}

/// After `down`, no program closes the file any more.
#[test]
fn an_open_file_without_a_name_leaves_no_trace() {
    require!(Fuse, Root);
    for words in [&["down"][..], &["down", "--no-drain"]] {
        let bed = Bed::of(2);
        let mut program = Shell::new(&bed.mount_of(1));
        assert_eq!(program.says("echo a > a"), "");
        bed.drain();
        assert_eq!(program.says("exec 9< a; rm a"), "");
        bed.drain();
        let left = || fs::read_dir(bed.backing()).unwrap().count();
        assert_eq!(left(), 1, "its draft");
        let down = bed.command(words);
        assert_eq!((down.status.code(), left()), (Some(0), 0), "{}", down.stderr);
        assert!(!bed.job.sandbox.base().join("store").exists(), "nothing is kept");
        program.end();
        bed.job.forget();
    }
}

/// Files that are kept are printed, with their ranges.
#[test]
fn unlanded_files_are_named_with_their_ranges() {
    require!(Fuse, Root);
    for words in [&["down"][..], &["down", "--no-drain"]] {
        let bed = Bed::with(2, &["--drain", "manual"]);
        let _ = bed.shell_on(1, "mkdir d; echo first > first; echo x > gone; rm gone").good();
        bed.drain();
        let script = "printf 0123456789 > d/second; printf 01 | dd of=first bs=1 seek=4 conv=notrunc; echo open > open";
        let _ = bed.shell_on(1, script).good();
        let down = bed.command(words);
        assert_eq!(down.status.code(), Some(3), "{}", down.stderr);
        for line in ["d/second has not landed: 10 bytes at 0+10", "first has not landed: 2 bytes at 4+2"] {
            assert!(down.stderr.contains(&format!("forebay: {DIR}/{line}\n")), "{}", down.stderr);
        }
        assert!(!down.stderr.contains("gone"), "{}", down.stderr);
        bed.job.forget();
    }
}

/// A node that does not answer any more may have something.
#[test]
fn files_of_a_silent_node_are_called_unknown() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--drain", "manual"]);
    let _ = bed.shell_on(1, "echo x > x").good();
    bed.drain();
    let stopped = bed.job.stop_node(1);
    let down = bed.command(&["down", "--no-drain"]);
    drop(stopped);
    assert_eq!(down.status.code(), Some(3), "{}", down.stderr);
    let said = "forebay: node 1 did not say what of the burst tier has not landed: its store may have more\n";
    assert!(down.stderr.contains(said), "{}", down.stderr);
    bed.job.forget();
}

/// Where nobody is asked, nobody has said that all has landed.
#[test]
fn files_of_nodes_that_are_not_asked_are_called_unknown() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "manual"]);
    let _ = bed.shell("echo x > x").good();
    let down = bed.command(&["down", "--local-only", "--no-drain"]);
    assert_eq!(down.status.code(), Some(3), "{}", down.stderr);
    assert!(down.stderr.contains("forebay: node 0 did not say what of the burst tier"), "{}", down.stderr);
    assert!(bed.job.sandbox.base().join("store/0").exists(), "the store keeps it");
    bed.job.forget();
}

/// A `down` that was interrupted has its job refuse changes for a time, which the job tells.
#[test]
fn a_job_whose_down_was_interrupted_says_how_long_it_refuses_changes() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end", "--drain-rate", "1MiB"]);
    let refused = || bed.job.status()["nodes"][0]["burst"]["changes_refused_ms"].as_u64();
    let _ = bed.shell("dd if=/dev/zero of=large bs=1M count=40 2>/dev/null").good();
    assert_eq!(refused(), None);
    let mut down = bed.job.sandbox.command();
    let mut down = down.args(["down", "--job", &bed.job.sandbox.name]).spawn().unwrap();
    wait_until("changes are refused", PATIENCE, || refused().is_some());
    send(down.id(), Signal::TERM);
    let _ = down.wait().unwrap();
    let failed = bed.shell("echo x > x");
    assert!(failed.stderr.contains("Read-only file system"), "{}", failed.stderr);
    assert!(refused().is_some_and(|time_ms| time_ms <= 120_000), "{:?}", refused());
    assert_eq!(bed.command(&["down", "--no-drain"]).status.code(), Some(3));
    bed.job.forget();
}

/// A file that landed under another name than its own is not where its program wants it, whichever policy let it land.
#[test]
fn a_file_beside_anothers_is_named_when_the_job_ends() {
    require!(Fuse, Root);
    for policy in ["manual", "end"] {
        let bed = Bed::with(2, &["--drain", policy]);
        fs::write(bed.mount().join("file"), "ours").unwrap();
        fs::write(bed.backing().join("file"), "theirs").unwrap();
        let drained = bed.command(&["drain", "--wait"]);
        assert_eq!(drained.status.code(), Some(3), "{policy}: {}", drained.text());
        let down = bed.command(&["down"]);
        let name = format!("file.forebay-{}", bed.job.sandbox.name);
        assert_eq!(down.status.code(), Some(3), "{policy}: {}{}", down.text(), down.stderr);
        assert!(down.stderr.contains(&name), "{policy}: {}", down.stderr);
        let read = |name: &str| fs::read_to_string(bed.backing().join(name)).unwrap();
        assert_eq!((read("file"), read(&name)), ("theirs".to_owned(), "ours".to_owned()), "{policy}");
        bed.job.forget();
    }
}
