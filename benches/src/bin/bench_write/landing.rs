//! Processor time of landing large files, apart from their writing.

use std::fs::{self, File};
use std::io::Write as _;

use anyhow::ensure;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::{Bed, MIB, Setup, noise, seconds};

/// Files of a run, and MiB of each.
const FILES: usize = 4;
const FILE_MIB: usize = 1024;

const MIB_PER_GIB: f64 = 1024.0;

/// Measures a drain of files that are written and durable.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let setup = Setup {
        name: "landing",
        nodes: 1,
        backing: None,
        stores: None,
        capacity: "6GiB",
        // No file lands while it is written.
        options: &["--drain", "manual"],
    };
    let job = bed.beside(&setup)?;
    let (bytes, gib) = (noise(MIB), (FILES * FILE_MIB) as f64 / MIB_PER_GIB);
    let (mut cpu, mut rate) = (Samples::default(), Samples::default());
    for _ in 0..bed.runs(5) {
        stop::check()?;
        let paths: Vec<_> = (0..FILES).map(|number| job.mount(0).join(format!("file-{number}"))).collect();
        for path in &paths {
            let mut file = File::create(path)?;
            (0..FILE_MIB).try_for_each(|_| file.write_all(&bytes))?;
            file.sync_all()?;
        }
        ensure!(job.not_landed()? == (FILES * FILE_MIB * MIB) as u64, "something has landed before the drain");
        let before = job.daemon_cpu(0)?;
        rate.add(gib * MIB_PER_GIB / seconds(|| job.settle())?);
        cpu.add((job.daemon_cpu(0)? - before).as_secs_f64() / gib);
        paths.iter().try_for_each(fs::remove_file)?;
        job.settle()?;
    }
    job.down()?;
    let mut measurement = Measurement::under(format!(
        "one node; a drain of {FILES} files of {FILE_MIB} MiB, which were written and synced before; the processor time is the daemon's, user \
         and system; files land on the file system of the store; {} runs",
        cpu.len()
    ));
    measurement
        .bar(Bar::new("the daemon's processor time, landing", cpu.median(), Side::AtMost, 0.6, "s/GiB"))
        .figure("cpu_seconds_per_gib", cpu)
        .figure("landed_mib_per_second", rate);
    Ok(measurement)
}
