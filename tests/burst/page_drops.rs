//! A daemon may die while its node's kernel is told to drop pages that are being read: that holds up nothing but the program that reads.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use forebay_tests::job::{Stopped, kill};
use forebay_tests::processes::is_alive;
use forebay_tests::program::{file_of_tests, wait_until};
use forebay_tests::require;
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::Bed;

const BYTES: usize = 300_000;

/// For what takes some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than any lease on what the reader's node knows of the file.
const LEASES: Duration = Duration::from_secs(13);

/// The reader's node. The leader is node 0, and node 1 has the file's bytes.
const READER: u32 = 2;

/// A program on the reader's node waits for bytes of a file, since node 1 stands still; its kernel drops pages of this file meanwhile. It is a
/// process of its own: a child of one that has the file open would wait at its exec, too.
struct Dropping {
    bed: Bed,
    stopped: Stopped,
    program: Child,
    said: Receiver<String>,
    expected: Vec<u8>,
}

impl Dropping {
    fn begin() -> Self {
        let bed = Bed::with(3, &["--drain", "manual"]);
        let (at_writer, at_leader) = (bed.mount_of(1).join("file"), bed.mount_of(0).join("file"));
        fs::write(&at_writer, vec![1; BYTES]).unwrap();
        let (mut program, said) = start(&bed.mount_of(READER).join("file"));
        let mut expected = vec![1; BYTES];
        assert!(said.recv_timeout(PATIENCE).unwrap() == read(&expected));
        File::options().write(true).open(&at_writer).unwrap().write_all_at(&[2; 2], 0).unwrap();
        expected[..2].fill(2);
        std::thread::sleep(LEASES);
        let stopped = bed.job.stop_node(1);
        let mut tell = |what| writeln!(program.stdin.as_mut().unwrap(), "{what}").unwrap();
        tell("read");
        assert_eq!(said.recv_timeout(Duration::from_secs(1)), Err(RecvTimeoutError::Timeout));
        for round in 0..4 {
            let at = BYTES - 10 * (round + 1);
            expected[at..at + 4].fill(9);
            File::options().write(true).open(&at_leader).unwrap().write_all_at(&[9; 4], at as u64).unwrap();
            tell("look");
            std::thread::sleep(Duration::from_millis(500));
        }
        let daemon = bed.job.daemon(READER as usize).unwrap();
        wait_until("the kernel lets the dropping of pages wait", PATIENCE, || holds_a_dropping(daemon));
        Self { bed, stopped, program, said, expected }
    }

    /// The job ends, and with it what waits.
    fn down(self) {
        let Self { bed, stopped, mut program, said, .. } = self;
        let down = bed.command(&["down", "--no-drain"]);
        drop((stopped, said));
        assert!(matches!(down.status.code(), Some(0 | 3)), "{} {}", down.text(), down.stderr);
        wait_until("nothing is left", PATIENCE, || bed.job.sandbox.left().is_empty());
        program.kill().unwrap();
        wait_until("the program ends", PATIENCE, || program.try_wait().unwrap().is_some());
        bed.job.forget();
    }
}

/// The program, and what it says.
fn start(file: &Path) -> (Child, Receiver<String>) {
    let mut command = Command::new("python3");
    command.arg(file_of_tests("burst/page_drops.py")).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = command.stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let (sender, said) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    (program, said)
}

