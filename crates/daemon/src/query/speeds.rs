//! How fast this node makes parts: measured once by a sample for each kind of pass, then seen while parts are made.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_query::{Collected, calibrate};
use rustix::time::{ClockId, clock_gettime};

use super::processors::cores_for;

/// Busy times shorter than that tell little.
const TELLING: Duration = Duration::from_millis(10);

/// How much what was seen last counts beside what was seen before.
const WEIGHT: f64 = 0.5;

/// What decides how long a pass takes.
type Kind = (bool, bool, bool);

fn kind(collected: Collected) -> Kind {
    (collected.bytes, collected.columns, collected.gramian)
}

/// Those of a node.
#[derive(Default)]
pub struct Speeds(Mutex<State>);

#[derive(Default)]
struct State {
    /// Seconds of one core for a byte.
    calibrated: BTreeMap<Kind, f64>,
    /// Bytes a second of the whole node.
    seen: BTreeMap<Kind, f64>,
    /// By how much this host takes longer than it should.
    host_factors: BTreeMap<Kind, f64>,
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
    /// Bytes that the node parses in a second with so many threads: as was seen, else as a sample and the load say.
    /// May take some milliseconds.
    pub fn bytes_per_s(&self, collected: Collected, threads: usize) -> f64 {
        let kind = kind(collected);
        if let Some(seen) = self.lock().seen.get(&kind) {
            return *seen;
        }
        let known = self.lock().calibrated.get(&kind).copied();
        let per_byte = known.unwrap_or_else(|| seconds_per_byte(collected));
        self.lock().calibrated.insert(kind, per_byte);
        cores_for(threads) / per_byte
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
            let now = bytes as f64 / elapsed.as_secs_f64();
            let seen = state.seen.entry(kind).or_insert(now);
            *seen += WEIGHT * (now - *seen);
        }
    }

    /// By how much this host takes longer than its sample says.
    pub fn host_factor(&self, collected: Collected) -> f64 {
        self.lock().host_factors.get(&kind(collected)).copied().unwrap_or(1.0)
    }

    /// This host took so much longer than its sample said.
    pub fn saw_host(&self, collected: Collected, factor: f64) {
        if factor.is_finite() && factor > 0.0 {
            let now = factor.clamp(0.1, 10.0);
            let mut state = self.lock();
            let seen = state.host_factors.entry(kind(collected)).or_insert(now);
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

    #[test]
    fn what_was_seen_takes_the_place_of_what_was_measured() {
        let speeds = Speeds::default();
        let lines = Collected::default();
        assert!(speeds.bytes_per_s(lines, 1) > 1e6);
        speeds.begin(lines);
        speeds.begin(lines);
        std::thread::sleep(TELLING);
        speeds.end(1000);
        speeds.end(1000);
        let seen = speeds.bytes_per_s(lines, 1);
        assert!(seen > 0.0 && seen <= 2000.0 / TELLING.as_secs_f64(), "{seen}");
        // Parts of two kinds at once tell of neither.
        let other = Collected { bytes: true, ..lines };
        speeds.begin(lines);
        speeds.begin(other);
        std::thread::sleep(TELLING);
        speeds.end(1);
        speeds.end(1);
        assert_eq!(speeds.bytes_per_s(lines, 1), seen);
        assert!(speeds.bytes_per_s(other, 1) > 1e6);
    }

    #[test]
    fn the_host_is_seen_too() {
        let speeds = Speeds::default();
        let lines = Collected::default();
        assert_eq!(speeds.host_factor(lines), 1.0);
        speeds.saw_host(lines, 2.0);
        speeds.saw_host(lines, 4.0);
        speeds.saw_host(lines, f64::NAN);
        assert_eq!(speeds.host_factor(lines), 3.0);
    }
}
