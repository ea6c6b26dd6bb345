//! How much one request to write a stripe of a large file may ask for.

use crate::write::WrittenExtent;

/// Bytes of a stripe of a large file at most: so much is sent again at most for each that is under way.
pub const STRIPE_BYTES_MAX: u64 = 64 << 20;

/// Extents of one request to write a stripe; a stripe of more is written by several.
pub const STRIPE_EXTENTS_MAX: usize = 1 << 10;

/// Whether extents follow each other in a file that there can be, and are no more than one stripe.
pub(crate) fn is_stripe(extents: &[WrittenExtent]) -> bool {
    let mut at = Some(0);
    for extent in extents {
        let follows = at.is_some_and(|at| at <= extent.offset) && extent.is_within_limits();
        at = extent.offset.checked_add(extent.len).filter(|_| follows);
    }
    // A sum that overflows is above the limit.
    let bytes = extents.iter().fold(0_u64, |bytes, extent| bytes.saturating_add(extent.len));
    extents.len() <= STRIPE_EXTENTS_MAX && bytes <= STRIPE_BYTES_MAX && at.is_some()
}
