//! The frame around what is written: magic, version, length and checksum, so that a file that is cut off, spoiled or of
//! another version is known as such before anything in it is believed.
//!
//! Little endian: `magic [4], version u16, zero u16, body length u32, body, crc32c u32` of all before it.

use crate::FormatError;
use crate::limits;

/// Bytes around a body.
pub(crate) const FRAME_BYTES: usize = HEAD_BYTES + 4;

const HEAD_BYTES: usize = 12;

/// A kind of frame.
pub(crate) struct Sealed {
    pub magic: [u8; 4],
    pub version: u16,
    /// For messages.
    pub name: &'static str,
}

impl Sealed {
    /// The frame around `body`.
    pub fn seal(&self, body: &[u8]) -> Result<Vec<u8>, FormatError> {
        if body.len() + FRAME_BYTES > limits::PROFILE_BYTES_MAX {
            return Err(FormatError::Limit("its size"));
        }
        let mut bytes = Vec::with_capacity(body.len() + FRAME_BYTES);
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&u32::from(self.version).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        Ok(bytes)
    }

    /// The body within `bytes`, which must be one frame and nothing else.
    pub fn open<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], FormatError> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(FormatError::Length)?;
        let [m0, m1, m2, m3, v0, v1, _, _, l0, l1, l2, l3] = *head;
        if [m0, m1, m2, m3] != self.magic {
            return Err(FormatError::Magic(self.name));
        }
        let (body, checksum) = rest.split_last_chunk::<4>().ok_or(FormatError::Length)?;
        // Before the version: a spoiled byte there is no other version.
        if crc32c::crc32c(&bytes[..bytes.len() - 4]) != u32::from_le_bytes(*checksum) {
            return Err(FormatError::Checksum);
        }
        let found = u16::from_le_bytes([v0, v1]);
        if found != self.version {
            return Err(FormatError::Version { found, known: self.version });
        }
        if u32::from_le_bytes([l0, l1, l2, l3]) as usize != body.len() || bytes.len() > limits::PROFILE_BYTES_MAX {
            return Err(FormatError::Length);
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Sealed = Sealed { magic: *b"test", version: 2, name: "test" };

    #[test]
    fn every_spoiled_byte_is_noticed() {
        let good = TEST.seal(b"body").unwrap();
        assert_eq!(TEST.open(&good), Ok(&b"body"[..]));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(TEST.open(&bad).is_err(), "byte {at}");
            assert!(TEST.open(&good[..at]).is_err(), "cut at {at}");
        }
        assert!(TEST.open(&[&good[..], b"x"].concat()).is_err());
    }

    #[test]
    fn another_version_is_named() {
        let other = Sealed { version: 3, ..TEST }.seal(b"").unwrap();
        assert_eq!(TEST.open(&other), Err(FormatError::Version { found: 3, known: 2 }));
        let other = Sealed { magic: *b"else", ..TEST }.seal(b"").unwrap();
        assert_eq!(TEST.open(&other), Err(FormatError::Magic("test")));
    }
}
