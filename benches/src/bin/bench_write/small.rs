//! Small writes, and small files.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::{Bed, noise, seconds};

/// Bytes of a write, and of a file.
const BYTES: usize = 4096;

/// Writes of one run.
const WRITES: usize = 20_000;

/// Files of one run.
const FILES: usize = 10_000;

/// Measures both in turn.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let bytes = noise(BYTES);
    let mut sides = [
        (bed.direct(), Samples::default(), Samples::default()),
        (bed.mount(0), Samples::default(), Samples::default()),
    ];
    for _ in 0..bed.runs(10) {
        stop::check()?;
        for (directory, writes, files) in &mut sides {
            writes.add(WRITES as f64 / seconds(|| write(directory, &bytes))?);
            bed.settle()?;
            files.add(FILES as f64 / seconds(|| make(directory, &bytes))?);
            bed.settle()?;
            fs::remove_dir_all(directory.join("small"))?;
            fs::remove_file(directory.join("tiny"))?;
            bed.settle()?;
        }
    }
    let [(_, direct_writes, direct_files), (_, writes, files)] = sides;
    let (write_ratio, file_ratio) = (writes.over(&direct_writes), files.over(&direct_files));
    let mut measurement = Measurement::under(format!(
        "{WRITES} writes of 4 KiB in order and one fsync; {FILES} files of 4 KiB, made, written and closed one after the other by one \
         thread, without fsync; the disk and the burst mount in turn, {} times. What is written lands meanwhile: small files are closed.",
        write_ratio.len()
    ));
    measurement
        .bar(Bar::new("writes of 4 KiB, against the disk", write_ratio.median(), Side::AtLeast, 0.3, "x"))
        .bar(Bar::new("small files, against the disk", file_ratio.median(), Side::AtLeast, 0.7, "x"))
        .figure("write_ratio", write_ratio)
        .figure("file_ratio", file_ratio)
        .figure("burst_writes_per_second", writes)
        .figure("direct_writes_per_second", direct_writes)
        .figure("burst_files_per_second", files)
        .figure("direct_files_per_second", direct_files);
    Ok(measurement)
}

fn write(directory: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create(directory.join("tiny"))?;
    (0..WRITES).try_for_each(|_| file.write_all(bytes))?;
    Ok(file.sync_all()?)
}

fn make(directory: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let directory = directory.join("small");
    fs::create_dir(&directory)?;
    (0..FILES).try_for_each(|number| fs::write(directory.join(number.to_string()), bytes))?;
    Ok(())
}
