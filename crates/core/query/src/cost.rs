//! The cost of a query by place: on the host, at the nodes that hold the bytes, or at both ends.
//!
//! A node parses at `threads` times its share of a core over the seconds that a byte takes; several add up. The host parses
//! as fast, or as slowly as its bytes come. A control group that gives a share of a core gives it anew in every period, at
//! once: a short query is over before that is used up. Results have a few kilobytes, so their time on a link is
//! left out. The times of runs correct later predictions (`learned`).

use std::collections::BTreeMap;

use crate::describe::DescribedColumns;
use crate::limits::BLOCK_BYTES;
use crate::operator::Collected;
use crate::pass::{Block, Kept, Pass};
use crate::probe::schema_of;
use crate::reading::Reading;
use crate::row::OnText;

/// The part of the better end's time that both ends together must save: they keep two places busy, and the ends are never as
/// independent as the sum of their rates has it. On emulated devices, where it was 15 %, splits that were to save little
/// took 1 to 3 % longer than the better end.
const SPLIT_GAIN: f64 = 0.2;

/// Bytes that both ends wait for at the end, when one has nothing left to do and makes what the other has under way: half of
/// some parts of a block each, and of a large file, whose parts are larger, a share.
const LAST_BYTES: f64 = 1.5 * BLOCK_BYTES as f64;
const LAST_SHARE: f64 = 1.0 / 24.0;

/// Of seconds of work, how many it takes until they count as much as all that was seen before.
const TELLING_S: f64 = 0.02;

/// As many periods of a control group's quota do: what a run gets depends on where in a period it begins.
const TELLING_PERIODS: f64 = 10.0;

/// Bytes of what is parsed to see how fast that is.
const SAMPLE_BYTES: usize = 128 << 10;

/// One end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// Bytes it parses in a second, with all that it has.
    pub parses: f64,
    /// Bytes that come to it in a second.
    pub reads: f64,
    /// Seconds until it has begun.
    pub begins: f64,
    /// Its faster parsing at the beginning.
    pub burst: Burst,
}

/// The parsing of an end before its control group holds it back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Burst {
    /// Bytes that it is ahead then.
    pub bytes: f64,
    /// Bytes that it parses in a second until then.
    pub bytes_per_s: f64,
}

impl Burst {
    /// Of threads that parse so many bytes a second together, under a quota of so many cores in periods of so many seconds:
    /// half a period's worth, as nobody knows where in a period it is.
    pub fn of(bytes_per_s: f64, threads: usize, quota: f64, period_s: f64) -> Self {
        let each = bytes_per_s / (threads as f64).max(1.0);
        Self { bytes: each * quota * period_s / 2.0, bytes_per_s }
    }

    fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, bytes_per_s: self.bytes_per_s + other.bytes_per_s }
    }
}

impl End {
    /// Bytes it gets through in a second.
    fn rate(&self) -> f64 {
        self.parses.min(self.reads).max(1.0)
    }

    fn seconds(&self, bytes: f64) -> f64 {
        let Burst { bytes: ahead, bytes_per_s } = self.burst;
        let sustained = (bytes - ahead).max(0.0) / self.rate();
        let at_once = bytes / bytes_per_s.max(self.parses).min(self.reads).max(1.0);
        self.begins + sustained.max(at_once)
    }
}

/// The ends that answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The host.
    Host,
    /// The nodes that hold the bytes.
    Data,
    /// Both.
    Split,
}

/// Bytes of files that the same nodes can read.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// How many.
    pub bytes: u64,
    /// The nodes, by rank.
    pub nodes: BTreeMap<u32, End>,
}

impl Share {
    fn ends(&self) -> Vec<End> {
        self.nodes.values().copied().collect()
    }
}

/// The predicted time of each choice, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The host alone.
    pub host: f64,
    /// The nodes alone.
    pub data: f64,
    /// Both at once, in proportion.
    pub split: f64,
}

