//! How often each of the 256 byte values occurs: lines, digits and entropy follow.

use serde::{Deserialize, Serialize};

use crate::limits::BLOCK_BYTES;

/// A mergeable histogram of bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByteCounts(Vec<u64>);

impl Default for ByteCounts {
    fn default() -> Self {
        Self(vec![0; 256])
    }
}

impl ByteCounts {
    /// Counts the bytes of a short text, one by one: whole blocks are `Pass`'s to count.
    pub fn add(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0[usize::from(*byte)] += 1);
    }

    /// Counts a byte that occurs so often.
    pub fn add_many(&mut self, value: u8, count: u64) {
        self.0[usize::from(value)] += count;
    }

    /// This and another.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    /// Whether it can be of so many bytes and newlines; what travelled may not.
    pub fn are_of(&self, bytes: u64, lines: u64) -> bool {
        let all = self.0.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        self.0.len() == 256 && all == Some(bytes) && self.count(b'\n') == lines
    }

    /// How often a value occurs.
    pub fn count(&self, value: u8) -> u64 {
        self.0[usize::from(value)]
    }

    /// All of it, by value.
    pub fn counts(&self) -> &[u64] {
        &self.0
    }

    /// How often each decimal digit occurs.
    pub fn digits(&self) -> [u64; 10] {
        std::array::from_fn(|digit| self.count(b'0' + digit as u8))
    }

    /// Shannon's entropy, bits a byte; 0 of nothing.
    pub fn entropy(&self) -> f64 {
        let total: u64 = self.0.iter().sum();
        let part = |count: &u64| *count as f64 / total as f64;
        let entropy: f64 = self.0.iter().filter(|count| **count > 0).map(part).map(|part| -part * part.log2()).sum();
        // The sum of nothing is -0.
        entropy.max(0.0) + 0.0
    }
}

/// Counts pairs of bytes, which takes half the additions of single ones; the pairs that text has stay in a first-level
/// cache. Two tables in turn, so that equal pairs in a row do not wait for each other.
pub struct ByteCounter {
    even: Box<[u32; PAIRS]>,
    odd: Box<[u32; PAIRS]>,
}

const PAIRS: usize = 1 << 16;

// A table counts at most one pair for four bytes.
const _: () = assert!(BLOCK_BYTES < u32::MAX as u64);

impl Default for ByteCounter {
    fn default() -> Self {
        let zeros = || {
            let zeros: Result<Box<[u32; PAIRS]>, _> = vec![0; PAIRS].into_boxed_slice().try_into();
            zeros.unwrap_or_else(|_| Box::new([0; PAIRS]))
        };
        Self { even: zeros(), odd: zeros() }
    }
}

impl ByteCounter {
    /// The bytes of at most a block.
    pub fn count(&mut self, bytes: &[u8]) -> ByteCounts {
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            let word = u64::from_le_bytes(*eight);
            self.even[usize::from(word as u16)] += 1;
            self.odd[usize::from((word >> 16) as u16)] += 1;
            self.even[usize::from((word >> 32) as u16)] += 1;
            self.odd[usize::from((word >> 48) as u16)] += 1;
        }
        let mut counts = ByteCounts::default();
        for (pair, (even, odd)) in self.even.iter_mut().zip(self.odd.iter_mut()).enumerate() {
            let count = u64::from(*even) + u64::from(*odd);
            if count > 0 {
                counts.0[pair & 255] += count;
                counts.0[pair >> 8] += count;
                (*even, *odd) = (0, 0);
            }
        }
        for byte in rest {
            counts.0[usize::from(*byte)] += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_every_byte() {
        let bytes: Vec<u8> = (0..100_003u32).map(|index| (index.wrapping_mul(index) >> 3) as u8).collect();
        let mut counter = ByteCounter::default();
        for len in [0, 1, 7, 8, 9, 1000, bytes.len()] {
            let mut expected = vec![0; 256];
            bytes[..len].iter().for_each(|byte| expected[usize::from(*byte)] += 1);
            assert_eq!(counter.count(&bytes[..len]).counts(), expected, "{len} bytes");
            let mut one_by_one = ByteCounts::default();
            one_by_one.add(&bytes[..len]);
            assert_eq!(one_by_one.counts(), expected, "{len} bytes, one by one");
        }
    }

    #[test]
    fn entropy_of_known_texts() {
        let entropy = |text: &[u8]| ByteCounter::default().count(text).entropy();
        assert_eq!(entropy(b"").to_bits(), 0.0f64.to_bits());
        assert_eq!(entropy(b"aaaa"), 0.0);
        assert_eq!(entropy(b"abab"), 1.0);
        assert_eq!(entropy(&(0..=255).collect::<Vec<u8>>()), 8.0);
        assert_eq!(ByteCounter::default().count(b"a1b22c333\n9").digits(), [0, 1, 2, 3, 0, 0, 0, 0, 0, 1]);
    }
}
