//! A file's contents on their way from logs to a file of the backing file system.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use forebay_types::{Attributes, Errno, FileId};
use forebay_wire::write::{Piece, Source, WrittenExtent};
use forebay_write::OwnExtended;

use super::holes;
use super::meter::Meter;
use super::uploading::Extents;
use crate::write::calls::By;
use crate::write::contents::Reader;
use crate::write::tree::leader::Leader;

/// Bytes of other nodes that are in memory before a file is changed that is there.
const READ_FIRST_BYTES_MAX: u64 = 64 << 20;

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
    pub fn of(leader: &Leader, file: FileId) -> Result<Self, Errno> {
        let tree = leader.tree();
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
    pub fn of_settled(leader: &Leader, file: FileId) -> Option<Self> {
        let tree = leader.tree();
        let state = tree.state(file).ok().filter(|_| tree.is_flushed(file))?;
        let pieces = tree.pieces(file, 0..state.attributes.size_bytes).ok()?;
        Some(Self {
            version: state.version,
            attributes: state.attributes,
            has_own_rights: tree.has_own_rights(file),
            extended: tree.extended_to_land(file).cloned(),
            pieces,
        })
    }

    /// Writes what logs have of it to a new file, and compares it with what the backing file system has then.
    ///
    /// # Errors
    /// The backing file system's error, or that of a log; EIO when it has other bytes than were written.
    pub async fn write(&self, reader: &Reader, meter: &Meter, into: &Arc<File>) -> Result<(), Errno> {
        self.count(reader, meter, Extents::new(&self.of_logs()), into).await
    }

    /// The same to a file that is there, whose holes are cleared. Bytes of other nodes are read before anything is changed, as far as that is
    /// not too much: where one of them is gone, the file stays as it was.
    ///
    /// # Errors
    /// As `write`.
    pub async fn write_in_place(&self, reader: &Reader, meter: &Meter, into: &Arc<File>) -> Result<(), Errno> {
        let extents = Extents::read_first(reader, &self.of_logs(), READ_FIRST_BYTES_MAX).await?;
        let (file, size_bytes) = (Arc::clone(into), self.attributes.size_bytes);
        let resized = reader.local.calls.land_together(2, move |may_land| {
            let old_len = may_land.call(|| file.metadata().map_err(|error| Errno::of(&error)))?.len();
            may_land.call(|| file.set_len(size_bytes).map_err(|error| Errno::of(&error)))?;
            Ok::<_, Errno>(old_len)
        });
        let zeros = holes::clear(reader, into, &self.holes(resized.await?)).await?;
        self.count(reader, meter, extents.after(zeros), into).await
    }

    /// Writes them, and counts what is there.
    async fn count(&self, reader: &Reader, meter: &Meter, extents: Extents, into: &Arc<File>) -> Result<(), Errno> {
        let mut left = self.bytes();
        meter.begin(left);
        let written = extents.write((reader, By::Leader), into, |bytes| {
            meter.verified(bytes, reader.nodes.now());
            left -= bytes;
        });
        let written = written.await;
        meter.give_up(left);
        written
    }

    /// Leaves out pieces that its draft has already.
    pub fn leave_out_sent(&mut self, leader: &Leader, file: FileId) {
        let tree = leader.tree();
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
    fn holes(&self, old_len: u64) -> Vec<Range<u64>> {
        let holes = self.pieces.iter().filter(|piece| piece.source == Source::Hole && piece.offset < old_len);
        holes.map(|hole| hole.offset..(hole.offset + hole.len).min(old_len)).collect()
    }
}
