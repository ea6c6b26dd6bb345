//! Extents of a file on their way to the backing file system, on the node that writes them: read from logs, and uploaded.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use forebay_types::{Errno, NodeRank};
use forebay_upload::{ReadBack, Run, Turns, Upload, UploadError};
use forebay_wire::write::WrittenExtent;
use forebay_wire::write_message::{Owns, STRIPE_BYTES_MAX};
use forebay_write::stripes::part;

use crate::write::calls::BackingCalls;
use crate::write::contents::Reader;

/// Bytes that are in memory at a time: what one message to another node's log may ask for.
const PART_BYTES: u64 = 4 << 20;

/// Parts that are made durable together. A stripe has no more; of a file that is changed in place, no more pages wait for its disks.
const PARTS_AT_ONCE: usize = (STRIPE_BYTES_MAX / PART_BYTES) as usize;

/// Whether a stripe is asked for by the node that owns the tree, as far as this node knows. One that has not heard of a new owner yet
/// leaves the stripe to it.
pub fn is_from_owner(from: NodeRank, asked: Owns, known: Owns) -> bool {
    asked == known && asked.node == from
}

/// Calls on the backing file system that the writing of `extents` takes: the file is opened, each run is written and read, and all is made
/// durable once.
pub fn calls_of(extents: &[WrittenExtent]) -> u64 {
    let runs: usize = parts(extents).iter().map(|part| runs(part).len()).sum();
    2 * runs as u64 + 2
}

/// Calls of landing on the node that owns the tree, which waits until they may be made.
pub struct InTime<'a>(pub &'a BackingCalls);

impl Turns for InTime<'_> {
    fn write(&self, bytes: u64, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        Ok(self.0.write(bytes, || call().map_err(|error| Errno::of(&error)))?)
    }

    fn call(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.0.land(call)
    }
}

/// Calls of landing that the node that owns the tree has waited for. Where it owns it no more, it makes none: the next owner may have published
/// the file. Other nodes make them for whichever node owns it.
struct Paced<'a>(&'a BackingCalls);

impl Turns for Paced<'_> {
    fn write(&self, _bytes: u64, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.0.land_paced_in_time(call)
    }

    fn call(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.0.land_paced_in_time(call)
    }
}

/// Extents of a file that logs have, in parts.
pub struct Extents {
    parts: Vec<Vec<WrittenExtent>>,
    /// Bytes of the first of them.
    read: Vec<Vec<u8>>,
}

impl Extents {
    /// To be read when they are written.
    pub fn new(extents: &[WrittenExtent]) -> Self {
        Self { parts: parts(extents), read: vec![] }
    }

    /// Bytes of other nodes are read now, up to so many, and written first.
    ///
    /// # Errors
    /// The error of a log.
    pub fn read_first(reader: &Reader, extents: &[WrittenExtent], bytes_max: u64) -> Result<Self, Errno> {
        if bytes_max == 0 {
            return Ok(Self::new(extents));
        }
        let is_elsewhere = |extent: &WrittenExtent| extent.node != reader.local.rank;
        let (elsewhere, own): (Vec<_>, Vec<_>) = extents.iter().copied().partition(is_elsewhere);
        let (mut parts, mut read, mut room) = (parts(&elsewhere), vec![], bytes_max);
        for part in &parts {
            let Some(left) = room.checked_sub(bytes_of(part) as u64) else { break };
            room = left;
            let mut bytes = vec![0; bytes_of(part)];
            reader.nodes.wait_for(reader.gather(part, &mut bytes))?;
            read.push(bytes);
        }
        parts.extend(self::parts(&own));
        Ok(Self { parts, read })
    }

    /// Writes them. `verified` gets how many bytes are durable and as they were written.
    ///
    /// # Errors
    /// The backing file system's error, or that of a log; EIO when it has other bytes than were written.
    pub fn write(&self, reader: &Reader, to: (&File, &impl Turns), mut verified: impl FnMut(u64)) -> Result<(), Errno> {
        let mut read = self.read.iter();
        let mut buffer = vec![0; self.parts.iter().map(|part| bytes_of(part)).max().unwrap_or(0)];
        for parts in self.parts.chunks(PARTS_AT_ONCE) {
            let mut upload = Upload::default();
            for part in parts {
                let bytes = match read.next() {
                    Some(bytes) => &bytes[..],
                    None => {
                        let into = &mut buffer[..bytes_of(part)];
                        reader.nodes.wait_for(reader.gather(part, into))?;
                        into
                    }
                };
                upload.write(to, runs(part), bytes).map_err(|error| errno(&error))?;
            }
            let compared = upload.verify(to, ReadBack::Cached, &mut buffer, &mut verified);
            compared.map_err(|error| errno(&error))?;
        }
        Ok(())
    }
}

/// Writes a stripe of a draft. The node that owns the tree has waited until that may begin.
///
/// # Errors
/// As `Extents::write`.
pub fn write_stripe(reader: &Reader, into: &File, extents: &[WrittenExtent]) -> Result<(), Errno> {
    Extents::new(extents).write(reader, (into, &Paced(&reader.local.calls)), |_| ())?;
    reader.local.stripes_written.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn errno(error: &UploadError) -> Errno {
    match error {
        UploadError::Write(error) | UploadError::ReadBack(error) => Errno::of(error),
        UploadError::Differs { .. } => {
            tracing::error!(%error, "the backing file system cannot be trusted");
            Errno::EIO
        }
    }
}

fn bytes_of(extents: &[WrittenExtent]) -> usize {
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
    fn only_the_owner_has_stripes_written() {
        let of = |epoch, node| Owns { epoch, node: NodeRank(node) };
        assert!(is_from_owner(NodeRank(2), of(3, 2), of(3, 2)));
        assert!(!is_from_owner(NodeRank(1), of(3, 2), of(3, 2)), "another node says what the owner might");
        assert!(!is_from_owner(NodeRank(1), of(u64::MAX, 1), of(3, 2)), "another node says that it is the owner");
        assert!(!is_from_owner(NodeRank(1), of(2, 1), of(3, 2)), "it was");
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
