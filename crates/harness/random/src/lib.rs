//! The random numbers of simulated histories: both simulators draw them here, so that a seed is one history.

/// A generator that gives the same numbers for the same seed.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed; different seeds, also neighbouring ones, give different numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`; 0 for none.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}