impl Prediction {
    /// For so many bytes, at the host and at nodes that share them.
    pub fn new(bytes: u64, host: End, nodes: &[End]) -> Self {
        let bytes = bytes as f64;
        let rate: f64 = nodes.iter().map(End::rate).sum();
        let begins = nodes.iter().map(|node| node.begins).fold(0.0, f64::max);
        let burst = nodes.iter().fold(Burst::default(), |all, node| all.and(node.burst));
        let data = End { parses: rate, reads: f64::INFINITY, begins, burst };
        let both = End {
            parses: rate + host.rate(),
            begins: begins.max(host.begins),
            burst: Burst { bytes_per_s: burst.bytes_per_s.max(rate) + host.rate(), ..burst },
            ..data
        };
        let last = LAST_BYTES.max(LAST_SHARE * bytes).min(bytes) / host.rate().max(rate);
        Self { host: host.seconds(bytes), data: data.seconds(bytes), split: both.seconds(bytes) + last }
    }

    /// For files that different nodes share, at the host and at these nodes at the same time; `here` bytes are the host's in any case.
    ///
    /// The slowest shares decide: each node has its own, and the host helps where most is left.
    pub fn of_shares(here: u64, host: End, shares: &[Share]) -> Self {
        let alone = |share: &Share| Self::new(share.bytes, host, &share.ends()).data;
        let mut shares: Vec<(f64, &Share)> = shares.iter().map(|share| (alone(share), share)).collect();
        shares.sort_by(|left, right| right.0.total_cmp(&left.0));
        let own = if here > 0 { host.seconds(here as f64) } else { 0.0 };
        let mut all = Self { host: own, data: own, split: own };
        let mut together = Share { bytes: 0, nodes: BTreeMap::new() };
        for (alone, share) in shares {
            together.bytes += share.bytes;
            together.nodes.extend(&share.nodes);
            let ends = together.ends();
            all.data = all.data.max(alone).max(Self::new(together.bytes, host, &ends).data);
            all.split = all.split.max(Self::new(here + together.bytes, host, &ends).split);
        }
        all.host = host.seconds((here + together.bytes) as f64);
        all
    }

    /// The fastest; both ends only where that saves much.
    pub fn choice(&self) -> Choice {
        if self.split < (1.0 - SPLIT_GAIN) * self.host.min(self.data) {
            Choice::Split
        } else if self.data < self.host {
            Choice::Data
        } else {
            Choice::Host
        }
    }

    /// Of a choice.
    pub fn of(&self, choice: Choice) -> f64 {
        match choice {
            Choice::Host => self.host,
            Choice::Data => self.data,
            Choice::Split => self.split,
        }
    }
}

/// Threads' worth of `cores` that `threads` get beside `load` others that want to run.
pub fn share(threads: usize, cores: f64, load: f64) -> f64 {
    let threads = threads as f64;
    let wanted = threads + load.max(0.0);
    if wanted <= cores { threads } else { cores * threads / wanted }
}

/// By what a prediction is to be multiplied, which was by `before`: a run of so many seconds was faster by `now` than one
/// without any factor would have been. Runs under a quota tell less, the longer its periods are.
pub fn learned(before: f64, now: f64, seconds: f64, period_s: Option<f64>) -> f64 {
    let telling = period_s.map_or(TELLING_S, |period_s| TELLING_PERIODS * period_s);
    before + (now.clamp(0.01, 100.0) - before) * seconds / (seconds + telling)
}

/// Seconds that a byte takes one thread, as `now`, its seconds of processor time, says.
pub fn calibrate(collected: Collected, now: impl Fn() -> f64) -> f64 {
    let sample = sample();
    let mut pass = pass(&sample, collected);
    let block =
        Block { bytes: &sample, len: sample.len(), offset: 0, is_quoted: false, follows_newline: true, is_end: true };
    let one = |pass: &mut Pass| {
        let began = now();
        std::hint::black_box(pass.block(block));
        now() - began
    };
    // The first warms caches up; whatever comes between makes one slower, never faster.
    let seconds = (0..5).map(|_| one(&mut pass)).fold(f64::INFINITY, f64::min);
    seconds.max(1e-9) / sample.len() as f64
}

