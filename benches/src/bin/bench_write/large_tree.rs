//! Effects of a large tree on programs: when the daemon of its owner dies, and when its standby has fallen far behind.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use tempfile::TempDir;

use crate::bed::{Bed, Setup, seconds};

/// Files of the tree, all and quick, in directories of a thousand.
const FILES: (usize, usize) = (1_000_000, 50_000);
const IN_DIRECTORY: usize = 1000;

/// Symbolic links whose targets are more changes than the leader keeps for a standby.
const LINKS: usize = 6000;
const TARGET_BYTES: usize = 3000;

/// A standby that has not everything by then never has.
const PATIENCE: Duration = Duration::from_secs(300);

/// Changes of another node are this far apart.
const PAUSE: Duration = Duration::from_millis(20);

/// Measures both.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let backing = TempDir::new()?;
    let files = if bed.is_quick() { FILES.1 } else { FILES.0 };
    for directory in 0..files / IN_DIRECTORY {
        stop::check()?;
        let directory = backing.path().join(directory.to_string());
        fs::create_dir(&directory)?;
        (0..IN_DIRECTORY).try_for_each(|name| File::create(directory.join(name.to_string())).map(drop))?;
    }
    let setup = Setup {
        name: "large-tree",
        nodes: 2,
        backing: Some(backing.path()),
        stores: None,
        capacity: "8GiB",
        options: &["--drain", "manual", "--budget", "4GiB"],
    };
    let job = bed.beside(&setup)?;
    let looked_up = seconds(|| look_up(&job.mount(0)))?;
    wait_for_standby(&job)?;
    let (mut answered, mut killed, mut waits) = (Samples::default(), Samples::default(), Samples::default());
    for run in 0..bed.runs(3) {
        stop::check()?;
        let _ = job.kill_daemon(0)?;
        let began = Instant::now();
        // Another one each time: no node has been told of it.
        answered.add(seconds(|| Ok(fs::metadata(job.mount(1).join(format!("{run}/{run}"))).map(drop)?))?);
        waits.add(longest_change(&job, run, || wait_for_standby(&job))?);
        killed.add(began.elapsed().as_secs_f64());
    }
    job.while_it_stands_still(1, || change_much(&job.mount(0)))?;
    let began = Instant::now();
    let waited = longest_change_of(&job.mount(0).join("meanwhile"), || wait_for_standby(&job))?;
    let behind = began.elapsed().as_secs_f64();
    let mut measurement = Measurement::under(format!(
        "{files} files that one node has looked up, in directories of {IN_DIRECTORY}; two nodes; the leader's daemon is killed, {} times; then \
         the standby stands still during {LINKS} changes of {TARGET_BYTES} bytes, which are more than the leader keeps for it",
        answered.len()
    ));
    measurement
        .bar(Bar::new("a stat after the death of the leader's daemon", answered.median(), Side::AtMost, 5.0, "s"))
        .bar(Bar::new("the standby has everything after it", killed.median(), Side::AtMost, 60.0, "s"))
        .bar(Bar::new("the longest change of the other node meanwhile", waits.median(), Side::AtMost, 1.0, "s"))
        .bar(Bar::new("the standby has everything after it fell far behind", behind, Side::AtMost, 60.0, "s"))
        .bar(Bar::new("the longest change of the leader's node meanwhile", waited, Side::AtMost, 1.0, "s"))
        .figure("look_up_seconds", looked_up)
        .figure("answered_seconds", answered)
        .figure("second_home_seconds", killed)
        .figure("longest_change_seconds", waits);
    // The tree is only looked at: nothing is to land but the links.
    drop(job);
    Ok(measurement)
}

/// As `find` does.
fn look_up(directory: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.metadata()?.is_dir() {
            stop::check()?;
            look_up(&entry.path())?;
        }
    }
    Ok(())
}

fn change_much(directory: &Path) -> anyhow::Result<()> {
    let target = "x".repeat(TARGET_BYTES);
    let links = directory.join("links");
    fs::create_dir(&links)?;
    Ok((0..LINKS).try_for_each(|link| symlink(&target, links.join(link.to_string())))?)
}

fn wait_for_standby(job: &Bed) -> anyhow::Result<()> {
    let began = Instant::now();
    while job.second_home_behind() != Some(0) {
        stop::check()?;
        ensure!(began.elapsed() < PATIENCE, "the standby does not follow");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn longest_change(job: &Bed, run: usize, until: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    longest_change_of(&job.mount(1).join(format!("meanwhile-{run}")), until)
}

/// Seconds of the longest of the changes that are made until `until` is over.
fn longest_change_of(directory: &Path, until: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let is_over = AtomicBool::new(false);
    fs::create_dir(directory)?;
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| -> anyhow::Result<f64> {
            let mut longest = 0.0_f64;
            for number in 0.. {
                longest = longest.max(seconds(|| Ok(fs::create_dir(directory.join(number.to_string()))?))?);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            Ok(longest)
        });
        let outcome = until();
        is_over.store(true, Ordering::Relaxed);
        let longest = changes.join().unwrap_or_else(|_| anyhow::bail!("a program panicked"));
        outcome.and(longest)
    })
}
