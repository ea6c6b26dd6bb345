//! Reading on another node what is in the writer's log.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;

use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::{Bed, MIB, noise, seconds};

/// MiB of one run.
const RUN_MIB: usize = 512;

/// Measures the first reading, and one that the kernel answers.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let bytes = noise(MIB);
    let (mut cold, mut warm, mut direct) = (Samples::default(), Samples::default(), Samples::default());
    let mib_per_second = |path: &Path| Ok::<_, anyhow::Error>(RUN_MIB as f64 / seconds(|| read(path))?);
    for _ in 0..bed.runs(5) {
        stop::check()?;
        let mut file = File::create(bed.mount(0).join("back"))?;
        let mut plain = File::create(bed.direct().join("back"))?;
        for _ in 0..RUN_MIB {
            file.write_all(&bytes)?;
            plain.write_all(&bytes)?;
        }
        // Open, it does not land.
        file.sync_all()?;
        let path = bed.mount(1).join("back");
        cold.add(mib_per_second(&path)?);
        direct.add(mib_per_second(&bed.direct().join("back"))?);
        warm.add(mib_per_second(&path)?);
        drop((file, plain));
        bed.settle()?;
        fs::remove_file(bed.mount(0).join("back"))?;
        fs::remove_file(bed.direct().join("back"))?;
        bed.settle()?;
    }
    let ratio = warm.over(&direct);
    let mut measurement = Measurement::under(format!(
        "{RUN_MIB} MiB in the log of one node, read by a program of the other in pieces of 1 MiB: for the first time, and again by another \
         descriptor, against a file in the page cache of the disk's file system; {} runs",
        ratio.len()
    ));
    measurement
        .bar(Bar::new("the first reading", cold.median() * MIB as f64 / 1e9, Side::AtLeast, 1.0, "GB/s"))
        .bar(Bar::new("again, against the page cache", ratio.median(), Side::AtLeast, 1.0, "x"))
        .figure("cold_mib_per_second", cold)
        .figure("warm_mib_per_second", warm)
        .figure("direct_mib_per_second", direct);
    Ok(measurement)
}

fn read(path: &Path) -> anyhow::Result<()> {
    let (mut file, mut piece) = (File::open(path)?, vec![0; MIB]);
    while file.read(&mut piece)? > 0 {}
    Ok(())
}