fn pass(sample: &[u8], collected: Collected) -> Pass {
    match schema_of(sample, true, &Reading::default()) {
        Ok(Some(schema)) if collected.columns => {
            let columns = schema.numeric_columns();
            let numbers = if collected.described { columns.clone() } else { vec![] };
            let described = DescribedColumns { numbers, texts: vec![] };
            let kept = Kept { described: &described, ..Kept::summed(&columns, OnText::Bad) };
            Pass::new(&schema, kept, collected)
        }
        _ => Pass::of_bytes(collected),
    }
}

/// Rows of eight numbers, some 70 bytes each.
fn sample() -> Vec<u8> {
    let mut text = Vec::with_capacity(SAMPLE_BYTES + 128);
    let mut state = 12345u32;
    while text.len() < SAMPLE_BYTES {
        for column in 0..8 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let end = if column == 7 { '\n' } else { ',' };
            text.extend(format!("{}.{:04}{end}", state >> 22, (state >> 8) % 10_000).bytes());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const GB: f64 = 1e9;

    fn host(reads: f64) -> End {
        End { parses: 0.6 * GB, reads, begins: 0.0, burst: Burst::default() }
    }

    /// Of 15 % of a core.
    fn device() -> End {
        End { parses: 0.09 * GB, reads: 5.0 * GB, begins: 0.01, burst: Burst::default() }
    }

    fn chosen(link: f64, devices: usize) -> Choice {
        Prediction::new(1_000_000_000, host(link), &vec![device(); devices]).choice()
    }

    #[test]
    fn a_slow_link_sends_the_query_to_the_data_and_a_fast_one_brings_the_data() {
        assert_eq!(chosen(0.012 * GB, 1), Choice::Data);
        assert_eq!(chosen(0.012 * GB, 8), Choice::Data);
        // 1 Gbit/s: about as fast at both ends, so both.
        assert_eq!(chosen(0.12 * GB, 1), Choice::Split);
        assert_eq!(chosen(1.2 * GB, 1), Choice::Host);
        assert_eq!(chosen(1.2 * GB, 8), Choice::Split);
    }

    #[test]
    fn small_files_are_not_worth_a_round_trip() {
        let near = Prediction::new(1000, host(0.12 * GB), &[End { begins: 0.002, ..device() }; 8]);
        assert_eq!(near.choice(), Choice::Host);
        assert!(near.of(Choice::Data) > near.of(Choice::Host));
    }

    #[test]
    fn rates_add_up() {
        let Prediction { host, data, split } = Prediction::new(1_200_000_000, host(0.12 * GB), &[device(); 2]);
        assert!((host - 10.0).abs() < 1e-9 && (data - (0.01 + 1.2 / 0.18)).abs() < 1e-9);
        assert!((split - (0.01 + 1.2 / 0.3 + 1.2 / 24.0 / 0.18)).abs() < 1e-9);
    }

    #[test]
    fn nodes_with_files_of_their_own_work_at_the_same_time() {
        let share =
            |bytes, ranks: std::ops::Range<u32>| Share { bytes, nodes: ranks.map(|rank| (rank, device())).collect() };
        let predicted = |shares: &[Share]| Prediction::of_shares(0, host(0.12 * GB), shares);
        let one = predicted(&[share(90_000_000, 0..1)]);
        assert_eq!(one, Prediction::new(90_000_000, host(0.12 * GB), &[device()]));
        let four = predicted(&[0, 1, 2, 3].map(|rank| share(90_000_000, rank..rank + 1)));
        assert!((four.data - one.data).abs() < 1e-9, "{four:?}");
        assert!((four.host - 3.0).abs() < 1e-9);
        // The host helps the one that has the most.
        let uneven = predicted(&[share(9_000_000, 0..1), share(900_000_000, 1..2)]);
        assert!((uneven.data - 10.01).abs() < 1e-9 && uneven.split > 900.0 / 210.0 && uneven.split < 6.0, "{uneven:?}");
        // Nodes of two shares are there once.
        let both = predicted(&[share(90_000_000, 0..2), share(90_000_000, 1..2)]);
        assert!((both.data - 1.01).abs() < 1e-9, "{both:?}");
        // The host's own files take it as long as they do.
        let own = Prediction::of_shares(240_000_000, host(0.12 * GB), &[share(90_000_000, 0..1)]);
        assert!((own.data - 2.0).abs() < 1e-9 && (own.host - 2.75).abs() < 1e-9, "{own:?}");
    }

    #[test]
    fn the_burst_of_a_quota_is_soon_used_up() {
        // 15 % of a core that parses 0.6 GB a second, in periods of 0.1 s: 4.5 MB are ahead.
        let burst = Burst::of(0.6 * GB, 1, 0.15, 0.1);
        let device = End { begins: 0.0, burst, ..device() };
        let data = |bytes| Prediction::new(bytes, host(GB), &[device]).data;
        assert!((burst.bytes - 4.5e6).abs() < 1.0);
        assert!((data(3_000_000) - 0.005).abs() < 1e-9, "at full speed");
        assert!((data(94_500_000) - 1.0).abs() < 1e-9, "as much as the quota gives, but for the beginning");
        let two = Prediction::new(189_000_000, host(GB), &[device; 2]).data;
        assert!((two - 1.0).abs() < 1e-9);
        assert_eq!(Burst::of(1.2 * GB, 2, 0.15, 0.1).bytes, burst.bytes, "the quota is all threads' one");
    }

    #[test]
    fn a_short_run_under_a_quota_teaches_little() {
        // A burst makes 20 ms look three times as fast.
        assert!(learned(1.0, 3.0, 0.02, Some(0.1)) < 1.05);
        assert!((learned(1.0, 3.0, 0.02, None) - 2.0).abs() < 1e-9);
        assert!(learned(1.0, 0.25, 20.0, Some(0.1)) < 0.3);
        assert!(learned(1.0, f64::INFINITY, 1.0, None).is_finite());
    }

    #[test]
    fn a_split_that_would_save_little_is_none() {
        // 20 % by the sum of the rates, less when the last parts are waited for.
        let near = End { parses: 0.15 * GB, ..device() };
        let prediction = Prediction::new(1_000_000_000, host(0.6 * GB), &[near]);
        assert!(prediction.split < 0.85 * prediction.host);
        assert_eq!(prediction.choice(), Choice::Host);
        // Of a few blocks, each end would have one or two.
        let few = |blocks: u64| Prediction::new(blocks * BLOCK_BYTES, host(0.1 * GB), &[device()]).choice();
        assert_eq!((few(4), few(40)), (Choice::Host, Choice::Split));
    }

    #[test]
    fn a_loaded_machine_gives_its_threads_less() {
        assert_eq!(share(4, 4.0, 0.0), 4.0);
        assert_eq!(share(4, 4.0, 4.0), 2.0);
        assert_eq!(share(2, 4.0, 1.5), 2.0);
        assert_eq!(share(2, 0.15, 0.0), 0.15);
    }

    #[test]
    fn a_byte_takes_what_the_fastest_of_some_runs_says() {
        let ticks = Cell::new(0.0);
        let slower = Cell::new(1.0);
        let now = || {
            slower.set(slower.get() + 1.0);
            ticks.set(ticks.get() + slower.get());
            ticks.get()
        };
        let all =
            Collected { bytes: true, columns: true, sums: true, gramian: true, covariance: true, described: true };
        let per_byte = calibrate(all, now);
        assert!((per_byte * sample().len() as f64 - 3.0).abs() < 1e-9, "the first run took 3 s, the others more");
        let row_bytes = sample().len() / sample().iter().filter(|byte| **byte == b'\n').count();
        assert!((65..80).contains(&row_bytes), "{row_bytes}");
    }
}
