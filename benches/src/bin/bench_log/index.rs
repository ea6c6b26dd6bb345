//! How long a log takes to be opened again: every record is named, nothing was closed properly before.

use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use forebay_log::{Recovered, RecoveredRecord};
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use forebay_types::LogPosition;
use forebay_wire::log_record::RecordData;
use rustix::fs::{Advice, fadvise};

use crate::place::{FILE, MIB, Place, noise, recovery};

/// Bytes of a record, and of all.
struct Case {
    name: &'static str,
    record_bytes: usize,
    total_bytes: u64,
}

/// Measures logs of large and of small records, with nothing of them in memory and with all that fits.
pub fn measure(place: &Place) -> anyhow::Result<Measurement> {
    let gib = 1 << 30;
    let cases = [
        Case { name: "1_mib", record_bytes: MIB, total_bytes: place.index_gib * gib },
        Case { name: "4_kib", record_bytes: 4096, total_bytes: (place.index_gib * gib / 4).max(gib) },
    ];
    let mut measurement = Measurement::under(format!(
        "logs of {} GiB in records of 1 MiB and of {:.1} GiB in records of 4 KiB, dropped without a commit, opened {} times each with \
         none of their pages in memory and {} times again right after; open, all records, and the log ready for appends",
        place.index_gib,
        cases[1].total_bytes as f64 / gib as f64,
        place.runs(5),
        place.runs(5)
    ));
    for case in cases {
        let (mut cold, mut warm) = (Samples::default(), Samples::default());
        let path = place.path(case.name);
        write(place, &case)?;
        // The first time all pages that were written are in memory.
        let first = open(&path, &case)?;
        for _ in 0..place.runs(5) {
            stop::check()?;
            forget(&path)?;
            cold.add(open(&path, &case)?);
            warm.add(open(&path, &case)?);
        }
        fs::remove_dir_all(&path)?;
        let name = case.name;
        let what = format!("index of {:.1} GiB, {name} records, cold", case.total_bytes as f64 / gib as f64);
        measurement
            .bar(Bar::new(what, cold.median(), Side::AtMost, 2.0, "s"))
            .figure(&format!("first_seconds_{name}"), first)
            .figure(&format!("cold_seconds_{name}"), cold)
            .figure(&format!("warm_seconds_{name}"), warm);
    }
    Ok(measurement)
}

fn write(place: &Place, case: &Case) -> anyhow::Result<()> {
    let log = place.log(case.name, case.total_bytes)?;
    let bytes = noise(case.record_bytes);
    for index in 0..case.total_bytes / bytes.len() as u64 {
        log.append_data(RecordData::written(FILE, index * bytes.len() as u64), &bytes)?;
    }
    Ok(())
}

/// Seconds until the log takes appends.
fn open(path: &Path, case: &Case) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut recovery = recovery(path, case.total_bytes)?;
    let mut live: Vec<(LogPosition, u64)> = Vec::new();
    while let Some(Recovered { position, record, .. }) = recovery.next()? {
        if let RecoveredRecord::Data { bytes, .. } = record {
            live.push((position, bytes.into()));
        }
    }
    anyhow::ensure!(live.len() as u64 == case.total_bytes / case.record_bytes as u64, "{} records", live.len());
    let log = recovery.finish(live)?;
    let seconds = start.elapsed().as_secs_f64();
    drop(log);
    Ok(seconds)
}

/// Has the kernel forget all pages of a store.
fn forget(store: &Path) -> anyhow::Result<()> {
    for file in fs::read_dir(store)? {
        let file = File::open(file?.path())?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
