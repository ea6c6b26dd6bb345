//! Appends of 1 MiB and one commit at the end, against a file written in the same pieces and synced.

use std::fs::{self, File};
use std::io::Write as _;
use std::time::Instant;

use forebay_bench::cpu;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use forebay_wire::log_record::RecordData;

use crate::place::{FILE, MIB, Place, noise};

/// MiB a run: twice what the kernel lets be dirty on a small node would be better, and takes too long here.
const RUN_MIB: usize = 1024;

#[derive(Default)]
struct Figures {
    mib_per_second: Samples,
    cpu_seconds_per_gib: Samples,
}

/// Measures both in turn.
pub fn measure(place: &Place) -> anyhow::Result<Measurement> {
    let bytes = noise(MIB);
    let (mut log, mut file) = (Figures::default(), Figures::default());
    for _ in 0..place.runs(10) {
        stop::check()?;
        timed(&mut file, || through_file(place, &bytes))?;
        fs::remove_file(place.path("file"))?;
        rustix::fs::sync();
        let store = place.log("stream", (RUN_MIB * MIB) as u64)?;
        timed(&mut log, || {
            for index in 0..RUN_MIB {
                store.append_data(RecordData::written(FILE, (index * MIB) as u64), &bytes)?;
            }
            Ok(store.commit(store.end())?)
        })?;
        store.wipe()?;
        rustix::fs::sync();
    }
    let ratio = log.mib_per_second.over(&file.mib_per_second);
    let mut measurement = Measurement::under(format!(
        "{RUN_MIB} MiB in pieces of 1 MiB by one thread and one commit, against a file written so and synced on the same file system; \
         {} pairs in turn",
        ratio.len()
    ));
    measurement
        .bar(Bar::new("1 MiB appends and a commit, against a file", ratio.median(), Side::AtLeast, 1.0, "x"))
        .bar(Bar::new("CPU of 1 MiB appends", log.cpu_seconds_per_gib.median(), Side::AtMost, 0.5, "s/GiB"))
        .figure("ratio", ratio)
        .figure("file_mib_per_second", file.mib_per_second)
        .figure("log_mib_per_second", log.mib_per_second)
        .figure("file_cpu_seconds_per_gib", file.cpu_seconds_per_gib)
        .figure("log_cpu_seconds_per_gib", log.cpu_seconds_per_gib);
    Ok(measurement)
}

fn through_file(place: &Place, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create(place.path("file"))?;
    for _ in 0..RUN_MIB {
        file.write_all(bytes)?;
    }
    Ok(file.sync_all()?)
}

fn timed(side: &mut Figures, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let (start, cpu) = (Instant::now(), cpu::of_this()?);
    run()?;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu::of_this()? - cpu);
    side.mib_per_second.add(RUN_MIB as f64 / seconds);
    side.cpu_seconds_per_gib.add(cpu.as_secs_f64() * 1024.0 / RUN_MIB as f64);
    Ok(())
}
