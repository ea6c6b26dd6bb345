//! A file's contents on their way from logs to a file of the backing file system.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_types::{Attributes, Errno, FileId, Time};
use forebay_wire::write::{Piece, Source, WrittenExtent};
use forebay_write::{DrainRate, OwnExtended};
use rustix::fs::SeekFrom;

use super::uploading::{Extents, InTime};
use crate::write::contents::Reader;
use crate::write::tree::owner::Owner;

/// Bytes of a hole that are cleared at a time.
const CLEARED_BYTES: u64 = 4 << 20;

/// Bytes of other nodes that are in memory before a file is changed that is there.
const READ_FIRST_BYTES_MAX: u64 = 64 << 20;

/// Bytes of zeros that are written at once.
const ZEROS_BYTES: usize = 1 << 20;

/// How much is sent, and how fast, for who asks.
#[derive(Default)]
pub struct Meter {
    under_way_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    attempt_bytes: AtomicU64,
    rate: Mutex<DrainRate>,
}

impl Meter {
    /// Bytes of the file that is being sent that are not on the backing file system, verified.
    pub fn under_way_bytes(&self) -> u64 {
        self.under_way_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were sent and verified since this daemon began.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the attempt under way, or the last one, has verified of what is to be done next, with those that it has found verified.
    pub fn attempt_bytes(&self) -> u64 {
        self.attempt_bytes.load(Ordering::Relaxed)
    }

    /// An attempt goes on with so much that is verified.
    pub fn goes_on_from(&self, bytes: u64) {
        self.attempt_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How fast it went lately, verified and durable; 0 where nothing was sent.
    pub fn bytes_per_s(&self, now: Time) -> u64 {
        self.rate().bytes_per_s(now, self.under_way_bytes()).unwrap_or(0)
    }

    /// How long so many bytes and steps take, and whether that was measured or is assumed.
    pub fn time_for(&self, (bytes, steps): (u64, usize), now: Time) -> (Duration, bool) {
        let rate = self.rate();
        (rate.time_for(bytes, steps as u64, now, self.under_way_bytes()), rate.is_known())
    }

    /// The bytes that `send` lands count, and the time that it takes.
    pub fn measure<T>(&self, now: impl Fn() -> Time, send: impl FnOnce() -> T) -> T {
        self.attempt_bytes.store(0, Ordering::Relaxed);
        self.rate().begin(now());
        let sent = send();
        self.rate().end(now());
        sent
    }

    /// A step of the tree is done.
    pub fn step(&self) {
        self.attempt_bytes.store(0, Ordering::Relaxed);
        self.rate().step();
    }

    /// So much is to be sent.
    pub fn begin(&self, bytes: u64) {
        self.under_way_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much of what was begun is given up.
    pub fn give_up(&self, bytes: u64) {
        self.under_way_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// So much of it is there.
    pub fn verified(&self, bytes: u64, now: Time) {
        self.under_way_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.attempt_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.rate().landed(now, bytes);
    }

    fn rate(&self) -> MutexGuard<'_, DrainRate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file as it is at a moment.
pub struct Snapshot {
    pub version: u64,
    pub attributes: Attributes,
    /// Whether programs have set its mode or owner, which are to land.
    pub has_own_rights: bool,
    /// Its extended attributes, where programs have changed any.
    pub extended: Option<OwnExtended>,
    /// Its parts that are to be sent, and its holes.
    pub pieces: Vec<Piece>,
}

impl Snapshot {
    /// A file as it is now.
    ///
    /// # Errors
    /// ESTALE when it is gone.
    pub fn of(owner: &Owner, file: FileId) -> Result<Self, Errno> {
        let tree = owner.tree();
        let state = tree.state(file)?;
        let pieces = tree.pieces(file, 0..state.attributes.size_bytes)?;
        Ok(Self {
            version: state.version,
            attributes: state.attributes,
            has_own_rights: tree.has_own_rights(file),
            extended: tree.extended_to_land(file).cloned(),
            pieces,
        })
    }

    /// A file as it is now, if nobody goes on changing it.
    pub fn of_settled(owner: &Owner, file: FileId) -> Option<Self> {
        let tree = owner.tree();
        let state = tree.state(file).ok().filter(|_| tree.is_settled(file))?;
        let pieces = tree.pieces(file, 0..state.attributes.size_bytes).ok()?;
        Some(Self {
            version: state.version,
            attributes: state.attributes,
            has_own_rights: tree.has_own_rights(file),
            extended: tree.extended_to_land(file).cloned(),
            pieces,
        })
    }

    /// Writes what logs have of it, and compares it with what the backing file system has then.
    ///
    /// # Errors
    /// The backing file system's error, or that of a log; EIO when it has other bytes than were written.
    pub fn write(&self, reader: &Reader, meter: &Meter, into: &File) -> Result<(), Errno> {
        self.write_counted(reader, meter, into, 0)
    }

    /// The same to a file that is there. Bytes of other nodes are read before anything is changed, as far as that is not too much: where
    /// one of them is gone, the file stays as it was.
    ///
    /// # Errors
    /// As `write`.
    pub fn write_in_place(&self, reader: &Reader, meter: &Meter, into: &File) -> Result<(), Errno> {
        self.write_counted(reader, meter, into, READ_FIRST_BYTES_MAX)
    }

    fn write_counted(
        &self,
        reader: &Reader,
        meter: &Meter,
        into: &File,
        read_first_bytes_max: u64,
    ) -> Result<(), Errno> {
        let mut left = self.bytes();
        meter.begin(left);
        let written = self.write_and_compare(reader, into, read_first_bytes_max, |bytes| {
            meter.verified(bytes, reader.nodes.now());
            left -= bytes;
        });
        meter.give_up(left);
        written
    }

    fn write_and_compare(
        &self,
        reader: &Reader,
        into: &File,
        read_first_bytes_max: u64,
        verified: impl FnMut(u64),
    ) -> Result<(), Errno> {
        let calls = &reader.local.calls;
        let extents = Extents::read_first(reader, &self.of_logs(), read_first_bytes_max)?;
        let failed = |error: std::io::Error| Errno::of(&error);
        let old_len = calls.land(|| into.metadata()).map_err(failed)?.len();
        calls.land(|| into.set_len(self.attributes.size_bytes)).map_err(failed)?;
        for hole in self.holes(old_len) {
            calls.write(0, || clear(into, hole.offset..hole.offset + hole.len))?;
        }
        extents.write(reader, (into, &InTime(calls)), verified)
    }

    /// Leaves out pieces that its draft has already.
    pub fn leave_out_sent(&mut self, owner: &Owner, file: FileId) {
        let tree = owner.tree();
        self.pieces.retain(|piece| !matches!(piece.source, Source::Log(extent) if tree.is_sent(file, &extent)));
    }

    /// Bytes of it that logs have.
    pub fn bytes(&self) -> u64 {
        self.of_logs().iter().map(|extent| extent.len).sum()
    }

    /// Extents of it that logs have, in the file's order.
    pub fn of_logs(&self) -> Vec<WrittenExtent> {
        let of_log = |source| match source {
            Source::Log(extent) => Some(extent),
            Source::Backing | Source::Hole => None,
        };
        self.pieces.iter().filter_map(|piece| of_log(piece.source)).collect()
    }

    /// Parts of the first `old_len` bytes that are zeros now.
    fn holes(&self, old_len: u64) -> impl Iterator<Item = Piece> {
        let holes = self.pieces.iter().filter(move |piece| piece.source == Source::Hole && piece.offset < old_len);
        holes.flat_map(move |hole| {
            let len = hole.len.min(old_len - hole.offset);
            (0..len)
                .step_by(CLEARED_BYTES as usize)
                .filter_map(move |start| hole.part(hole.offset + start..hole.offset + len.min(start + CLEARED_BYTES)))
        })
    }
}

/// Writes zeros where a range of a file has anything: what is a hole there stays one.
fn clear(file: &File, range: Range<u64>) -> Result<(), Errno> {
    let of = |error: rustix::io::Errno| Errno::of(&error.into());
    let mut at = range.start;
    while at < range.end {
        let (start, end) = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => (start, rustix::fs::seek(file, SeekFrom::Hole(start)).map_err(of)?.min(range.end)),
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            // It cannot tell.
            Err(rustix::io::Errno::INVAL) => (at, range.end),
            Err(error) => return Err(of(error)),
        };
        let mut written = start;
        while written < end {
            let zeros = vec![0; ZEROS_BYTES.min((end - written) as usize)];
            file.write_all_at(&zeros, written).map_err(|error| Errno::of(&error))?;
            written += zeros.len() as u64;
        }
        at = end.max(start);
    }
    Ok(())
}
