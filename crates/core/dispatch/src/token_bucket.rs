//! A token bucket: so many actions, saved up to a limit, earned one by one or with time.

use std::time::Duration;

use forebay_types::Time;

/// The tokens left, in millionths of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    saved: u64,
    saved_max: u64,
    earned_until: Time,
}

const ONE: u64 = 1_000_000;

impl TokenBucket {
    /// A full one of at most `saved_max` actions.
    pub fn full(saved_max: u32) -> Self {
        let saved_max = u64::from(saved_max) * ONE;
        Self { saved: saved_max, saved_max, earned_until: Time(0) }
    }

    /// Earns a token for every `count` calls.
    pub fn earn_one_in(&mut self, count: u32) {
        self.earn(ONE / u64::from(count));
    }

    /// Earns what has become due since the last call, at `per_second`.
    pub fn earn_until(&mut self, now: Time, per_second: u32) {
        let since: Duration = now.since(self.earned_until);
        let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        if micros > 0 {
            self.earn(micros.saturating_mul(u64::from(per_second)));
            self.earned_until = now;
        }
    }

    /// Spends one token; `false` when there is none to spend.
    pub fn spend(&mut self) -> bool {
        let Some(left) = self.saved.checked_sub(ONE) else { return false };
        self.saved = left;
        true
    }

    fn earn(&mut self, millionths: u64) {
        self.saved = self.saved.saturating_add(millionths).min(self.saved_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend_all(bucket: &mut TokenBucket) -> usize {
        std::iter::from_fn(|| bucket.spend().then_some(())).count()
    }

    #[test]
    fn it_is_earned_with_time_up_to_the_limit() {
        let mut bucket = TokenBucket::full(10);
        assert_eq!(spend_all(&mut bucket), 10);
        bucket.earn_until(Time(0).after(Duration::from_millis(150)), 20);
        assert_eq!(spend_all(&mut bucket), 3);
        bucket.earn_until(Time(0).after(Duration::from_secs(3600)), 20);
        assert_eq!(spend_all(&mut bucket), 10);
        bucket.earn_until(Time(0), 20);
        assert_eq!(spend_all(&mut bucket), 0, "time that goes back earns nothing");
    }

    #[test]
    fn it_is_earned_by_calls() {
        let mut bucket = TokenBucket::full(2);
        spend_all(&mut bucket);
        (0..99).for_each(|_| bucket.earn_one_in(50));
        assert_eq!(spend_all(&mut bucket), 1);
    }
}
