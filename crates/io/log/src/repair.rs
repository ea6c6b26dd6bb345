//! Repairs of a store, so that the next recovery finds the same: places without a record that counts become pads, or
//! are cut off.

use std::collections::BTreeMap;
use std::io;

use forebay_types::LogPosition;
use forebay_wire::log_record::{LogIdentity, RECORD_HEAD_BYTES, RecordHead, RecordKind, Sequence};
use rustix::fs::OFlags;

use crate::append::write_all;
use crate::directory::Directory;

const HEAD: u32 = RECORD_HEAD_BYTES as u32;

/// Where no record begins.
#[derive(Clone, Copy)]
pub(crate) struct Gap {
    pub segment: u64,
    pub start: u32,
    pub end: u32,
}

/// Repairs that are due. They change nothing that counts, and may be done again.
#[derive(Default)]
pub(crate) struct Repairs {
    pads: Vec<Gap>,
    /// A segment and where it ends.
    cuts: Vec<(u64, u32)>,
    /// Where the index of a segment lies, which counts unless something is missing in the segment.
    indexes: BTreeMap<u64, u32>,
    pub removed: Vec<u64>,
}

impl Repairs {
    /// No record is to be found in these gaps.
    pub fn close(&mut self, gaps: &[Gap], segment_bytes: u32) {
        for gap in gaps {
            match gap {
                Gap { segment, start: 0, end } if *end >= segment_bytes => self.removed.push(*segment),
                Gap { segment, start, end } if *end >= segment_bytes => self.cuts.push((*segment, *start)),
                // Shorter than any record: nothing was ever reserved there.
                Gap { start, end, .. } if end - start < HEAD => {}
                _ => self.pads.push(*gap),
            }
        }
    }

    /// A segment has an index.
    pub fn add_index(&mut self, position: LogPosition) {
        self.indexes.insert(position.segment, position.offset);
    }

    /// Carries them out; durable when it returns, except for the names of segments that are removed.
    pub fn carry_out(&self, directory: &Directory, identity: LogIdentity) -> io::Result<()> {
        for Gap { segment, start, end } in &self.pads {
            let pad = RecordHead {
                kind: RecordKind::Pad,
                position: LogPosition { segment: *segment, offset: *start },
                sequence: Sequence(0),
                durable: Sequence(0),
                contents_bytes: end - start - HEAD,
                contents_checksum: 0,
            };
            let file = directory.open_segment(*segment, OFlags::WRONLY)?;
            write_all(&file, u64::from(*start), &pad.encode(identity), &[])?;
            file.sync_data()?;
        }
        // An index names also what is a pad now: without it the segment is walked.
        let outdated = self.pads.iter().filter_map(|pad| self.indexes.get_key_value(&pad.segment));
        let outdated = outdated.map(|(segment, offset)| (*segment, *offset));
        for (segment, end) in outdated.chain(self.cuts.iter().copied()) {
            let file = directory.open_segment(segment, OFlags::WRONLY)?;
            file.set_len(u64::from(end).min(file.metadata()?.len()))?;
            file.sync_all()?;
        }
        // The last ones first: a number that is missing before others stands for a segment that was freed.
        let mut removed = self.removed.clone();
        removed.sort_unstable();
        removed.iter().rev().try_for_each(|segment| directory.remove_segment(*segment))
    }
}
