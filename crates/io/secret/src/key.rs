//! The key that makes a process a daemon of its job.
//!
//! It exists in the memory of `up` and of the job's daemons, in memory that the kernel holds for keepers, and in the one
//! channel by which each got it. It is never written to a file with a name, put into an environment or an argument, or
//! shown: its `Debug` says only that there is one.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::{Zeroize, Zeroizing};

use crate::page::Page;

/// A job's key, bytes: 256 bits, as many as the hash by which other keys are derived from it.
pub const JOB_KEY_BYTES: usize = 32;

/// The secret that all daemons of one job share. Clones share its memory.
#[derive(Clone)]
pub struct JobKey(Arc<Page<JOB_KEY_BYTES>>);

impl JobKey {
    /// A new key, from the system's source of random numbers.
    ///
    /// # Errors
    /// When the system has none.
    pub fn random() -> io::Result<Self> {
        // Of this length the system gives all or fails.
        Self::made_by(|bytes| getrandom(bytes, GetRandomFlags::empty()).map(drop).map_err(io::Error::from))
    }

    /// The key that `from` holds to its end; `None` when that is longer or shorter than a key.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(mut from: impl Read) -> io::Result<Option<Self>> {
        match Self::made_by(|bytes| from.read_exact(bytes)) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
            Ok(key) => Ok((from.read(&mut [0])? == 0).then_some(key)),
        }
    }

    /// A key of these bytes.
    #[must_use]
    pub fn from_bytes(mut bytes: [u8; JOB_KEY_BYTES]) -> Self {
        let mut page = Page::new();
        page.get_mut().copy_from_slice(&bytes);
        bytes.zeroize();
        Self(Arc::new(page))
    }

    /// The key of its hexadecimal text; `None` for any other text.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * JOB_KEY_BYTES {
            return None;
        }
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        let mut page = Page::new();
        for (byte, pair) in page.get_mut().iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(Arc::new(page)))
    }

    fn made_by(fill: impl FnOnce(&mut [u8; JOB_KEY_BYTES]) -> io::Result<()>) -> io::Result<Self> {
        let mut page = Page::new();
        fill(page.get_mut())?;
        Ok(Self(Arc::new(page)))
    }

    /// The bytes, for key derivation and for the launcher's channel. They go nowhere else.
    #[must_use]
    pub fn secret_bytes(&self) -> &[u8; JOB_KEY_BYTES] {
        self.0.get()
    }

    /// The key as text, for the launcher's channel.
    #[must_use]
    pub fn secret_hex(&self) -> Zeroizing<String> {
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
        let mut text = Zeroizing::new(String::with_capacity(2 * JOB_KEY_BYTES));
        text.extend(self.secret_bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]));
        text
    }
}

impl PartialEq for JobKey {
    fn eq(&self, other: &Self) -> bool {
        self.secret_bytes() == other.secret_bytes()
    }
}

impl Eq for JobKey {}

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
        for text in ["", &good[1..], &format!("{}0", *good), &good.replacen('0', "g", 1), &good.replacen("00", "€", 1)]
        {
            assert_eq!(JobKey::from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_is_read_whole_or_not_at_all() {
        assert_eq!(JobKey::read(&[7; 32][..]).unwrap(), Some(JobKey::from_bytes([7; 32])));
        for len in [0, 31, 33, 4096] {
            assert_eq!(JobKey::read(&vec![7; len][..]).unwrap(), None, "{len}");
        }
        assert_ne!(JobKey::random().unwrap(), JobKey::random().unwrap());
    }

    #[test]
    fn debugging_shows_no_key() {
        assert_eq!(format!("{:?}", JobKey::from_bytes([7; JOB_KEY_BYTES])), "JobKey(secret)");
    }
}
