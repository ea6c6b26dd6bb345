//! The first reading after another node's change, by a program that has the file open.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::Bed;

/// Bytes that are written and read.
const BYTES: usize = 4096;

/// Changes of one run.
const CHANGES: u64 = 400;

/// Measures it, and the next reading of the same bytes, which the kernel answers.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let [at_writer, at_reader] = [0, 1].map(|node| bed.mount(node).join("changes"));
    let (mut change, mut first, mut again) = (Samples::default(), Samples::default(), Samples::default());
    let mut old = 0;
    fs::write(&at_writer, [0; BYTES])?;
    let open = File::open(&at_reader)?;
    for _ in 0..bed.runs(5) {
        let mut seconds = [(); 3].map(|()| Vec::new());
        for number in 0..CHANGES {
            stop::check()?;
            let bytes = number.to_le_bytes().repeat(BYTES / size_of::<u64>());
            let began = Instant::now();
            File::options().write(true).open(&at_writer)?.write_all_at(&bytes, 0)?;
            seconds[0].push(began.elapsed().as_secs_f64());
            for seconds in &mut seconds[1..] {
                let (mut found, began) = ([0; BYTES], Instant::now());
                open.read_exact_at(&mut found, 0)?;
                seconds.push(began.elapsed().as_secs_f64());
                old += u64::from(found[..] != bytes[..]);
            }
        }
        let [a_change, a_first, an_again] = seconds.map(median);
        change.add(a_change * 1e6);
        first.add(a_first * 1e6);
        again.add(an_again * 1e6);
    }
    drop(open);
    fs::remove_file(&at_writer)?;
    let mut measurement = Measurement::under(format!(
        "{CHANGES} times, one node opens a file, writes {BYTES} bytes and closes it, and a program of the other, which has it open, reads \
         them twice; medians of {} runs in microseconds",
        first.len()
    ));
    measurement
        .bar(Bar::new("readings of old bytes", old as f64, Side::AtMost, 0.0, ""))
        .figure("change", change)
        .figure("first_reading", first)
        .figure("second_reading", again);
    Ok(measurement)
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
