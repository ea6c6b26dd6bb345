//! How many different values there are, from 4,096 registers: HyperLogLog.
//!
//! Each value's hash chooses a register, which keeps the longest run of zeros that it saw (P. Flajolet and others,
//! "HyperLogLog", 2007). The estimate is O. Ertl's, which needs no tables ("New cardinality estimation algorithms for
//! HyperLogLog sketches", 2017). Registers depend on the set of values alone.

use serde::{Deserialize, Serialize};

/// Bits of a hash that choose the register.
const CHOOSING_BITS: u32 = 12;

/// Registers: the standard error is 1.04 over their root, 1.6 %.
const COUNT: usize = 1 << CHOOSING_BITS;

/// The other bits of a hash.
const REST_BITS: u32 = u64::BITS - CHOOSING_BITS;

/// The share by which an estimate is off in one case of three.
pub const DISTINCT_ERROR: f64 = 1.04 / (1 << (CHOOSING_BITS / 2)) as f64;

/// The registers of a set of values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registers(Vec<u8>);

impl Registers {
    /// Of no value.
    pub fn new() -> Self {
        Self(vec![0; COUNT])
    }

    /// Adds a value by its hash, whose bits are all as good as random.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        let register = &mut self.0[(hash >> REST_BITS) as usize];
        let zeros = (hash << CHOOSING_BITS).leading_zeros().min(REST_BITS);
        *register = (*register).max(zeros as u8 + 1);
    }

    /// This and another set.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(register, more)| *register = (*register).max(*more));
    }

    /// Whether they can be registers; what travelled may not.
    pub fn are_sound(&self) -> bool {
        self.0.len() == COUNT && self.0.iter().all(|register| u32::from(*register) <= REST_BITS + 1)
    }

    /// About how many values there are.
    pub fn estimate(&self) -> f64 {
        let mut with = [0u32; REST_BITS as usize + 2];
        self.0.iter().for_each(|register| with[usize::from(*register)] += 1);
        let count = COUNT as f64;
        let full = f64::from(with[REST_BITS as usize + 1]);
        let mut sum = count * large(1.0 - full / count);
        for registers in with[1..=REST_BITS as usize].iter().rev() {
            sum = 0.5 * (sum + f64::from(*registers));
        }
        sum += count * small(f64::from(with[0]) / count);
        count * count / (2.0 * std::f64::consts::LN_2 * sum)
    }
}

/// Ertl's sigma: what registers that saw nothing, such a share of all, add.
fn small(mut share: f64) -> f64 {
    if share >= 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, share);
    loop {
        share *= share;
        let before = sum;
        sum += share * factor;
        factor += factor;
        if sum <= before {
            return sum;
        }
    }
}

/// Ertl's tau: what registers that are not full, such a share of all, add.
fn large(mut share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - share);
    loop {
        share = share.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - share) * (1.0 - share) * factor;
        if sum >= before {
            return sum / 3.0;
        }
    }
}

/// A hash of a number, all bits of which depend on all of its (the last step of SplitMix64).
#[inline]
pub fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_within_four_standard_errors() {
        assert_eq!(Registers::new().estimate(), 0.0);
        for count in [1u64, 2, 10, 100, 1000, 4096, 20_000, 300_000, 3_000_000] {
            let mut registers = Registers::new();
            (0..count).for_each(|value| registers.add(mixed(value.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
            let off = registers.estimate() / count as f64 - 1.0;
            assert!(off.abs() < 4.0 * DISTINCT_ERROR, "{count}: {off}");
        }
    }

    #[test]
    fn merged_registers_are_those_of_both_sets() {
        let of = |values: std::ops::Range<u64>| {
            let mut registers = Registers::new();
            values.for_each(|value| registers.add(mixed(value)));
            registers
        };
        let mut merged = of(0..5000);
        merged.merge(&of(3000..9000));
        assert_eq!(merged, of(0..9000));
        assert!(merged.are_sound() && !Registers(vec![0; 7]).are_sound() && !Registers(vec![54; COUNT]).are_sound());
    }
}
