//! When a choice has turned out wrong: the end that was chosen is seen to take longer than the other one would have.
//!
//! A prediction may be wrong, and an end may become slow while it works. Measured progress bounds the cost of that. An end that
//! is behind the other end's predicted time gets help at a time when the other end still finishes the rest almost as early
//! as if it had been chosen. `p` is the share of the bytes made after `t` seconds, and `T` the other end's time for all. Help
//! comes as soon as `t > p T`. Then `t + (1 - p) T` is about `T`, whatever the slow end does from there on.

/// Of the other end's time, what is waited before anything is concluded: less tells little, and a decision that is
/// corrected then costs so much at most.
const PATIENCE: f64 = 1.0 / 8.0;

/// Of the other end's time, how late the host may leave a file that it reads alone: what it made is lost then.
const LATEST: f64 = 1.0 / 4.0;

/// By how much the host must be behind before it leaves a file.
const CLEARLY: f64 = 1.25;

/// How the end that was chosen gets on, beside what was predicted of the other one.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bytes: f64,
    /// Seconds that the other end was predicted to take for all.
    other: f64,
}

impl Pace {
    /// Of a file of so many bytes, for which the other end was predicted to take so many seconds.
    pub fn new(bytes: u64, other: f64) -> Self {
        Self { bytes: (bytes as f64).max(1.0), other }
    }

    /// Whether the other end is to make parts too, after so many seconds, with so many bytes made and so many under way;
    /// of the latter half is taken to be made.
    pub fn needs_help(&self, elapsed: f64, made: u64, under_way: u64) -> bool {
        elapsed >= PATIENCE * self.other && elapsed > self.share(made, under_way) * self.other
    }

    /// Whether the host is to leave what it has made alone, and begin anew together with the other end.
    pub fn is_lost(&self, elapsed: f64, made: u64, under_way: u64) -> bool {
        elapsed <= LATEST * self.other
            && elapsed >= PATIENCE * self.other
            && elapsed > CLEARLY * self.share(made, under_way) * self.other
    }

    /// Seconds for all of it at the present pace.
    pub fn seconds_for_all(&self, elapsed: f64, made: u64, under_way: u64) -> f64 {
        elapsed / self.share(made, under_way).max(1e-6)
    }

    fn share(&self, made: u64, under_way: u64) -> f64 {
        (made as f64 + 0.5 * under_way as f64) / self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Burst, Choice, End, Prediction};
    use crate::limits::BLOCK_BYTES;
    use crate::part::{PartState, Quotes};
    use crate::partials::Partials;
    use crate::parts::{Part, Parts, Side};
    use crate::state::State;
    use proptest::prelude::*;

    /// Threads of the host, and parts that are asked of a device at once.
    const WORKERS: [usize; 2] = [2, 3];

    /// How long it takes until somebody looks again.
    const TICK: f64 = 0.000_5;

    /// So long a query never takes here.
    const FOR_EVER: f64 = 50.0;

    /// An end in virtual time: bytes a second from each of some moments on, shared by its workers.
    #[derive(Clone, Debug)]
    struct Speeds(Vec<(f64, f64)>);

    impl Speeds {
        fn at(&self, now: f64) -> f64 {
            self.0.iter().rev().find(|(from, _)| *from <= now).map_or(0.0, |(_, rate)| *rate)
        }

        /// When so many bytes are done by this end alone.
        fn alone(&self, bytes: u64) -> f64 {
            let (mut now, mut left) = (0.0, bytes as f64);
            while left > 0.0 && now < FOR_EVER {
                left -= self.at(now) * TICK;
                now += TICK;
            }
            now
        }
    }

    fn answer(part: Part, bytes: u64) -> PartState {
        let mut partials = Partials::default();
        for block in part.first..part.first + u64::from(part.blocks) {
            let state = State { bytes: BLOCK_BYTES.min(bytes - block * BLOCK_BYTES), ..State::default() };
            assert_eq!(partials.add(block, state), Ok(()));
        }
        PartState { quotes: Quotes::None, unquoted: Some(partials), quoted: None }
    }

    fn bytes_of(part: Part, bytes: u64) -> u64 {
        ((part.first + u64::from(part.blocks)) * BLOCK_BYTES).min(bytes) - part.first * BLOCK_BYTES
    }

