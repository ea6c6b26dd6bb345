//! How fast a job's files land, and how long the rest takes.
//!
//! Only time in which something is being sent counts, and only the last seconds of it. A large amount of bytes shows the rate. A
//! small one shows how long a step takes, whatever its size: one file of 4 KiB in 50 ms is not a file system of 80 kB/s. So both are
//! measured apart, and a prediction adds them. Time is the caller's.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_types::Time;

/// How much busy time is looked back at. Shorter, one slow call would decide; longer, a file system that slows down is believed for too long.
const WINDOW: Duration = Duration::from_secs(10);

/// Samples of less time than that are added to the next: so many samples are kept at most, as `WINDOW` has of them.
const SAMPLE: Duration = Duration::from_millis(100);

/// From so many bytes on the rate decides how long it takes, not the number of calls: as many as are written in one.
const LARGE_BYTES: u64 = 4 << 20;

/// The rate assumed until something large was sent, bytes a second.
const RATE_ASSUMED: u64 = 100_000_000;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct DrainRate {
    /// `--drain-rate`. The first bytes after a pause need not wait for it, and the time that they are worth comes after them.
    limit_bytes_per_s: Option<u64>,
    large: Window,
    small: Window,
    /// The amount that is under way, if there is one.
    under_way: Option<UnderWay>,
}

/// An amount that is being sent.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    /// Until when it is in a window.
    since: Time,
    /// Bytes that have landed since then.
    bytes: u64,
    /// Steps of the tree that are done.
    steps: u64,
    is_large: bool,
}

impl DrainRate {
    /// Of a drain that sends so much a second at most.
    #[must_use]
    pub fn limited(limit_bytes_per_s: Option<u64>) -> Self {
        Self { limit_bytes_per_s, ..Self::default() }
    }

    /// The time that an amount has taken, with what it is worth by the limit.
    fn busy(&self, took: Duration, bytes: u64) -> Duration {
        let worth = self.limit_bytes_per_s.map(|limit| seconds(bytes as f64 / limit.max(1) as f64));
        took.max(worth.unwrap_or_default())
    }

    /// Sending begins.
    pub fn begin(&mut self, now: Time) {
        self.under_way = Some(UnderWay { since: now, bytes: 0, steps: 0, is_large: false });
    }

    /// So many bytes of what is under way have landed.
    pub fn landed(&mut self, now: Time, bytes: u64) {
        let Some(mut under_way) = self.under_way else { return };
        under_way.bytes = under_way.bytes.saturating_add(bytes);
        if under_way.bytes >= LARGE_BYTES {
            let busy = self.busy(now.since(under_way.since), under_way.bytes);
            self.large.add(Sample { busy, bytes: under_way.bytes, steps: 0 }, LARGE_BYTES);
            under_way = UnderWay { since: now, bytes: 0, is_large: true, ..under_way };
        }
        self.under_way = Some(under_way);
    }

    /// A step of the tree is done with it.
    pub fn step(&mut self) {
        if let Some(under_way) = &mut self.under_way {
            under_way.steps += 1;
        }
    }

    /// It has ended. Where nothing of it landed, it says nothing.
    pub fn end(&mut self, now: Time) {
        let Some(UnderWay { since, bytes, steps, is_large }) = self.under_way.take() else { return };
        let sample = Sample { busy: self.busy(now.since(since), bytes), bytes, steps };
        match is_large {
            true => self.large.add(sample, LARGE_BYTES),
            // Contents that are sent ahead are no step, and take as long as one.
            false if bytes > 0 || steps > 0 => self.small.add(Sample { steps: steps.max(1), ..sample }, 0),
            false => {}
        }
    }

    /// How fast it went lately, bytes a second: what was large, if anything was, else many small files. `None` where little was sent:
    /// the time of a few small files is that of their calls. Of `begun_bytes`, which are being sent, none has landed yet: if they take
    /// longer than at the rate of before, the rate is lower.
    #[must_use]
    pub fn bytes_per_s(&self, now: Time, begun_bytes: u64) -> Option<u64> {
        let open = self.under_way.map_or(Duration::ZERO, |under_way| now.since(under_way.since));
        self.large.bytes_per_s(open, begun_bytes).or_else(|| self.small.bytes_per_s(Duration::ZERO, 0))
    }

    /// The time for so many bytes and steps, of which `begun_bytes` are being sent. Rates not measured yet are assumed.
    #[must_use]
    pub fn time_for(&self, bytes: u64, steps: u64, now: Time, begun_bytes: u64) -> Duration {
        let open = self.under_way.map_or(Duration::ZERO, |under_way| now.since(under_way.since));
        let rate = self.large.bytes_per_s(open, begun_bytes).unwrap_or(RATE_ASSUMED);
        seconds(bytes as f64 / rate as f64 + self.small.seconds_of_a_step() * steps as f64)
    }

    /// Whether the time for so many bytes was measured: a large amount needs a rate, a small one the time of a step.
    #[must_use]
    pub fn is_known(&self, bytes: u64) -> bool {
        let has_rate = self.large.sum.bytes >= LARGE_BYTES;
        has_rate || bytes < LARGE_BYTES && !self.small.samples.is_empty()
    }
}

/// The amount that landed in a time.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    busy: Duration,
    bytes: u64,
    steps: u64,
}

/// The newest samples that are `WINDOW` together, or more by the first of them.
#[derive(Clone, Debug, Default)]
struct Window {
    samples: VecDeque<Sample>,
    sum: Sample,
}

impl Window {
    /// Adds one, and forgets the oldest, but for the last `least_bytes`: the last bytes of a file may wait for its disk, and alone they
    /// would be believed to be the rate.
    fn add(&mut self, sample: Sample, least_bytes: u64) {
        self.sum = plus(self.sum, sample);
        match self.samples.back_mut().filter(|last| last.busy < SAMPLE) {
            Some(last) => *last = plus(*last, sample),
            None => self.samples.push_back(sample),
        }
        while let Some(first) = self.samples.front().copied()
            && self.sum.busy.saturating_sub(first.busy) >= WINDOW
            && self.sum.bytes.saturating_sub(first.bytes) >= least_bytes
        {
            self.samples.pop_front();
            self.sum = self.samples.iter().copied().fold(Sample::default(), plus);
        }
    }

    /// At least 1, since what takes for ever has no rate; `None` where less than `LARGE_BYTES` were measured.
    fn bytes_per_s(&self, open: Duration, begun_bytes: u64) -> Option<u64> {
        let Sample { busy, bytes, .. } = self.sum;
        if bytes < LARGE_BYTES {
            return None;
        }
        let busy = busy.max(Duration::from_micros(1)).as_secs_f64();
        let expected = busy * begun_bytes as f64 / bytes as f64;
        let late = (open.as_secs_f64() - expected).max(0.0);
        Some(((bytes as f64 / (busy + late)) as u64).max(1))
    }

    fn seconds_of_a_step(&self) -> f64 {
        self.sum.busy.as_secs_f64() / self.sum.steps.max(1) as f64
    }
}

fn plus(one: Sample, other: Sample) -> Sample {
    Sample {
        busy: one.busy.saturating_add(other.busy),
        bytes: one.bytes.saturating_add(other.bytes),
        steps: one.steps.saturating_add(other.steps),
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