/// The words of the program that has read this.
fn read(bytes: &[u8]) -> String {
    bytes.iter().fold("read ".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// Name, state and parent of a process or thread.
fn stat(directory: &Path) -> Option<(String, char, u32)> {
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    let (head, rest) = stat.rsplit_once(") ")?;
    let (state, rest) = rest.split_once(' ')?;
    Some((head.split_once('(')?.1.to_owned(), state.chars().next()?, rest.split(' ').next()?.parse().ok()?))
}

fn entries(directory: &str) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The process of a daemon that notifies its kernel of the burst mount.
fn notifier(daemon: u32) -> Option<u32> {
    let is_it =
        |path: &PathBuf| stat(path).is_some_and(|(name, _, parent)| name == "forebay-pages" && parent == daemon);
    entries("/proc").iter().find(|path| is_it(path))?.file_name()?.to_str()?.parse().ok()
}

/// Whether the kernel holds a thread of a daemon, or of its process, that has pages dropped.
fn holds_a_dropping(daemon: u32) -> bool {
    let threads =
        [Some(daemon), notifier(daemon)].into_iter().flatten().flat_map(|pid| entries(&format!("/proc/{pid}/task")));
    threads.filter_map(|thread| stat(&thread)).any(|(name, state, _)| name.contains("pages") && state == 'D')
}

/// The signals that a process blocks, as bits.
fn blocked(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

#[test]
fn the_next_daemon_answers_a_read_that_holds_up_the_dropping_of_pages() {
    require!(Fuse, Root);
    let Dropping { bed, stopped, mut program, said, expected } = Dropping::begin();
    let daemon = bed.job.daemon(READER as usize).unwrap();
    let notifier = notifier(daemon).expect("another process waits");
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        assert_ne!(blocked(notifier) & 1 << (signal.as_raw() - 1), 0, "it is for the daemon: {signal:?}");
    }
    kill(daemon);
    wait_until("the daemon is gone, though the kernel drops no page yet", PATIENCE, || !is_alive(daemon));
    drop(stopped);
    let mut lines: Vec<String> = (0..5).map(|_| said.recv_timeout(PATIENCE).expect("the program goes on")).collect();
    lines.sort();
    assert!(lines.remove(0).starts_with("read "));
    assert_eq!(lines, vec![format!("size {BYTES}"); 4]);
    wait_until("the process of the daemon before has ended", PATIENCE, || !is_alive(notifier));
    writeln!(program.stdin.as_mut().unwrap(), "read").unwrap();
    assert!(said.recv_timeout(PATIENCE).unwrap() == read(&expected), "other bytes than were written");
    drop(program.stdin.take());
    wait_until("the program ends", PATIENCE, || program.try_wait().unwrap().is_some());
    bed.drain();
    bed.job.down();
}

/// The daemon is killed and the job ended, while the next daemon can answer nothing: the bytes are on a node that stands still.
#[test]
fn a_job_that_ends_meanwhile_leaves_nothing_behind() {
    require!(Fuse, Root);
    let dropping = Dropping::begin();
    kill(dropping.bed.job.daemon(READER as usize).unwrap());
    dropping.down();
}

/// The daemon dies and its keeper with it: no process is left to answer. Commands that clean up end what waits.
#[test]
fn a_node_that_is_killed_meanwhile_is_cleaned_up() {
    require!(Fuse, Root);
    let dropping = Dropping::begin();
    dropping.bed.job.kill_node(READER as usize);
    assert_eq!(dropping.said.try_recv(), Err(TryRecvError::Empty), "no daemon answers it");
    dropping.down();
}

/// Stopped, it would hold the connection, and with it programs that the kernel lets wait for an answer.
#[test]
fn a_stopped_process_that_notifies_ends_with_its_daemon_and_with_its_job() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let (at_writer, reader) = (bed.mount_of(0).join("file"), 1);
    fs::write(&at_writer, vec![1; BYTES]).unwrap();
    let open = File::open(bed.mount_of(reader).join("file")).unwrap();
    let mut found = vec![0; BYTES];
    let mut change = |byte| {
        open.read_exact_at(&mut found, 0).unwrap();
        File::options().write(true).open(&at_writer).unwrap().write_all_at(&vec![byte; BYTES], 0).unwrap();
        open.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, vec![byte; BYTES]);
    };
    let stop = |pid: u32| kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::STOP).unwrap();
    change(2);
    let daemon = bed.job.daemon(reader as usize).unwrap();
    let first = notifier(daemon).expect("pages were dropped");
    stop(first);
    kill(daemon);
    wait_until("it ends with its daemon", PATIENCE, || !is_alive(first));
    change(3);
    let second = notifier(bed.job.daemon(reader as usize).unwrap()).expect("pages were dropped");
    stop(second);
    drop(open);
    bed.job.down();
    assert!(!is_alive(second), "it is left behind");
}
