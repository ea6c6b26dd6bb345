//! What a query costs where: on the host, at the nodes that hold the bytes, or at both ends.
//!
//! A node parses at `threads` times its share of a core over the seconds that a byte takes; several add up. The host parses
//! as fast, or as slowly as its bytes come. Results have a few kilobytes, so what they take of a link is left out.

use crate::operator::Collected;
use crate::pass::{Block, Pass};
use crate::record::Dialect;
use crate::schema::{Header, Probe};

/// What both ends together must save over the better one alone: they keep two places busy.
const SPLIT_GAIN: f64 = 0.15;

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
}

impl End {
    /// Bytes it gets through in a second.
    fn rate(&self) -> f64 {
        self.parses.min(self.reads).max(1.0)
    }

    fn seconds(&self, bytes: f64) -> f64 {
        self.begins + bytes / self.rate()
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The host.
    Host,
    /// The nodes that hold the bytes.
    Data,
    /// Both.
    Split,
}

/// What is expected of each choice, seconds.
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
        let data = End { parses: rate, reads: f64::INFINITY, begins };
        let both = End { parses: rate + host.rate(), begins: begins.max(host.begins), ..data };
        Self { host: host.seconds(bytes), data: data.seconds(bytes), split: both.seconds(bytes) }
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
    let Some(dialect) = Dialect::new(b',').filter(|_| collected.columns) else { return Pass::of_bytes(collected) };
    let mut probe = Probe::new(dialect, Header::No);
    match probe.feed(sample, true).map(|_| probe.finish()) {
        Ok(Some(schema)) => {
            let columns = schema.numeric_columns();
            Pass::new(schema, &columns, collected)
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
        End { parses: 0.6 * GB, reads, begins: 0.0 }
    }

    /// Of 15 % of a core.
    fn device() -> End {
        End { parses: 0.09 * GB, reads: 5.0 * GB, begins: 0.01 }
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
        assert!((split - (0.01 + 1.2 / 0.3)).abs() < 1e-9);
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
        let all = Collected { bytes: true, columns: true, gramian: true };
        let per_byte = calibrate(all, now);
        assert!((per_byte * sample().len() as f64 - 3.0).abs() < 1e-9, "the first run took 3 s, the others more");
        let row_bytes = sample().len() / sample().iter().filter(|byte| **byte == b'\n').count();
        assert!((65..80).contains(&row_bytes), "{row_bytes}");
    }
}
