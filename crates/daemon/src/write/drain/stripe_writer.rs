//! A stripe of a file on its way to the file's draft, on the node that writes it: read from logs, written, made durable, read back
//! and compared.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use forebay_types::{Errno, NodeRank};
use forebay_wire::write::WrittenExtent;
use forebay_wire::write_message::Owns;
use forebay_write::stripes::part;

use crate::write::contents::Reader;

/// Bytes that are in memory at a time.
const PART_BYTES: u64 = 4 << 20;

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

/// Writes what `extents` have, in the file's order. The node that owns the tree has waited until that may begin.
///
/// # Errors
/// What the backing file system says, or the logs; EIO when it has other bytes than were written.
pub fn write_extents(reader: &Reader, into: &File, extents: &[WrittenExtent]) -> Result<(), Errno> {
    let failed = |error: std::io::Error| Errno::of(&error);
    let calls = &reader.local.calls;
    let mut checksums = vec![];
    for extents in parts(extents) {
        let mut bytes = vec![0; extents.iter().map(|extent| extent.len as usize).sum()];
        reader.gather(&extents, &mut bytes)?;
        let mut rest = &bytes[..];
        for (offset, len) in runs(&extents) {
            let (run, after) = rest.split_at(len);
            calls.land_paced(|| into.write_all_at(run, offset)).map_err(failed)?;
            rest = after;
        }
        checksums.push((extents, crc32c::crc32c(&bytes)));
    }
    calls.land_paced(|| into.sync_data()).map_err(failed)?;
    for (extents, checksum) in checksums {
        let mut bytes = vec![0; extents.iter().map(|extent| extent.len as usize).sum()];
        let mut rest = &mut bytes[..];
        for (offset, len) in runs(&extents) {
            let (run, after) = rest.split_at_mut(len);
            calls.land_paced(|| into.read_exact_at(run, offset)).map_err(failed)?;
            rest = after;
        }
        if crc32c::crc32c(&bytes) != checksum {
            let offset = extents.first().map_or(0, |extent| extent.offset);
            tracing::error!(offset, "the backing file system returns other bytes than were written");
            return Err(Errno::EIO);
        }
    }
    reader.local.stripes_written.fetch_add(1, Ordering::Relaxed);
    Ok(())
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

/// Where extents lie in the file, those that touch as one: offset and length.
fn runs(extents: &[WrittenExtent]) -> Vec<(u64, usize)> {
    let mut runs: Vec<(u64, usize)> = vec![];
    for extent in extents {
        match runs.last_mut().filter(|(offset, len)| offset + *len as u64 == extent.offset) {
            Some((_, len)) => *len += extent.len as usize,
            None => runs.push((extent.offset, extent.len as usize)),
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
        assert_eq!(runs(&parts[2]), [(8 << 20, 2 << 20), (20 << 20, 5)]);
    }
}
