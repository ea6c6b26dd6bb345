//! 4 KiB appends, each committed before the next, by several threads, against threads that write and sync a file each.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::Instant;

use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use forebay_wire::log_record::RecordData;

use crate::place::{FILE, Place, noise};

const BYTES: usize = 4096;

/// Of each thread.
const COMMITS: usize = 640;

/// Threads, and what the figure must be: the prototype's, ±15 %.
const CASES: [(usize, f64); 3] = [(1, 0.72), (4, 0.87), (16, 1.08)];

/// Measures every case in turn.
pub fn measure(place: &Place) -> anyhow::Result<Measurement> {
    let bytes = noise(BYTES);
    let mut measurement = Measurement::under(format!(
        "{COMMITS} appends a thread of {BYTES} bytes, each committed before the next one, against as many threads that append to a \
         file each and fdatasync; {} pairs in turn",
        place.runs(10)
    ));
    for (threads, bar) in CASES {
        let (mut log, mut files) = (Samples::default(), Samples::default());
        for _ in 0..place.runs(10) {
            stop::check()?;
            files.add(by_files(place, threads, &bytes)?);
            log.add(by_log(place, threads, &bytes)?);
        }
        let ratio = log.over(&files);
        let what = format!("4 KiB and a commit, {threads} threads, against files");
        measurement
            .bar(Bar::new(what, ratio.median(), Side::AtLeast, bar, "x"))
            .figure(&format!("ratio_{threads}"), ratio)
            .figure(&format!("log_commits_per_second_{threads}"), log)
            .figure(&format!("file_syncs_per_second_{threads}"), files);
    }
    Ok(measurement)
}

fn by_log(place: &Place, threads: usize, bytes: &[u8]) -> anyhow::Result<f64> {
    let log = place.log("commits", 64 << 20)?;
    let rate = rate(threads, |index, _| {
        let appended = log.append_data(RecordData::written(FILE, (index * BYTES) as u64), bytes)?;
        Ok(log.commit(appended.sequence.next())?)
    })?;
    log.wipe()?;
    Ok(rate)
}

fn by_files(place: &Place, threads: usize, bytes: &[u8]) -> anyhow::Result<f64> {
    let paths: Vec<_> = (0..threads).map(|thread| place.path(&format!("file-{thread}"))).collect();
    let files = paths.iter().map(File::create).collect::<Result<Vec<_>, _>>()?;
    let rate = rate(threads, |index, thread| {
        files[thread].write_all_at(bytes, (index * BYTES) as u64)?;
        Ok(files[thread].sync_data()?)
    })?;
    paths.iter().try_for_each(std::fs::remove_file)?;
    Ok(rate)
}

/// How often a second all threads together carry out `act`, which gets their count and their number.
fn rate(threads: usize, act: impl Fn(usize, usize) -> anyhow::Result<()> + Sync) -> anyhow::Result<f64> {
    let start = Instant::now();
    thread::scope(|scope| {
        let act = &act;
        let work = |thread| move || (0..COMMITS).try_for_each(|index| act(index, thread));
        let started: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        started.into_iter().try_for_each(|thread| thread.join().expect("a panic ends the process"))
    })?;
    Ok((COMMITS * threads) as f64 / start.elapsed().as_secs_f64())
}
