//! How soon the next daemon serves a store that is full.

use std::fs::{self, File};
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::ensure;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::{Bed, MIB, noise, seconds};

/// MiB in the log, all and quick.
const LOG_MIB: (usize, usize) = (10 << 10, 1 << 10);

/// A daemon that has not begun by then does not begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures from the death of a daemon until a program is answered.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let (bytes, log_mib) = (noise(MIB), if bed.is_quick() { LOG_MIB.1 } else { LOG_MIB.0 });
    let (path, mut times) = (bed.mount(1).join("log"), Samples::default());
    // Open, it does not land.
    let mut file = File::create(&path)?;
    for _ in 0..log_mib {
        stop::check()?;
        file.write_all(&bytes)?;
    }
    file.sync_all()?;
    for _ in 0..bed.runs(5) {
        stop::check()?;
        let killed = bed.kill_daemon(1)?;
        times.add(seconds(|| Ok(fs::metadata(&path).map(drop)?))?);
        let deadline = Instant::now() + PATIENCE;
        while bed.pid(1).is_none_or(|pid| pid == killed) {
            ensure!(Instant::now() < deadline, "no daemon is there again");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    drop(file);
    fs::remove_file(&path)?;
    bed.settle()?;
    let mut measurement = Measurement::under(format!(
        "{log_mib} MiB in the log of one node, in records of 1 MiB; its daemon is killed and a program stats a file there; the pages of \
         the log are in memory; {} runs",
        times.len()
    ));
    measurement
        .bar(Bar::new(
            format!("a program is answered after a daemon's death, {log_mib} MiB in its log"),
            times.median(),
            Side::AtMost,
            2.0,
            "s",
        ))
        .figure("restart_seconds", times);
    Ok(measurement)
}
