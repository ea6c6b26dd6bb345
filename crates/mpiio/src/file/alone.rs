//! Calls of which every rank writes or reads its own pieces, straight from and to the program's memory where that is dense.
//!
//! A rank alone hears at once of an error of its own; the others hear of that of a write when they next write together.

use super::File;
use crate::error::Error;
use crate::group::Group;
use crate::memory::Buffer;
use crate::outcome::Fault;
use crate::view::Extent;

/// Bytes of a call that are packed at a time, where the program's memory has gaps; also what extents are listed of.
const SLICE_BYTES: u64 = 16 << 20;

impl<G: Group> File<G> {
    /// Writes the buffer from a byte of the view on.
    ///
    /// # Errors
    /// That of this rank, which the others hear at the next flush.
    pub(super) fn write_alone(&mut self, from: u64, buffer: &Buffer) -> Result<(), Error> {
        self.report.alone_call();
        let mut fault: Option<Fault> = None;
        let mut packed = vec![];
        for (start, extents) in self.slices(from, buffer)? {
            let len: u64 = extents.iter().map(|extent| extent.len).sum();
            let bytes = match buffer.dense(start, len) {
                Some(bytes) => bytes,
                None => {
                    packed.clear();
                    buffer.pack(start, len, &mut packed);
                    &packed
                }
            };
            let mut at = 0;
            for extent in extents {
                let piece = &bytes[at..at + extent.len as usize];
                at += piece.len();
                fault = match fault {
                    // Pieces after an error are missing too.
                    Some(earlier) => Some(earlier.and(Fault { missing: extent, ..earlier })),
                    None => {
                        let written = self.storage.write(extent.offset, piece);
                        written.err().map(|error| Fault { errno: error.errno(), round: 0, missing: extent })
                    }
                };
            }
        }
        let Some(fault) = fault else { return Ok(()) };
        self.own_fault = Some(self.own_fault.map_or(fault, |earlier| earlier.and(fault)));
        Err(Error::Rank { rank: self.group.rank(), errno: fault.errno })
    }

    /// Reads into the buffer from a byte of the view on; how many bytes there are.
    ///
    /// # Errors
    /// That of this rank.
    pub(super) fn read_alone(&mut self, from: u64, buffer: &Buffer) -> Result<u64, Error> {
        self.report.alone_call();
        let (mut total, mut packed) = (0, vec![]);
        for (start, extents) in self.slices(from, buffer)? {
            let len: u64 = extents.iter().map(|extent| extent.len).sum();
            // The program's memory behind the end of the file stays as it is, so it is filled by what was read alone.
            packed.resize(len as usize, 0);
            let mut at = 0;
            for extent in extents {
                let read = self.storage.read(extent.offset, &mut packed[at..at + extent.len as usize])?;
                at += read;
                if (read as u64) < extent.len {
                    buffer.unpack(start, &packed[..at]);
                    return Ok(total + at as u64);
                }
            }
            buffer.unpack(start, &packed);
            total += len;
        }
        Ok(total)
    }

    /// Where each part of a call begins in the buffer, and its extents.
    fn slices(&self, from: u64, buffer: &Buffer) -> Result<Vec<(u64, Vec<Extent>)>, Error> {
        let mut slices = vec![];
        let mut start = 0;
        while start < buffer.len_bytes() {
            let len = SLICE_BYTES.min(buffer.len_bytes() - start);
            let extents = from.checked_add(start).and_then(|from| self.view.as_ref()?.extents(from, len));
            slices.push((start, extents.ok_or(Error::Message)?));
            start += len;
        }
        Ok(slices)
    }
}
