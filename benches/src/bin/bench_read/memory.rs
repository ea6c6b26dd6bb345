//! The memory of the daemons: after an import, and while far more than the budget passes through them.

use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use forebay_bench::job::Status;
use forebay_bench::storm;
use forebay_testkit::Place;
use forebay_testkit::results::{Bar, Measurement, Side};

use crate::bench::{Bench, read_whole};

const MIB: f64 = 1024.0 * 1024.0;

/// For the import: with fan-out 2 and one root, every second of 8 nodes is a leaf.
const IMPORT_NODES: usize = 8;
const FIRST_LEAF: usize = 1;

/// For the large file: root, inner node and leaf in a row, each with this budget.
const ROW_NODES: usize = 3;
const BUDGET_MIB: f64 = 256.0;

/// The memory that a daemon may hold beside its budget, MiB.
const BESIDE_BUDGET_MIB: f64 = 64.0;

const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Measures both.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let large_bytes: u64 = if bench.quick { 2_000_000_000 } else { 20_000_000_000 };
    let mut measurement = Measurement::under(format!(
        "resident memory as the kernel counts it (VmRSS; VmHWM for the highest); {IMPORT_NODES} nodes with fan-out 2 and one root after \
         the import on all of them at once, every second from node {FIRST_LEAF} to {} being a leaf; then {ROW_NODES} nodes in a row with a \
         budget of {BUDGET_MIB} MiB each while node {} reads a file of {:.0} GB",
        IMPORT_NODES - 1,
        ROW_NODES - 1,
        large_bytes as f64 / 1e9
    ));
    after_import(bench, &mut measurement)?;
    while_passing(bench, large_bytes, &mut measurement)?;
    Ok(measurement)
}

fn after_import(bench: &Bench, measurement: &mut Measurement) -> anyhow::Result<()> {
    let job = bench.up_local(IMPORT_NODES, &bench.tree, &["--fanout", "2", "--roots", "1"])?;
    let status = job.status()?;
    let idle = resident(&status, "VmRSS");
    let views = (0..IMPORT_NODES).map(|rank| job.in_view(rank, &bench.tree));
    let commands = views.map(|view| Ok(Place::here().gated("", &bench.python.import(&view?))));
    storm::at_once(commands.collect::<anyhow::Result<_>>()?)?;
    let after = resident(&status, "VmRSS");
    let leaf = after.iter().skip(FIRST_LEAF).step_by(2).copied().fold(0.0, f64::max);
    measurement
        .bar(Bar::new("a leaf's daemon after the import", leaf, Side::AtMost, 48.0, "MiB"))
        .figure("idle_rss_mib_by_rank", idle)
        .figure("after_import_rss_mib_by_rank", after)
        .figure("after_import_highest_rss_mib_by_rank", resident(&status, "VmHWM"));
    job.down().map(drop)
}

fn while_passing(bench: &Bench, bytes: u64, measurement: &mut Measurement) -> anyhow::Result<()> {
    // A file without blocks reads as zeros at memory speed and needs no disk.
    let large = bench.files.path().join("large");
    File::create(&large)?.set_len(bytes).context("cannot make a sparse file")?;
    let budget = format!("{BUDGET_MIB}MiB");
    let job = bench.up_local(ROW_NODES, bench.files.path(), &["--fanout", "1", "--budget", &budget])?;
    let status = job.status()?;
    let argv = read_whole(&job.in_view(ROW_NODES - 1, &large)?);
    let (done, status) = (AtomicBool::new(false), &status);
    let (read, highest) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(status, &done));
        let read = bench.timed(&argv);
        done.store(true, Ordering::Relaxed);
        (read, watcher.join())
    });
    let read = read?;
    let highest = highest.map_err(|_| anyhow::anyhow!("the thread that watched memory is gone"))?;
    let highest = highest.into_iter().zip(resident(status, "VmHWM")).map(|(seen, told)| seen.max(told));
    let highest: Vec<f64> = highest.collect();
    let what = format!("any daemon above its budget while {:.0} GB pass", bytes as f64 / 1e9);
    let over = highest.iter().copied().fold(0.0, f64::max) - BUDGET_MIB;
    measurement
        .bar(Bar::new(what, over, Side::AtMost, BESIDE_BUDGET_MIB, "MiB"))
        .figure("passing_highest_rss_mib_by_rank", highest)
        .figure("passing_bytes", bytes)
        .figure("passing_mb_per_second", bytes as f64 / 1e6 / read.wall.as_secs_f64());
    job.down()?;
    fs::remove_file(&large).context("removing the large file")
}

/// The highest VmRSS seen of each daemon until `done`.
fn watch(status: &Status, done: &AtomicBool) -> Vec<f64> {
    let mut highest = vec![0.0; status.nodes.len()];
    while !done.load(Ordering::Relaxed) {
        for (most, now) in highest.iter_mut().zip(resident(status, "VmRSS")) {
            *most = f64::max(*most, now);
        }
        thread::sleep(SAMPLE_EVERY);
    }
    highest
}

/// A field of /proc/PID/status of every daemon, MiB.
fn resident(status: &Status, field: &str) -> Vec<f64> {
    status.nodes.iter().map(|node| field_mib(node.pid, field).unwrap_or(0.0)).collect()
}

fn field_mib(pid: u32, field: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: f64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0 / MIB)
}
