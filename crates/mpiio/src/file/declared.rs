//! Calls of the C interface on a file: programs declare what they are going to write, and name extents instead of views.

use super::File;
use crate::error::Error;
use crate::group::Group;
use crate::plan::Plan;
use crate::plan::Writing;
use crate::view::{Extent, covers, in_order};

impl<G: Group> File<G> {
    /// Declares all extents that this rank will write until the next flush, so that they are held whatever they cost and
    /// the exchange is planned now. Collective; flushes what is held.
    ///
    /// # Errors
    /// As [`File::flush`].
    pub fn declare(&mut self, mut extents: Vec<Extent>) -> Result<(), Error> {
        self.flush()?;
        extents.retain(|extent| extent.len > 0);
        extents.sort_unstable();
        let shares = self.shares(&extents)?;
        // Large ones are gathered too: that was asked for.
        let writing = self.plan(&shares)?;
        if let Writing::Planned(plan) = &writing {
            self.report.planned(plan);
        }
        self.report.holds();
        self.declared = Some((extents, writing));
        Ok(())
    }

    /// Holds bytes for an extent, without any other rank.
    ///
    /// # Errors
    /// [`Error::NotDeclared`]; of bytes that were held before, where no extents are declared and the buffer is full.
    pub fn write_extent(&mut self, extent: Extent, bytes: &[u8]) -> Result<(), Error> {
        let mut written = Ok(());
        match &self.declared {
            Some((declared, _)) if !covers(declared, extent) => {
                return Err(Error::NotDeclared { offset: extent.offset, end: extent.end() });
            }
            None if self.beside.cost_bytes() + extent.len > self.hints.buffer_bytes => written = self.write_own(),
            _ => {}
        }
        if extent.len > 0 {
            self.beside.raise_end(extent.end());
            self.report.holds_alone();
            self.hold(&[extent], |held| held.extend_from_slice(bytes));
        }
        written
    }

    /// Reads extents, in the order in which they are given. Returns the bytes and where the file ends, as far as anybody
    /// noticed. Collective; flushes what is held.
    ///
    /// # Errors
    /// Of what was held, and of the read; the same on every rank. After [`Error::Plan`] each rank is to read its extents itself.
    pub fn read_extents(&mut self, extents: &[Extent]) -> Result<(Vec<u8>, u64), Error> {
        self.flush()?;
        let shares = self.shares(&in_order(extents))?;
        let Some(plan) = Plan::new(&shares, &self.terms)? else { return Ok((vec![], u64::MAX)) };
        let received = self.gather(&plan, extents)?;
        Ok((received.bytes, received.file_end))
    }
}
