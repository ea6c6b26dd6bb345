//! How long a keeper waits for its daemon: until when the daemon must have said something or have ended, and what it means
//! if it has not. Decides only, and is told the time; the keeper kills.

use std::time::{Duration, Instant};

use crate::limits;

/// The share of a request's time limit that a daemon may be silent before its keeper kills it and starts another. So programs get
/// their answers within that limit also when a daemon hangs.
const SILENCE_SHARE: f64 = 0.6;

/// At least this, for a machine that is busy.
const SILENCE_MIN: Duration = Duration::from_secs(10);

/// How much longer a silent daemon is given when its keeper finds it silent.
const DOUBT: Duration = Duration::from_secs(2);

/// How long a daemon may take to be gone when it has taken its view away, and when it was killed: it frees its memory. If it is still
/// there then, a file system that does not answer holds it in the kernel. A keeper that ends does not wait for that.
pub const LAST_GRACE: Duration = Duration::from_secs(1);

/// How long a daemon that serves may say nothing, if requests have this time limit.
pub fn silence_max(deadline: Duration) -> Duration {
    deadline.mul_f64(SILENCE_SHARE).max(SILENCE_MIN)
}

/// A keeper's patience with one daemon.
#[derive(Debug)]
pub struct Patience {
    /// When the daemon is late unless something has happened.
    until: Option<Instant>,
    is_told_to_end: bool,
    /// It has been silent for too long, and is given a moment.
    is_doubted: bool,
}

impl Patience {
    /// With a daemon that starts now.
    pub fn new(now: Instant) -> Self {
        Self { until: Some(now + limits::DAEMON_START_DEADLINE), is_told_to_end: false, is_doubted: false }
    }

    /// It waits for others now, and may take as long as they do.
    pub fn has_no_limit(&mut self) {
        self.until = None;
    }

    /// It is to serve.
    pub fn on_begun(&mut self, now: Instant) {
        self.until = Some(now + limits::DAEMON_START_DEADLINE);
    }

    /// It is told to end, or to hand over.
    pub fn on_told_to_end(&mut self, now: Instant) {
        self.is_told_to_end = true;
        self.until = Some(now + limits::DAEMON_END_DEADLINE);
    }

    /// It ends and does nothing more that matters.
    pub fn on_leaves(&mut self, now: Instant) {
        self.is_told_to_end = true;
        self.until = Some(now + LAST_GRACE);
    }

    /// It serves: it is to say so again within `silence_max`.
    pub fn on_alive(&mut self, now: Instant, silence_max: Duration) {
        if !self.is_told_to_end {
            self.is_doubted = false;
            self.until = Some(now + silence_max);
        }
    }

    /// Whether it is to be killed. One that serves and is silent is given a moment more: when the whole node was stopped,
    /// its keeper may wake before it does.
    pub fn is_over(&mut self, now: Instant, is_serving: bool) -> bool {
        if self.until.is_none_or(|until| now < until) {
            return false;
        }
        let gets_more = is_serving && !self.is_told_to_end && !self.is_doubted;
        self.is_doubted |= gets_more;
        self.until = gets_more.then(|| now + DOUBT);
        !gets_more
    }

    /// The time left until it is late.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    /// Looks whenever it is due, as the keeper does, and once just before: how long until the daemon is to be killed.
    fn killed_after(patience: &mut Patience, from: Instant, is_serving: bool) -> Duration {
        let mut now = from;
        loop {
            let left = patience.left(now).expect("it is killed at some time");
            assert!(!patience.is_over(now + left.saturating_sub(MS), is_serving), "a moment too early");
            now += left;
            if patience.is_over(now, is_serving) {
                return now - from;
            }
        }
    }

    /// 18 s and 2 s with the default of `--deadline`: so what was asked of it is answered by the next one in time.
    #[test]
    fn a_silent_daemon_is_given_up_after_a_share_of_the_deadline_and_two_seconds() {
        for (deadline, expected) in [(30 * S, 20 * S), (100 * S, 62 * S), (17 * S, 12_200 * MS), (5 * S, 12 * S)] {
            let (start, silence_max) = (Instant::now(), silence_max(deadline));
            let mut patience = Patience::new(start);
            patience.on_alive(start, silence_max);
            assert_eq!(killed_after(&mut patience, start, true), expected, "--deadline {deadline:?}");
        }
    }

    #[test]
    fn a_word_puts_it_off_and_ends_the_doubt() {
        let (start, silence_max) = (Instant::now(), silence_max(30 * S));
        let mut patience = Patience::new(start);
        patience.on_alive(start, silence_max);
        assert!(!patience.is_over(start + 19 * S, true));
        patience.on_alive(start + 20 * S, silence_max);
        assert_eq!(killed_after(&mut patience, start + 20 * S, true), 20 * S);
        assert!(limits::DAEMON_WORD_INTERVAL * 4 < silence_max, "a word that is late or two kill nobody");
    }

    /// `up --replace` tells the old daemon to hand over. No message of its own puts that off.
    #[test]
    fn a_daemon_that_does_not_end_when_it_is_told_to_is_killed_after_eleven_seconds() {
        let start = Instant::now();
        let mut patience = Patience::new(start);
        patience.on_alive(start, silence_max(30 * S));
        patience.on_told_to_end(start);
        patience.on_alive(start + 5 * S, silence_max(30 * S));
        assert_eq!(killed_after(&mut patience, start, true), 11 * S);
    }

    #[test]
    fn a_daemon_that_leaves_has_a_second_and_one_that_starts_has_thirty() {
        let start = Instant::now();
        let mut patience = Patience::new(start);
        assert_eq!(killed_after(&mut patience, start, false), 30 * S);
        patience.on_leaves(start);
        assert_eq!(killed_after(&mut patience, start, true), S);
        patience.has_no_limit();
        assert_eq!(patience.left(start), None);
    }
}
