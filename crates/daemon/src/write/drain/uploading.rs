//! Extents of a file on their way to the backing file system, on the node that writes them: read from logs, and uploaded.
//!
//! Bytes of other nodes are waited for without a thread. Then one turn at the backing file system reads this node's own and writes a part; the
//! last one makes all parts durable, reads them back and compares them.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_types::{Errno, NodeRank};
use forebay_upload::{ReadBack, Run, Upload, UploadError};
use forebay_wire::write::WrittenExtent;
use forebay_wire::write_message::{Leadership, STRIPE_BYTES_MAX};
use forebay_write::stripes::part;

use crate::write::calls::{By, Cost, MayLand};
use crate::write::contents::Reader;
use crate::write::local::Local;

/// Bytes that are in memory at a time: what one message to another node's log may ask for.
pub const PART_BYTES: u64 = 4 << 20;

/// Parts that are made durable together. A stripe has no more; of a file that is changed in place, no more pages wait for its disks.
pub const PARTS_AT_ONCE: usize = (STRIPE_BYTES_MAX / PART_BYTES) as usize;

/// Whether a stripe is asked for by the node that leads the tree, as far as this node knows. One that has not heard of a new leader yet
/// leaves the stripe to it.
pub fn is_from_leader(from: NodeRank, asked: Leadership, known: Leadership) -> bool {
    asked == known && asked.leader == from
}

/// The writing of `extents`: the file is opened, each run is written and read, and all is made durable once.
pub fn cost_of(extents: &[WrittenExtent]) -> Cost {
    let runs: usize = parts(extents).iter().map(|part| runs(part).len()).sum();
    Cost { bytes: bytes_of(extents) as u64, calls: 2 * runs as u64 + 2 }
}

/// Extents that are together in memory, with the bytes that other nodes have of them.
pub struct Part {
    extents: Vec<WrittenExtent>,
    bytes: Vec<u8>,
}

impl Part {
    /// Reads what other nodes have, to this memory.
    ///
    /// # Errors
    /// The error of a log.
    pub async fn gather(reader: &Reader, extents: Vec<WrittenExtent>, mut bytes: Vec<u8>) -> Result<Self, Errno> {
        bytes.resize(bytes_of(&extents), 0);
        reader.gather(&extents, &mut bytes).await?;
        Ok(Self { extents, bytes })
    }

    /// Reads what this node has, and writes all. The memory, for the next one. May block.
    ///
    /// # Errors
    /// The error of the log, or of the backing file system.
    pub fn write(
        mut self,
        local: &Local,
        (file, may_land): (&File, &MayLand),
        upload: &mut Upload,
    ) -> Result<Vec<u8>, Errno> {
        local.gather_own(&self.extents, &mut self.bytes)?;
        upload.write((file, may_land), runs(&self.extents), &self.bytes).map_err(|error| errno(&error))?;
        Ok(self.bytes)
    }
}

/// Makes what is written durable, reads it back and compares it. May block.
///
/// # Errors
/// The backing file system's error; EIO when it has other bytes than were written.
pub fn verify(upload: &Upload, on: (&File, &MayLand), mut buffer: Vec<u8>) -> Result<Vec<u8>, Errno> {
    buffer.resize(upload.largest_bytes(), 0);
    upload.verify(on, ReadBack::Cached, &mut buffer, |_| ()).map_err(|error| errno(&error))?;
    Ok(buffer)
}

/// Extents of a file that logs have, in parts.
pub struct Extents {
    parts: Vec<Vec<WrittenExtent>>,
    /// The first of them, as far as they have been read.
    read: Vec<Part>,
    /// Zeros that have been written before them.
    zeros: Upload,
}

impl Extents {
    /// To be read when they are written.
    pub fn new(extents: &[WrittenExtent]) -> Self {
        Self { parts: parts(extents), read: vec![], zeros: Upload::default() }
    }

    /// Bytes of other nodes are read now, up to so many, and written first.
    ///
    /// # Errors
    /// The error of a log.
    pub async fn read_first(reader: &Reader, extents: &[WrittenExtent], bytes_max: u64) -> Result<Self, Errno> {
        let is_elsewhere = |extent: &WrittenExtent| extent.node != reader.local.rank;
        let (elsewhere, own): (Vec<_>, Vec<_>) = extents.iter().copied().partition(is_elsewhere);
        let (mut parts, mut read, mut room) = (parts(&elsewhere), vec![], bytes_max);
        for part in &parts {
            let Some(left) = room.checked_sub(bytes_of(part) as u64) else { break };
            room = left;
            read.push(Part::gather(reader, part.clone(), vec![]).await?);
        }
        parts.extend(self::parts(&own));
        Ok(Self { parts, read, zeros: Upload::default() })
    }

    /// Zeros that were written are compared with them.
    #[must_use]
    pub fn after(self, zeros: Upload) -> Self {
        Self { zeros, ..self }
    }

    /// All, if it is no more than a part.
    pub fn only_part(&mut self) -> Option<Vec<WrittenExtent>> {
        if self.parts.len() > 1 { None } else { Some(self.parts.pop().unwrap_or_default()) }
    }

