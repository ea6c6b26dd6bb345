//! `make bench-deaths`: how long programs wait when the only daemon of a node is killed, again and again under readers that
//! look at every byte. docs/reliability.md has the figures.

#![allow(clippy::unwrap_used, reason = "a broken assumption ends the measurement")]
#![allow(dead_code, reason = "the tests use the rest")]

mod readers;

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use forebay_testkit::machine::Machine;
use forebay_testkit::results::{Bar, Side, median};
use forebay_tests::need::Need;
use readers::job;

const DEATHS: usize = 50;

/// Some hundred of them are read between two deaths.
const FILES: usize = 5000;

/// Everything was measured, but not every bar is met.
const EXIT_IN_PART: u8 = 3;

fn main() -> ExitCode {
    if let Some(missing) = [Need::Root, Need::Fuse].into_iter().find_map(Need::missing) {
        eprintln!("bench-deaths: {missing}");
        return ExitCode::FAILURE;
    }
    println!("Machine: {}", Machine::here(".".as_ref()).described());
    let (job, files) = job(1, FILES, &[]);
    let waits = Mutex::new(Vec::new());
    let longest_read = files.read_all(&job, 0, DEATHS, |_| {
        let victim = job.kill_daemon(0);
        let began = Instant::now();
        // Figures of file systems are never cached: the next daemon answers.
        rustix::fs::statvfs(job.view(0)).unwrap();
        waits.lock().unwrap().push(began.elapsed().as_secs_f64() * 1e3);
        assert_ne!(job.daemon(0), Some(victim));
    });
    job.down();
    let waits = waits.into_inner().unwrap();
    let longest = waits.iter().copied().fold(0.0, f64::max);
    let bars = [
        Bar::new("an answer after a death, median", median(&waits), Side::AtMost, 10.0, "ms"),
        Bar::new("an answer after a death, longest", longest, Side::AtMost, 1000.0, "ms"),
        Bar::new("a read of a file, longest", longest_read.as_secs_f64() * 1e3, Side::AtMost, 3000.0, "ms"),
    ];
    println!("{DEATHS} deaths, {FILES} files, four readers; no error, no wrong byte");
    for bar in &bars {
        let verdict = if bar.met { "met" } else { "NOT MET" };
        println!("  {}: {} ({}): {verdict}", bar.what, bar.figure_text(), bar.bar_text());
    }
    if bars.iter().all(|bar| bar.met) { ExitCode::SUCCESS } else { ExitCode::from(EXIT_IN_PART) }
}
