//! A checkpoint while the backing file system is much slower than the node's disk, and while an earlier one drains.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use anyhow::ensure;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use tempfile::TempDir;

use crate::bed::{Bed, MIB, Setup, noise, seconds};
use crate::limited_disk::LimitedDisk;

/// MiB of one checkpoint.
const CHECKPOINT_MIB: usize = 512;

/// MiB of what drains meanwhile: more than can land at half of the disk's rate while the other is written.
const EARLIER_MIB: usize = 1024;

/// Measures in turn: without a limit, with one, and with a drain under way.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let place = TempDir::new()?;
    let disk = LimitedDisk::new(4 << 30, place.path())?;
    let setup = Setup {
        name: "slow-backing",
        nodes: 1,
        backing: Some(place.path()),
        stores: None,
        capacity: "6GiB",
        options: &[],
    };
    let job = bed.beside(&setup)?;
    let bytes = noise(MIB);
    let rate = rate_of(&bed.direct(), &bytes)?;
    let (mut free, mut capped, mut draining) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..bed.runs(10) {
        stop::check()?;
        free.add(checkpoint(&job, &bytes)?);
        end_of_run(&job, &disk)?;

        disk.limit(Some(rate / 10))?;
        capped.add(checkpoint(&job, &bytes)?);
        ensure!(job.not_landed()? > 0, "what was written had landed already: the limit does not work");
        end_of_run(&job, &disk)?;

        disk.limit(Some(rate / 2))?;
        // It lands from its close on.
        write(&job.mount(0).join("earlier"), EARLIER_MIB, &bytes)?;
        draining.add(checkpoint(&job, &bytes)?);
        ensure!(
            job.not_landed()? > (CHECKPOINT_MIB * MIB) as u64,
            "the drain had ended before the checkpoint was written"
        );
        end_of_run(&job, &disk)?;
    }
    job.down()?;
    let (with_cap, with_drain) = (capped.over(&free), draining.over(&free));
    let mut measurement = Measurement::under(format!(
        "one node; {CHECKPOINT_MIB} MiB in writes of 1 MiB, one fsync and close, seconds; BACKING is ext4 on a loop device in memory; without a \
         limit, limited to a tenth of the rate of the store's disk ({} MiB/s in this run), and limited to half of it while a file of \
         {EARLIER_MIB} MiB drains; {} times in turn",
        rate / MIB as u64,
        free.len()
    ));
    measurement
        .bar(Bar::new(
            "a checkpoint, BACKING at a tenth of the disk's rate",
            with_cap.median(),
            Side::AtMost,
            1.05,
            "x",
        ))
        .bar(Bar::new("a checkpoint, a drain at half the rate under way", with_drain.median(), Side::AtMost, 1.05, "x"))
        .figure("capped_over_free", with_cap)
        .figure("draining_over_free", with_drain)
        .figure("free_seconds", free)
        .figure("capped_seconds", capped)
        .figure("draining_seconds", draining);
    Ok(measurement)
}

/// Seconds that a program waits.
fn checkpoint(job: &Bed, bytes: &[u8]) -> anyhow::Result<f64> {
    seconds(|| write(&job.mount(0).join("checkpoint"), CHECKPOINT_MIB, bytes))
}

fn write(path: &Path, mib: usize, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    (0..mib).try_for_each(|_| file.write_all(bytes))?;
    Ok(file.sync_all()?)
}

/// Bytes a second of the file system that the store lies on: the fastest of three runs.
fn rate_of(directory: &Path, bytes: &[u8]) -> anyhow::Result<u64> {
    let path = directory.join("rate");
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        best = best.min(seconds(|| write(&path, CHECKPOINT_MIB, bytes))?);
        fs::remove_file(&path)?;
    }
    Ok(((CHECKPOINT_MIB * MIB) as f64 / best) as u64)
}

/// Everything lands, and goes.
fn end_of_run(job: &Bed, disk: &LimitedDisk) -> anyhow::Result<()> {
    disk.limit(None)?;
    job.settle()?;
    for entry in fs::read_dir(job.mount(0))? {
        fs::remove_file(entry?.path())?;
    }
    job.settle()
}
