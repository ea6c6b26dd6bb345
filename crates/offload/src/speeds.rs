//! How fast this node makes parts: measured once by a sample for each kind of pass, then seen while parts are made. The
//! core says what a run teaches (`forebay_query::learned`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_query::{Burst, Collected, calibrate, learned};
use rustix::time::{ClockId, clock_gettime};

use crate::processors::{Cores, cores_for};

/// Busy times shorter than that tell little.
const TELLING: Duration = Duration::from_millis(10);

/// How much the host's last run counts beside those before.
const WEIGHT: f64 = 0.5;

/// The kind of a pass, which decides how long it takes.
type Kind = (bool, bool, bool, bool);

fn kind(collected: Collected) -> Kind {
    let is_of_pairs = collected.gramian || collected.covariance;
    (collected.bytes, collected.columns, is_of_pairs, collected.described)
}

/// How fast a node parses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Bytes in a second.
    pub bytes_per_s: f64,
    /// The bytes that it parses faster, at the beginning.
    pub burst: Burst,
}

/// Those of a node.
#[derive(Default)]
pub struct Speeds(Mutex<State>);

#[derive(Default)]
struct State {
    /// Seconds of one core for a byte.
    calibrated: BTreeMap<Kind, f64>,
    /// The last finding of the sample and the load, bytes a second of the whole node, and the period of its quota.
    expected: BTreeMap<Kind, (f64, Option<f64>)>,
    /// By how much the node is faster than that.
    factors: BTreeMap<Kind, f64>,
    /// By how much this host parses more slowly than it should.
    host_factors: BTreeMap<Kind, f64>,
    /// By how much bytes come to it more slowly than a sample of them says.
    host_reads: Option<f64>,
    busy: Option<Busy>,
}

/// A time in which there is always a part under way.
struct Busy {
    since: Instant,
    running: usize,
    bytes: u64,
    /// None once there were several.
    kind: Option<Kind>,
}

/// Seconds of one core for a byte, measured now.
#[must_use]
pub fn seconds_per_byte(collected: Collected) -> f64 {
    calibrate(collected, || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    })
}

impl Speeds {
    /// How fast the node parses with so many threads: as a sample and the load say, corrected by what was seen. May take
    /// some milliseconds.
    pub fn speed(&self, collected: Collected, threads: usize) -> Speed {
        let kind = kind(collected);
        let known = self.lock().calibrated.get(&kind).copied();
        let per_byte = known.unwrap_or_else(|| seconds_per_byte(collected));
        self.of_cores(kind, per_byte, cores_for(threads), threads)
    }

    fn of_cores(&self, kind: Kind, per_byte: f64, cores: Cores, threads: usize) -> Speed {
        let expected = cores.cores / per_byte;
        let mut state = self.lock();
        state.calibrated.insert(kind, per_byte);
        state.expected.insert(kind, (expected, cores.quota.map(|quota| quota.period_s)));
        let factor = state.factors.get(&kind).copied().unwrap_or(1.0);
        Speed { bytes_per_s: expected * factor, burst: cores.burst(threads, per_byte / factor) }
    }

    /// A part is begun.
    pub fn begin(&self, collected: Collected) {
        let kind = Some(kind(collected));
        let mut state = self.lock();
        let busy = state.busy.get_or_insert_with(|| Busy { since: Instant::now(), running: 0, bytes: 0, kind });
        busy.running += 1;
        if busy.kind != kind {
            busy.kind = None;
        }
    }

    /// It has ended, with so many bytes.
    pub fn end(&self, bytes: u64) {
        let mut state = self.lock();
        let Some(busy) = &mut state.busy else { return };
        busy.running -= 1;
        busy.bytes += bytes;
        if busy.running > 0 {
            return;
        }
        let Some(Busy { since, bytes, kind: Some(kind), .. }) = state.busy.take() else { return };
        let elapsed = since.elapsed();
        if elapsed >= TELLING && bytes > 0 {
            let elapsed = elapsed.as_secs_f64();
            let Some((expected, period_s)) = state.expected.get(&kind).copied() else { return };
            let factor = state.factors.entry(kind).or_insert(1.0);
            *factor = learned(*factor, bytes as f64 / elapsed / expected, elapsed, period_s);
        }
    }

    /// By how much this host parses more slowly than its sample says, and reads more slowly.
    pub fn host_factors(&self, collected: Collected) -> (f64, f64) {
        let state = self.lock();
        (state.host_factors.get(&kind(collected)).copied().unwrap_or(1.0), state.host_reads.unwrap_or(1.0))
    }

    /// This host took so much longer than its sample said, in what it waited for: parsing, or its bytes.
    pub fn saw_host(&self, collected: Collected, factor: f64, waited_for_bytes: bool) {
        if factor.is_finite() && factor > 0.0 {
            let now = factor.clamp(0.1, 10.0);
            let mut state = self.lock();
            let seen = match waited_for_bytes {
                true => state.host_reads.get_or_insert(now),
                false => state.host_factors.entry(kind(collected)).or_insert(now),
            };
            *seen += WEIGHT * (now - *seen);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processors::Quota;

    #[test]
    fn observed_speeds_correct_measured_ones() {
        let speeds = Speeds::default();
        let lines = Collected::default();
        let one = Cores { cores: 1.0, quota: None };
        let speed = |collected| speeds.of_cores(kind(collected), 1e-9, one, 1).bytes_per_s.round();
        assert!(speeds.speed(lines, 1).bytes_per_s > 1e6);
        assert_eq!(speed(lines), 1e9);
        let other = Collected { bytes: true, ..lines };
        assert_eq!(speed(other), 1e9);
        speeds.begin(lines);
        speeds.begin(lines);
        std::thread::sleep(TELLING);
        speeds.end(1000);
        speeds.end(1000);
        let seen = speed(lines);
        assert!(seen > 0.0 && seen < 0.7e9, "{seen}");
        // Parts of two kinds at once tell of neither.
        speeds.begin(lines);
        speeds.begin(other);
        std::thread::sleep(TELLING);
        speeds.end(1);
        speeds.end(1);
        assert_eq!((speed(lines), speed(other)), (seen, 1e9));
    }

    #[test]
    fn a_burst_is_not_taken_for_the_speed_of_a_node() {
        let speeds = Speeds::default();
        let lines = Collected::default();
        let quota = Some(Quota { cores: 0.15, period_s: 0.1 });
        let speed = || speeds.of_cores(kind(lines), 1e-9, Cores { cores: 0.15, quota }, 2);
        assert!((speed().burst.bytes - 7.5e6).abs() < 1.0 && (speed().bytes_per_s - 0.15e9).abs() < 1.0);
        speeds.begin(lines);
        std::thread::sleep(TELLING);
        // A core's worth, for some milliseconds.
        speeds.end(10_000_000);
        let after = speed().bytes_per_s;
        assert!(after < 1.5 * 0.15e9, "{after}");
    }

    #[test]
    fn the_host_is_seen_too() {
        let speeds = Speeds::default();
        let lines = Collected::default();
        assert_eq!(speeds.host_factors(lines), (1.0, 1.0));
        speeds.saw_host(lines, 2.0, false);
        speeds.saw_host(lines, 4.0, false);
        speeds.saw_host(lines, f64::NAN, false);
        speeds.saw_host(lines, 0.5, true);
        assert_eq!(speeds.host_factors(lines), (3.0, 0.5));
    }
}
