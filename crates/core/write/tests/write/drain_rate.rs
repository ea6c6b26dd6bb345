//! The rate of a drain, and what it predicts.

use std::time::Duration;

use forebay_types::Time;
use forebay_write::DrainRate;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// The rate that `DrainRate` assumes before it has measured anything large.
const ASSUMED: f64 = 1e8;

/// A clock and what it measures.
#[derive(Default)]
struct Bed {
    now: Time,
    rate: DrainRate,
}

impl Bed {
    fn pass(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
    }

    /// A file of so many bytes, by parts that take so long each.
    fn send(&mut self, parts: u64, part_bytes: u64, millis: u64) {
        self.rate.begin(self.now);
        for _ in 0..parts {
            self.pass(millis);
            self.rate.landed(self.now, part_bytes);
        }
        self.rate.step();
        self.rate.end(self.now);
    }

    fn bytes_per_s(&self) -> f64 {
        self.rate.bytes_per_s(self.now, 0).unwrap() as f64
    }

    fn seconds_for(&self, bytes: u64, steps: u64) -> f64 {
        self.rate.time_for(bytes, steps, self.now, 0).as_secs_f64()
    }
}

#[test]
fn no_rate_is_known_before_the_first_bytes() {
    let mut bed = Bed::default();
    assert!(!bed.rate.is_known(1) && bed.rate.bytes_per_s(bed.now, 0).is_none());
    bed.rate.begin(bed.now);
    bed.pass(60_000);
    bed.rate.end(bed.now);
    assert!(!bed.rate.is_known(1), "an attempt that failed is no measurement");
    assert!((bed.seconds_for(1_500_000_000, 1) - 15.0).abs() < 0.001);
}

/// The first part of each file waits for nothing, so that four parts take the time of three.
#[test]
fn a_rate_is_not_above_the_limit_of_the_drain() {
    let limit = MIB;
    let mut bed = Bed { rate: DrainRate::limited(Some(limit)), ..Bed::default() };
    for _ in 0..3 {
        bed.rate.begin(bed.now);
        bed.rate.landed(bed.now, MIB);
        for _ in 1..4 {
            bed.pass(1000);
            bed.rate.landed(bed.now, MIB);
            let shown = bed.rate.bytes_per_s(bed.now, 0);
            assert!(shown.is_none_or(|rate| rate <= limit), "{shown:?}");
        }
        bed.rate.step();
        bed.rate.end(bed.now);
        // Programs write nothing for a while.
        bed.pass(60_000);
    }
    assert!(bed.bytes_per_s() > 0.99 * limit as f64);
    let small = 64 << 10;
    bed = Bed { rate: DrainRate::limited(Some(limit)), ..Bed::default() };
    (0..100).for_each(|_| bed.send(1, small, 1));
    assert!(bed.bytes_per_s() <= limit as f64);
}

/// One small file in 50 ms was believed to be 80 kB/s, so that 1.5 GB took five hours.
#[test]
fn a_small_file_tells_nothing_of_large_ones() {
    let mut bed = Bed::default();
    bed.send(1, 4096, 50);
    let predicted = bed.seconds_for(1_500_000_000, 1);
    assert!((15.0..15.1).contains(&predicted), "{predicted}");
    assert!(bed.rate.bytes_per_s(bed.now, 0).is_none(), "80 kB/s would be no rate");
    assert!(bed.rate.is_known(4096) && !bed.rate.is_known(1_500_000_000));
    // Nor do many of them, and what is large is measured by what was large.
    (0..10_000).for_each(|_| bed.send(1, 4096, 50));
    assert!((15.0..15.1).contains(&bed.seconds_for(1_500_000_000, 1)));
    bed.send(8, 8 * MIB, 10);
    let predicted = bed.seconds_for(838_860_800, 1);
    assert!((1.0..1.2).contains(&predicted), "800 MiB at 800 MiB/s: {predicted}");
}

#[test]
fn many_small_files_take_as_long_each_as_they_did() {
    let mut bed = Bed::default();
    (0..1000).for_each(|_| bed.send(1, 4096, 50));
    let predicted = bed.seconds_for(100_000 * 4096, 100_000);
    assert!((5000.0..5010.0).contains(&predicted), "{predicted}");
}