    /// Writes them. `verified` gets how many bytes are durable and as they were written.
    ///
    /// # Errors
    /// The backing file system's error, or that of a log; EIO when it has other bytes than were written.
    pub async fn write(
        self,
        (reader, by): (&Reader, By<'_>),
        file: &Arc<File>,
        mut verified: impl FnMut(u64),
    ) -> Result<(), Errno> {
        let (mut read, mut memory, mut upload) = (self.read.into_iter(), vec![], self.zeros);
        if self.parts.is_empty() && upload.largest_bytes() > 0 {
            let (upload, file) = (std::mem::take(&mut upload), Arc::clone(file));
            let cost = Cost::calls(upload.calls());
            reader.local.calls.write(by, cost, move |may_land| verify(&upload, (&file, may_land), vec![])).await?;
        }
        for parts in self.parts.chunks(PARTS_AT_ONCE) {
            for (index, extents) in parts.iter().enumerate() {
                let part = match read.next() {
                    Some(part) => part,
                    None => Part::gather(reader, extents.clone(), std::mem::take(&mut memory)).await?,
                };
                let is_last = index + 1 == parts.len();
                let runs = runs(extents).len() as u64;
                let calls = if is_last { runs + upload.calls() + runs } else { runs };
                let cost = Cost { bytes: bytes_of(extents) as u64, calls };
                let (local, file) = (Arc::clone(&reader.local), Arc::clone(file));
                let write = move |may_land: &MayLand| {
                    let mut memory = part.write(&local, (&file, may_land), &mut upload)?;
                    if is_last {
                        memory = verify(&std::mem::take(&mut upload), (&file, may_land), memory)?;
                    }
                    Ok((memory, upload))
                };
                (memory, upload) = reader.local.calls.write(by, cost, write).await?;
            }
            verified(parts.iter().map(|part| bytes_of(part) as u64).sum());
        }
        Ok(())
    }
}

/// Writes a stripe of a draft. The node that leads the tree has waited until that may begin.
///
/// # Errors
/// As `Extents::write`.
pub async fn write_stripe(
    reader: &Reader,
    by: By<'_>,
    into: &Arc<File>,
    extents: &[WrittenExtent],
) -> Result<(), Errno> {
    Extents::new(extents).write((reader, by), into, |_| ()).await?;
    reader.local.stripes_written.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// An upload's error as one of a file.
pub fn errno(error: &UploadError) -> Errno {
    match error {
        UploadError::Write(error) | UploadError::ReadBack(error) => Errno::of(error),
        UploadError::Differs { .. } => {
            tracing::error!(%error, "the backing file system cannot be trusted");
            Errno::EIO
        }
    }
}

pub fn bytes_of(extents: &[WrittenExtent]) -> usize {
    extents.iter().map(|extent| extent.len as usize).sum()
}

/// Extents in parts of `PART_BYTES` at most.
fn parts(extents: &[WrittenExtent]) -> Vec<Vec<WrittenExtent>> {
    let (mut parts, mut room) = (vec![], 0);
    for extent in extents {
        let (mut at, end) = (extent.offset, extent.offset + extent.len);
        while at < end {
            if room == 0 {
                parts.push(vec![]);
                room = PART_BYTES;
            }
            let upto = end.min(at + room);
            if let (Some(part), Some(last)) = (part(extent, at..upto), parts.last_mut()) {
                last.push(part);
            }
            (room, at) = (room - (upto - at), upto);
        }
    }
    parts
}

/// Where extents lie in the file, those that touch as one.
fn runs(extents: &[WrittenExtent]) -> Vec<Run> {
    let mut runs: Vec<Run> = vec![];
    for extent in extents {
        match runs.last_mut().filter(|run| run.offset + run.len as u64 == extent.offset) {
            Some(run) => run.len += extent.len as usize,
            None => runs.push(Run { offset: extent.offset, len: extent.len as usize }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use forebay_types::LogPosition;

    use super::*;

    fn extent(offset: u64, len: u64) -> WrittenExtent {
        WrittenExtent { offset, len, node: NodeRank(0), position: LogPosition { segment: 1, offset: 0 }, skip: 0 }
    }

    #[test]
    fn only_the_leader_has_stripes_written() {
        let of = |term, node| Leadership { term, leader: NodeRank(node) };
        assert!(is_from_leader(NodeRank(2), of(3, 2), of(3, 2)));
        assert!(!is_from_leader(NodeRank(1), of(3, 2), of(3, 2)), "another node says what the leader might");
        assert!(!is_from_leader(NodeRank(1), of(u64::MAX, 1), of(3, 2)), "another node says that it is the leader");
        assert!(!is_from_leader(NodeRank(1), of(2, 1), of(3, 2)), "it was");
    }

    #[test]
    fn parts_have_all_bytes_in_order_and_fit_in_memory() {
        let extents = [extent(0, 1 << 20), extent(1 << 20, 9 << 20), extent(20 << 20, 5)];
        let parts = parts(&extents);
        let sizes: Vec<u64> = parts.iter().map(|part| part.iter().map(|extent| extent.len).sum()).collect();
        assert_eq!(sizes, [4 << 20, 4 << 20, (2 << 20) + 5]);
        let all: Vec<(u64, u64)> = parts.concat().iter().map(|extent| (extent.offset, extent.len)).collect();
        assert_eq!(all.iter().map(|(_, len)| len).sum::<u64>(), (10 << 20) + 5);
        assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        assert_eq!(parts[1][0].skip, 3 << 20, "a part of a record is read where it lies in it");
        let run = |offset, len| Run { offset, len };
        assert_eq!(runs(&parts[2]), [run(8 << 20, 2 << 20), run(20 << 20, 5)]);
    }
}
