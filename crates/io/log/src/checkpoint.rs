//! Checkpoints: what the write core makes of all records up to some point, so that a recovery need not read them.
//!
//! One file, replaced as a whole. Little endian: `magic [8], identity u64, up_to u64, contents_bytes u64, contents,
//! crc32c u32` of all before it.

use std::sync::PoisonError;

use bytes::Bytes;
use forebay_types::Errno;
use forebay_wire::log_record::{LogIdentity, Sequence};

use crate::directory::CHECKPOINT;
use crate::log::Log;
use crate::segments::is_full;
use crate::{LogError, limits};

const MAGIC: [u8; 8] = *b"FORECHKP";
pub(crate) const HEAD_BYTES: usize = 32;
/// Around the contents, bytes.
pub(crate) const FRAME_BYTES: usize = HEAD_BYTES + 4;

/// The contents of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// It stands for all records below this one.
    pub up_to: Sequence,
    /// The state of the write core.
    pub contents: Bytes,
}

impl Log {
    /// Keeps `contents` in place of all records below `up_to`: a recovery gives them back and then the records from `up_to`
    /// on. Commits those records first. Notes below `up_to` keep no segment any more; data do until they are released.
    /// All or nothing, durable when it returns.
    ///
    /// # Errors
    /// `Full` when the disk has no room for it and `TooLong` for one above `limits::CHECKPOINT_BYTES_MAX`: the last one
    /// stays. `Outdated` after a checkpoint of more. `Failed` when the device failed.
    pub fn checkpoint(&self, up_to: Sequence, contents: &[u8]) -> Result<(), LogError> {
        if contents.len() as u64 > limits::CHECKPOINT_BYTES_MAX {
            let max_bytes = u32::try_from(limits::CHECKPOINT_BYTES_MAX).unwrap_or(u32::MAX);
            return Err(LogError::TooLong { bytes: contents.len(), max_bytes });
        }
        self.shared.commit(up_to)?;
        let mut last = self.shared.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        if up_to < *last {
            return Err(LogError::Outdated);
        }
        let head = head(self.shared.identity, up_to, contents.len() as u64);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), contents).to_le_bytes();
        let written = self.shared.directory.replace(CHECKPOINT, &[&head, contents, &checksum]);
        match written {
            Err(error) if is_full(&error) => return Err(LogError::Full),
            Err(error) => return Err(self.shared.fail(Errno::of(&error))),
            Ok(()) => {}
        }
        let mut state = self.shared.lock();
        let durable = state.durable;
        *last = up_to;
        state.usage.set_checkpoint(up_to, durable);
        self.shared.free(&mut state);
        Ok(())
    }
}

pub(crate) fn head(identity: LogIdentity, up_to: Sequence, contents_bytes: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..16].copy_from_slice(&identity.0.to_le_bytes());
    head[16..24].copy_from_slice(&up_to.0.to_le_bytes());
    head[24..].copy_from_slice(&contents_bytes.to_le_bytes());
    head
}

/// The checkpoint in a file's bytes.
pub(crate) fn decode(bytes: Vec<u8>, identity: LogIdentity) -> Result<Checkpoint, &'static str> {
    let bytes = Bytes::from(bytes);
    let Some((body, checksum)) = bytes.split_last_chunk::<4>() else { return Err("it was cut off") };
    if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return Err("its checksum is wrong");
    }
    let Some(found) = body.first_chunk::<HEAD_BYTES>() else { return Err("it is too short") };
    let mut up_to = [0; 8];
    up_to.copy_from_slice(&found[16..24]);
    let up_to = Sequence(u64::from_le_bytes(up_to));
    let contents = bytes.slice(HEAD_BYTES..bytes.len() - 4);
    if *found != head(identity, up_to, contents.len() as u64) {
        return Err("it belongs to another log, or its length is wrong");
    }
    if up_to >= Sequence::END {
        return Err("it stands for more records than a log has");
    }
    Ok(Checkpoint { up_to, contents })
}

/// The longest file that is a checkpoint, bytes.
pub(crate) fn file_bytes_max() -> u64 {
    limits::CHECKPOINT_BYTES_MAX + FRAME_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_comes_back_and_every_spoiled_byte_is_noticed() {
        let head = head(LogIdentity(5), Sequence(9), 4);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), b"core").to_le_bytes();
        let good = [&head[..], b"core", &checksum].concat();
        let expected = Checkpoint { up_to: Sequence(9), contents: Bytes::from_static(b"core") };
        assert_eq!(decode(good.clone(), LogIdentity(5)), Ok(expected));
        assert!(decode(good.clone(), LogIdentity(6)).is_err(), "of another log");
        let of_all = [&super::head(LogIdentity(5), Sequence(u64::MAX), 0)[..]].concat();
        let of_all = [&of_all[..], &crc32c::crc32c(&of_all).to_le_bytes()].concat();
        assert!(decode(of_all, LogIdentity(5)).is_err(), "of more records than there are");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(decode(bad, LogIdentity(5)).is_err(), "byte {at}");
            assert!(decode(good[..at].to_vec(), LogIdentity(5)).is_err(), "cut at {at}");
        }
    }
}
