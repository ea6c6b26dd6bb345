//! The part of a daemon's processor time that recording latencies takes.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::ensure;
use forebay_bench::latencies::recording_ns;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::{Bed, Setup};

/// Bytes of a write and of a read. A page, as reads past the page cache have to be.
const BYTES: usize = 4096;

/// Requests of each kind in a run.
const WRITES: u64 = 100_000;
const FILES: u64 = 10_000;
const READS: u64 = 30_000;

/// A buffer that begins with a page.
#[repr(align(4096))]
struct Page([u8; BYTES]);

/// Counts what is recorded while programs write, make files and read, and times so many recordings by themselves.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let setup = Setup {
        name: "latencies",
        nodes: 1,
        backing: None,
        stores: None,
        capacity: "2GiB",
        // Landing records little for its time.
        options: &["--drain", "manual"],
    };
    let job = bed.beside(&setup)?;
    let place = job.mount(0);
    let mut shares = [Samples::default(), Samples::default(), Samples::default()];
    let mut cost = Samples::default();
    for run in 0..bed.runs(5) {
        stop::check()?;
        let ns = recording_ns()?;
        cost.add(ns);
        let work: [&dyn Fn() -> anyhow::Result<()>; 3] = [&|| write(&place), &|| make(&place, run), &|| read(&place)];
        for (share, work) in shares.iter_mut().zip(work) {
            let (before, recorded) = (job.daemon_cpu(0)?, job.recorded()?);
            work()?;
            let (spent, recorded) = (job.daemon_cpu(0)? - before, job.recorded()? - recorded);
            ensure!(recorded > 0, "no request was recorded");
            share.add(recorded as f64 * ns / spent.as_nanos() as f64 * 100.0);
        }
    }
    job.settle()?;
    job.down()?;
    let mut measurement = Measurement::under(format!(
        "one node; {WRITES} writes of 4 KiB, {FILES} files made and closed, {READS} reads of 4 KiB past the page cache; the part is the number \
         of latencies that the daemon recorded, times the processor time of one recording in this process, over the daemon's; {} runs",
        cost.len()
    ));
    let [writes, files, reads] = shares;
    for (what, share) in [("writes", &writes), ("files", &files), ("reads", &reads)] {
        let what = format!("recording latencies, part of the daemon's processor time, {what}");
        measurement.bar(Bar::new(&what, share.median(), Side::AtMost, 1.0, "%"));
    }
    measurement
        .figure("recording_ns", cost)
        .figure("writes_percent", writes)
        .figure("files_percent", files)
        .figure("reads_percent", reads);
    Ok(measurement)
}

fn write(place: &Path) -> anyhow::Result<()> {
    let file = File::create(place.join("written"))?;
    (0..WRITES).try_for_each(|number| file.write_all_at(&[7; BYTES], number * BYTES as u64))?;
    Ok(file.sync_all()?)
}

fn make(place: &Path, run: usize) -> anyhow::Result<()> {
    let directory = place.join(format!("made-{run}"));
    std::fs::create_dir(&directory)?;
    Ok((0..FILES).try_for_each(|number| File::create(directory.join(number.to_string())).map(drop))?)
}

fn read(place: &Path) -> anyhow::Result<()> {
    let mut options = File::options();
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = options.read(true).custom_flags(direct).open(place.join("written"))?;
    let mut page = Box::new(Page([0; BYTES]));
    Ok((0..READS).try_for_each(|number| file.read_exact_at(&mut page.0, number * BYTES as u64))?)
}
