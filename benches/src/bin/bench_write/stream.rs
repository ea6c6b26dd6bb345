//! Large writes: a file by one writer, and one file by four.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::{Bed, MIB, noise, seconds};

/// MiB of one run.
const RUN_MIB: u64 = 512;

/// Threads that write one file.
const WRITERS: u64 = 4;

/// MiB a second.
#[derive(Default)]
struct Rates {
    own: Samples,
    extended: Samples,
    sized: Samples,
}

/// Measures both in turn.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let bytes = noise(MIB);
    let (mut burst, mut direct, mut cpu) = (Rates::default(), Rates::default(), Samples::default());
    for _ in 0..bed.runs(10) {
        stop::check()?;
        write_all_ways(&mut direct, &bed.direct(), &bytes, &sync)?;
        let before = bed.daemons_cpu()?;
        write_all_ways(&mut burst, &bed.mount(0), &bytes, &|| bed.settle())?;
        let written_gib = 3.0 * RUN_MIB as f64 / 1024.0;
        cpu.add((bed.daemons_cpu()? - before).as_secs_f64() / written_gib);
    }
    let ratio = burst.own.over(&direct.own);
    let (sized, extended) = (burst.sized.over(&burst.own), burst.extended.over(&burst.own));
    let mut measurement = Measurement::under(format!(
        "{RUN_MIB} MiB in writes of 1 MiB and one fsync, on the burst mount and directly on the file system of its store, {} times in \
         turn; one file: {WRITERS} threads, each its own quarter, against one thread with a file of its own on the same mount; the \
         daemons' processor time has the landing in it",
        ratio.len()
    ));
    measurement
        .bar(Bar::new(
            "a file by one writer, against the disk (1.0 less 5 %)",
            ratio.median(),
            Side::AtLeast,
            0.95,
            "x",
        ))
        .bar(Bar::new("four writers of one file, its size set before", sized.median(), Side::AtLeast, 0.9, "x"))
        .bar(Bar::new("four writers that extend it", extended.median(), Side::AtLeast, 0.75, "x"))
        .figure("ratio", ratio)
        .figure("four_sized_over_one", sized)
        .figure("four_extending_over_one", extended)
        .figure("direct_four_sized_over_one", direct.sized.over(&direct.own))
        .figure("direct_four_extending_over_one", direct.extended.over(&direct.own))
        .figure("burst_mib_per_second", burst.own)
        .figure("direct_mib_per_second", direct.own)
        .figure("daemon_cpu_seconds_per_gib_landed", cpu);
    Ok(measurement)
}

fn sync() -> anyhow::Result<()> {
    rustix::fs::sync();
    Ok(())
}

fn write_all_ways(
    rates: &mut Rates,
    directory: &Path,
    bytes: &[u8],
    settle: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let timed = |samples: &mut Samples, writers: u64, size: Option<u64>| {
        let path = directory.join("file");
        let file = File::create(&path)?;
        size.map_or(Ok(()), |size| file.set_len(size))?;
        samples.add(RUN_MIB as f64 / seconds(|| write(&file, writers, bytes))?);
        drop(file);
        settle()?;
        fs::remove_file(&path)?;
        settle()
    };
    timed(&mut rates.own, 1, None)?;
    timed(&mut rates.extended, WRITERS, None)?;
    timed(&mut rates.sized, WRITERS, Some(RUN_MIB * MIB as u64))
}

fn write(file: &File, writers: u64, bytes: &[u8]) -> anyhow::Result<()> {
    let share = RUN_MIB / writers;
    std::thread::scope(|scope| {
        let write = |writer| {
            move || (writer * share..(writer + 1) * share).try_for_each(|at| file.write_all_at(bytes, at * MIB as u64))
        };
        let threads: Vec<_> = (0..writers).map(|writer| scope.spawn(write(writer))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into())))
    })?;
    Ok(file.sync_all()?)
}
