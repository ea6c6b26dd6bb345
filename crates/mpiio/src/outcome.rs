//! How an exchange ended at every rank, and what all ranks make of it: the same error, whoever met it.

use rustix::io::Errno;

use crate::error::Error;
use crate::group::Group;
use crate::message::{EXTENT_BYTES, NUMBER_BYTES, Reader, put, put_extent};
use crate::view::Extent;

/// An error at one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Why.
    pub errno: Errno,
    /// In which round, from 0.
    pub round: u64,
    /// From the first to the last byte of which some are missing in the file.
    pub missing: Extent,
}

impl Fault {
    /// This and a later one, as one.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        let offset = self.missing.offset.min(later.missing.offset);
        let end = self.missing.end().max(later.missing.end());
        Self { missing: Extent { offset, len: end - offset }, ..self }
    }
}

/// Bytes of what a rank tells the others.
const REPORT_BYTES: usize = 3 * NUMBER_BYTES + EXTENT_BYTES;

/// The errors of all ranks, in the order of the ranks; every rank gets all of them.
///
/// # Errors
/// [`Error::Communication`], [`Error::Message`]. Not the faults themselves.
pub fn agree<G: Group>(group: &G, own: Option<Fault>) -> Result<Vec<(usize, Fault)>, Error> {
    let mut report = Vec::with_capacity(REPORT_BYTES);
    put(&mut report, u64::from(own.is_some()));
    put(&mut report, own.map_or(0, |fault| fault.errno.raw_os_error() as u64));
    put(&mut report, own.map_or(0, |fault| fault.round));
    put_extent(&mut report, own.map_or(Extent { offset: 0, len: 1 }, |fault| fault.missing));
    let mut faults = vec![];
    for (rank, report) in group.all_gather(&report)?.chunks(REPORT_BYTES).enumerate() {
        let mut report = Reader::new(report);
        let failed = report.number()? != 0;
        let errno = i32::try_from(report.number()?).map_err(|_| Error::Message)?;
        let (round, missing) = (report.number()?, report.extent()?);
        if failed {
            faults.push((rank, Fault { errno: Errno::from_raw_os_error(errno), round, missing }));
        }
    }
    Ok(faults)
}
