//! Signals on a view over a file system that is slow or hangs: one that a program takes changes nothing, as on a local
//! file system; one that ends it ends it at once.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_testkit::model::Parameters;
use forebay_tests::job::send;
use forebay_tests::program::{file_of_tests, run, wait_until};
use forebay_tests::{Job, Sandbox, require, tree};
use rustix::process::Signal;

use crate::hangs::{Hanging, SLOW_LISTINGS};

/// A program that is killed ends within 200 ms; the rest is for a machine that is busy. The read that it waits for takes longer.
const SOON: Duration = Duration::from_secs(20);

/// How long a program may take to get where it waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// So slow that each request takes several signals of a millisecond.
const SLOW: Parameters =
    Parameters { metadata_us: 5000, at_once: 64, link_bits_per_second: 1_000_000_000, client_ttl_ms: 1000 };

/// A node that does not read the file system itself.
const LEAF: usize = 1;

/// Calls of each kind.
const CALLS: usize = 100;

/// The program `signals.c`.
struct Program(tempfile::TempDir);

impl Program {
    fn compile() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut gcc = Command::new("gcc");
        gcc.args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-D_GNU_SOURCE", "-pthread", "-o"]);
        let _ = run(gcc.arg(directory.path().join("signals")).arg(file_of_tests("reliability/signals.c"))).good();
        Self(directory)
    }

    fn command(&self) -> Command {
        Command::new(self.0.path().join("signals"))
    }

    /// Starts it on a file that does not come, and lets it get as far as that.
    fn wait_for(&self, how: &str, file: &Path) -> Waiting {
        let mut command = self.command();
        let mut child = command.args(["wait", how]).arg(file).stdout(Stdio::piped()).spawn().unwrap();
        let mut says = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        says.read_line(&mut line).unwrap();
        assert_eq!(line, "waiting\n");
        wait_until("the program waits for the view", PATIENCE, || is_asleep(child.id()));
        Waiting { child, says }
    }
}

/// Whether the first thread of a process sleeps: the only thing that this one sleeps in is the file system.
fn is_asleep(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("State:\tS") || status.contains("State:\tD")
}

/// The program, which waits for a file.
struct Waiting {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Waiting {
    /// Sends it a signal, which must be what it ends by, soon and without having seen an error.
    fn ends_by(mut self, signal: Signal) {
        let began = Instant::now();
        send(self.child.id(), signal);
        wait_until("a program that is killed ends", SOON, || self.child.try_wait().unwrap().is_some());
        println!("{signal:?} ends it within {:?}", began.elapsed());
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.says.read_line(&mut said).unwrap();
        assert_eq!((status.signal(), said.as_str()), (Some(signal.as_raw()), ""), "{signal:?}: {status}");
    }
}

#[test]
fn signals_that_a_program_takes_interrupt_no_cold_call() {
    require!(Fuse, Root, Command("gcc"));
    let program = Program::compile();
    let slow = Hanging::with(SLOW, |source| {
        for directory in (0..CALLS).flat_map(|number| [format!("stat-{number}"), format!("open-{number}")]) {
            fs::create_dir(source.join(&directory)).unwrap();
            tree::write(&source.join(directory).join("file"), b"x");
        }
    });
    let job = Job::up_local(Sandbox::new(), 1, &slow.export, &["--prefetch", "false"]);
    let mut command = program.command();
    let told = run(command.arg("each").arg(job.path(0, &slow.export)).arg(CALLS.to_string())).good().text();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[..2], ["stat 0 0", "open 0 0"], "calls that failed with EINTR, and otherwise: {told}");
    let signals: usize = lines[2].strip_prefix("signals ").unwrap().parse().unwrap();
    assert!(signals > 2 * CALLS, "every call is to be interrupted: {told}");
    job.down();
}

/// Signals of which the daemon was told.
fn interrupts(job: &Job) -> u64 {
    job.status()["nodes"][LEAF]["kernel"]["messages"]["interrupt"].as_u64().unwrap()
}

#[test]
fn a_program_that_is_killed_does_not_wait_for_a_file_system_that_hangs() {
    require!(Fuse, Root, Command("gcc"));
    let program = Program::compile();
    let hanging = Hanging::with(SLOW_LISTINGS, |source| {
        fs::create_dir(source.join("large")).unwrap();
        (0..300).for_each(|number| tree::write(&source.join(format!("large/file-{number}")), b"x"));
    });
    // Requests in flight are kept in memory: the next daemon is not told of signals again.
    let job = Job::up_local(Sandbox::new(), 2, &hanging.export, &["--resend", "false", "--deadline", "60s"]);
    // The leaf's daemon can be killed: it is the root's that the file system holds.
    let large = job.path(LEAF, &hanging.export.join("large"));
    assert!(fs::metadata(&large).unwrap().is_dir(), "its own name comes, only what is in it does not");
    let file = large.join("file-7");
    for signal in [Signal::KILL, Signal::INT, Signal::TERM, Signal::QUIT] {
        for how in ["quiet", "alarm", "threads"] {
            program.wait_for(how, &file).ends_by(signal);
        }
    }
    let before = interrupts(&job);
    let waiting = program.wait_for("alarm", &file);
    wait_until("the daemon is told of a signal", PATIENCE, || interrupts(&job) > before);
    let _ = job.kill_daemon(LEAF);
    wait_until("there is another daemon", PATIENCE, || job.daemon(LEAF).is_some());
    waiting.ends_by(Signal::KILL);
    let _ = job.command("down", &[]);
    job.forget();
}