/// The window held the last bytes of a file alone when these took longer than it: 500 MB were to take days.
#[test]
fn last_bytes_that_wait_for_a_disk_are_no_rate_of_their_own() {
    let mut bed = Bed::default();
    bed.rate.begin(bed.now);
    bed.pass(1000);
    bed.rate.landed(bed.now, 100 * MIB);
    bed.pass(15_000);
    bed.rate.landed(bed.now, 10);
    bed.rate.end(bed.now);
    let told = bed.bytes_per_s() / MIB as f64;
    assert!((6.0..7.0).contains(&told), "100 MiB in 16 s: {told}");
    bed.send(100, 4 * MIB, 100);
    let told = bed.bytes_per_s() / MIB as f64;
    assert!((39.0..41.0).contains(&told), "the window has moved on: {told}");
}

#[test]
fn files_that_do_not_land_lower_the_rate() {
    let mut bed = Bed::default();
    bed.send(10, 100 * MIB, 100);
    bed.rate.begin(bed.now);
    bed.pass(1000);
    let begun = 1000 * MIB;
    let told = |bed: &Bed| bed.rate.bytes_per_s(bed.now, begun).unwrap() / MIB;
    assert_eq!(told(&bed), 1000, "it takes as long as it should");
    bed.pass(1000);
    assert_eq!(told(&bed), 500);
    bed.pass(8000);
    assert_eq!(told(&bed), 100);
}

proptest! {
    /// Whatever was before, ten seconds of sending decide; and pauses do not count.
    #[test]
    fn the_last_seconds_of_sending_decide(
        before in prop::collection::vec((1u64..50, 1u64..64, 1u64..500, 0u64..100_000), 0..20),
        part in 4u64..64,
        millis in 1u64..400,
        pause in 0u64..100_000,
    ) {
        let mut bed = Bed::default();
        for (parts, part, millis, pause) in before {
            bed.send(parts, part * MIB, millis);
            bed.pass(pause);
        }
        let mut sent = 0;
        // The window, and one sample that began before it.
        while sent < 10_600 {
            bed.send(4, part * MIB, millis);
            bed.pass(pause);
            sent += 4 * millis;
        }
        let expected = (part * MIB) as f64 * 1000.0 / millis as f64;
        let told = bed.bytes_per_s();
        prop_assert!((told / expected - 1.0).abs() < 0.01, "{told} and not {expected}");
    }

    /// The prediction is never further from the truth than the samples are, for files of one size after each other.
    #[test]
    fn the_rest_takes_as_long_as_the_same_did(bytes in 1u64..(1 << 30), millis in 1u64..20_000, left in 1u64..1000) {
        let mut bed = Bed::default();
        (0..100).for_each(|_| bed.send(1, bytes, millis));
        let told = bed.seconds_for(left * bytes, left);
        let truth = left as f64 * millis as f64 / 1000.0;
        // A small file's bytes are counted beside its step, at the rate that is assumed.
        let assumed = if bytes < 4 * MIB { (left * bytes) as f64 / ASSUMED } else { 0.0 };
        prop_assert!((told - truth - assumed).abs() <= 0.01 * truth + 0.001, "{told} and not {truth}");
    }

    /// However it is called, it stays finite and small.
    #[test]
    fn no_order_of_calls_breaks_it(calls in prop::collection::vec((0u8..5, any::<u64>(), 0u64..1_000_000), 0..300)) {
        let mut bed = Bed::default();
        for (call, bytes, millis) in calls {
            bed.pass(millis);
            match call {
                0 => bed.rate.begin(bed.now),
                1 => bed.rate.landed(bed.now, bytes),
                2 => bed.rate.end(bed.now),
                3 => bed.rate.step(),
                _ => bed.now = Time(bed.now.0.saturating_sub(millis * 1_000_000)),
            }
            let _ = bed.rate.time_for(bytes, bytes, bed.now, bytes);
            prop_assert!(bed.rate.bytes_per_s(bed.now, bytes) != Some(0));
        }
    }
}