    /// Makes a file as the command does: both ends, or one until it needs help. When it is done.
    fn run(bytes: u64, ends: [&Speeds; 2], first: Side, pace: Option<Pace>) -> f64 {
        let mut parts = Parts::new(bytes, WORKERS[0] + WORKERS[1], State::default());
        let mut hands: [Vec<(Part, f64)>; 2] = [vec![], vec![]];
        let mut works = [first == Side::Host, first == Side::Nodes];
        let (mut now, mut made) = (0.0, 0);
        while !parts.is_done() && now < FOR_EVER {
            if pace.is_some_and(|pace| pace.needs_help(now, made, parts.under_way_bytes())) {
                works = [true, true];
            }
            for (end, side) in [Side::Host, Side::Nodes].into_iter().enumerate() {
                while works[end] && hands[end].len() < WORKERS[end] {
                    let again = works == [true, true];
                    let Some(part) =
                        parts.take(side).or_else(|| if again { parts.take_again(side, |_| true) } else { None })
                    else {
                        break;
                    };
                    hands[end].push((part, bytes_of(part, bytes) as f64));
                }
                let share = ends[end].at(now) * TICK / hands[end].len().max(1) as f64;
                hands[end].iter_mut().for_each(|(_, left)| *left -= share);
                for (part, _) in hands[end].extract_if(.., |(_, left)| *left <= 0.0) {
                    made += parts.answered(part.index, answer(part, bytes)).unwrap();
                }
            }
            now += TICK;
        }
        now
    }

    /// The extra time that an end may take which works in ticks, and whose last parts are under way at another one.
    fn slack(bytes: u64, other: f64) -> f64 {
        let blocks = bytes.div_ceil(BLOCK_BYTES) as f64;
        2.0 * TICK + other * (WORKERS[0] + WORKERS[1]) as f64 / blocks
    }

    #[test]
    fn a_device_that_stalls_costs_an_eighth() {
        let bytes = 64 * BLOCK_BYTES;
        let host = Speeds(vec![(0.0, bytes as f64)]);
        for stalls in [0.0, 0.05, 0.2, 0.4] {
            let device = Speeds(vec![(0.0, bytes as f64 / 0.6), (stalls, 0.0)]);
            let took = run(bytes, [&host, &device], Side::Nodes, Some(Pace::new(bytes, 1.0)));
            assert!(took <= 1.0 + PATIENCE + slack(bytes, 1.0), "{stalls}: {took}");
        }
        let device = Speeds(vec![(0.0, bytes as f64 / 0.6), (0.2, 0.0)]);
        assert!(run(bytes, [&host, &device], Side::Nodes, None) >= FOR_EVER, "nobody else makes its parts");
    }

    #[test]
    fn an_end_as_fast_as_predicted_works_alone() {
        let pace = Pace::new(1000, 2.0);
        assert!(!pace.needs_help(0.1, 0, 0), "too early");
        assert!(!pace.needs_help(0.5, 200, 200) && pace.needs_help(0.7, 200, 200));
        assert_eq!(pace.seconds_for_all(0.5, 200, 100), 2.0);
        assert!(pace.is_lost(0.4, 100, 50) && !pace.is_lost(0.4, 300, 0) && !pace.is_lost(0.6, 0, 0), "too late");
    }

    #[test]
    fn the_host_leaves_a_file_early_or_not_at_all() {
        let bytes = 64 * BLOCK_BYTES;
        for slower in [1.0, 1.1, 2.0, 10.0, 1e6] {
            // The nodes would take a second, the host was predicted to take 0.9.
            let host = bytes as f64 / (0.9 * slower);
            let pace = Pace::new(bytes, 1.0);
            let looks = (0..10_000).map(|look| f64::from(look) * TICK);
            let left = looks.into_iter().find(|now| pace.is_lost(*now, (now * host) as u64, 0));
            let took = left.map_or(0.9 * slower, |left| left + 1.0);
            assert!(took <= (0.9 * slower).min(1.0) * (1.0 + LATEST) + TICK, "{slower}: {took}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Whatever a device does, and wherever it begins: a choice costs a quarter more than the better end at most.
        #[test]
        fn regret_is_bounded(
            blocks in 48u64..200,
            predicted in 0.2f64..0.99,
            changes in proptest::collection::vec((0.0f64..1.0, 0.0f64..2.0), 0..4),
        ) {
            let bytes = blocks * BLOCK_BYTES;
            // The host takes a second, the device less: as was predicted, or as it is then.
            let host = Speeds(vec![(0.0, bytes as f64)]);
            let mut device = vec![(0.0, bytes as f64 / predicted)];
            device.extend(changes.into_iter().map(|(from, rate)| (from, rate * bytes as f64)));
            device.sort_by(|left, right| left.0.total_cmp(&right.0));
            let device = Speeds(device);
            let end = |seconds: f64| End {
                parses: bytes as f64 / seconds,
                reads: f64::INFINITY,
                begins: 0.0,
                burst: Burst::default(),
            };
            let weighed = Prediction::new(bytes, end(1.0), &[end(predicted)]);
            prop_assert!(weighed.of(Choice::Data) < weighed.of(Choice::Host));
            let took = run(bytes, [&host, &device], Side::Nodes, Some(Pace::new(bytes, weighed.of(Choice::Host))));
            let better = host.alone(bytes).min(device.alone(bytes));
            prop_assert!(took <= 1.25 * better + slack(bytes, 1.0), "{} and {}", took, better);
        }
    }
}
