//! The job's key: what a process must hold to be one of the job's daemons.
//!
//! It is made once by `forebay up` and travels only over the launcher's own channels. Nothing prints it, and it has no
//! encoding but the one its channels ask for by name.

use std::fmt;

/// Bytes of a job's key.
pub const JOB_KEY_BYTES: usize = 32;

/// The secret that all daemons of one job share.
#[derive(Clone, PartialEq, Eq)]
pub struct JobKey([u8; JOB_KEY_BYTES]);

impl JobKey {
    /// A key of these bytes, which must come from the operating system's source of random numbers.
    #[must_use]
    pub fn from_bytes(bytes: [u8; JOB_KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for key derivation and for the launcher's channel. They go nowhere else.
    #[must_use]
    pub fn secret_bytes(&self) -> &[u8; JOB_KEY_BYTES] {
        &self.0
    }

    /// The key of its hexadecimal text; `None` for any other text.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * JOB_KEY_BYTES {
            return None;
        }
        let mut bytes = [0; JOB_KEY_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Some(Self(bytes))
    }

    /// The same as hexadecimal text, for the document that the launcher hands on.
    #[must_use]
    pub fn secret_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_reads_back_and_nothing_else_is_a_key() {
        let key = JobKey::from_bytes(std::array::from_fn(|index| index as u8 * 7));
        assert_eq!(JobKey::from_hex(&key.secret_hex()), Some(key.clone()));
        let good = key.secret_hex();
        for text in ["", &good[1..], &format!("{good}0"), &good.replacen('0', "g", 1), &good.replacen("00", "€", 1)] {
            assert_eq!(JobKey::from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn debugging_shows_no_key() {
        assert_eq!(format!("{:?}", JobKey::from_bytes([7; JOB_KEY_BYTES])), "JobKey(secret)");
    }
}
