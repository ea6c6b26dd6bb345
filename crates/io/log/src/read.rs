//! Reading back: bytes of a record's contents quickly, or the whole record with its checksum verified.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use forebay_types::{Errno, LogPosition};
use forebay_wire::log_record::{RECORD_HEAD_BYTES, RecordHead};

use crate::LogError;
use crate::log::{Log, Shared};

impl Log {
    /// Fills `into` with the contents of the record at `position`, from byte `from` of the contents on. The checksum is not
    /// verified: what is read must be known to lie within the record, and its append to have returned.
    ///
    /// # Errors
    /// `Absent` where no segment is, or it ends before, since a loss of power has taken what was there; `Read` when the device does
    /// not give it.
    pub fn read(&self, position: LogPosition, from: u32, into: &mut [u8]) -> Result<(), LogError> {
        let start = u64::from(position.offset) + RECORD_HEAD_BYTES as u64 + u64::from(from);
        if start + into.len() as u64 > u64::from(self.shared.segment_bytes) {
            return Err(LogError::Absent(position));
        }
        let file = self.shared.readable(position)?;
        file.read_exact_at(into, start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => LogError::Absent(position),
            _ => LogError::Read(Errno::of(&error)),
        })
    }

    /// The whole record at `position`, verified.
    ///
    /// # Errors
    /// `Absent` where none begins, `Damaged` when its contents do not have their checksum, `Read` when the device does not
    /// give it.
    pub fn read_record(&self, position: LogPosition) -> Result<(RecordHead, Bytes), LogError> {
        let file = self.shared.readable(position)?;
        let failed = |error| LogError::Read(Errno::of(&error));
        if u64::from(position.offset) + RECORD_HEAD_BYTES as u64 > self.shared.segment_bytes.into() {
            return Err(LogError::Absent(position));
        }
        let mut head = [0; RECORD_HEAD_BYTES];
        file.read_exact_at(&mut head, position.offset.into()).map_err(failed)?;
        let head = RecordHead::decode(&head, self.shared.identity, position, self.shared.segment_bytes);
        let head = head.map_err(|_| LogError::Absent(position))?;
        let mut contents = vec![0; head.contents_bytes as usize];
        file.read_exact_at(&mut contents, head.contents_offset().into()).map_err(failed)?;
        if head.fits(&contents) { Ok((head, contents.into())) } else { Err(LogError::Damaged(position)) }
    }
}

impl Shared {
    fn readable(&self, position: LogPosition) -> Result<Arc<File>, LogError> {
        let file = self.descriptors.of(&self.directory, position.segment);
        if !self.lock().usage.contains(position.segment) {
            // After it was opened, so that none that is freed meanwhile stays open.
            self.descriptors.forget(position.segment);
            return Err(LogError::Absent(position));
        }
        file.map_err(|error| LogError::Read(Errno::of(&error)))
    }
}
