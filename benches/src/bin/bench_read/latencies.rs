//! The part of a daemon's processor time that recording latencies takes.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::ensure;
use forebay_bench::job::Job;
use forebay_bench::latencies::{recorded, recording_ns};
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bench::Bench;

/// Bytes of a read past the page cache: a page.
const BYTES: usize = 4096;

/// Requests of each kind in a run.
const FILES: usize = 10_000;
const READS: u64 = 30_000;

/// A buffer that begins with a page.
#[repr(align(4096))]
struct Page([u8; BYTES]);

/// Counts what is recorded while programs read small files for the first time, and pages past the page cache.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let directory = bench.directory_of(FILES)?;
    let large = bench.random_file("pages", READS * BYTES as u64)?;
    let (mut cost, mut files, mut pages) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..bench.runs(5) {
        stop::check()?;
        let ns = recording_ns()?;
        cost.add(ns);
        let job = bench.up_local(1, bench.files.path(), &[])?;
        files.add(share(&job, ns, || read_all(&job.in_view(0, &directory)?))?);
        pages.add(share(&job, ns, || read_pages(&job.in_view(0, &large)?))?);
        job.down()?;
    }
    let mut measurement = Measurement::under(format!(
        "one node over a local file system; {FILES} small files read for the first time, {READS} reads of 4 KiB past the page cache; the part is \
         the number of latencies that the daemon recorded, times the processor time of one recording in this process, over the daemon's; {} runs",
        cost.len()
    ));
    for (what, share) in [("first reads of small files", &files), ("reads of 4 KiB", &pages)] {
        let what = format!("recording latencies, part of the daemon's processor time, {what}");
        measurement.bar(Bar::new(&what, share.median(), Side::AtMost, 1.0, "%"));
    }
    measurement.figure("recording_ns", cost).figure("files_percent", files).figure("pages_percent", pages);
    Ok(measurement)
}

fn share(job: &Job, ns: f64, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let now = || -> anyhow::Result<_> {
        let status = job.status()?;
        Ok((status.cpu_now(), recorded(&status.nodes[0].latency)?))
    };
    let (cpu_before, recorded_before) = now()?;
    work()?;
    let (cpu, recorded) = now()?;
    ensure!(recorded > recorded_before, "no request was recorded");
    Ok((recorded - recorded_before) as f64 * ns / (cpu - cpu_before).as_nanos() as f64 * 100.0)
}

fn read_all(directory: &Path) -> anyhow::Result<()> {
    Ok(fs::read_dir(directory)?.try_for_each(|entry| fs::read(entry?.path()).map(drop))?)
}

fn read_pages(file: &Path) -> anyhow::Result<()> {
    let mut options = File::options();
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = options.read(true).custom_flags(direct).open(file)?;
    let mut page = Box::new(Page([0; BYTES]));
    Ok((0..READS).try_for_each(|number| file.read_exact_at(&mut page.0, number * BYTES as u64))?)
}
