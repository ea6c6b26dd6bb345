//! The effect of `fallocate`. Room is not reserved: the store drains while it fills, and files land where others write, too. An amount that does not
//! fit there now is refused.

use std::ops::Range;

use forebay_types::{Errno, FileSystem};

/// `FALLOC_FL_KEEP_SIZE`.
const KEEP_SIZE: u32 = 1;

/// How long a file of `size_bytes`, which lands on `there`, is at least after a range of it was allocated, bytes.
///
/// # Errors
/// ENOSPC; EOPNOTSUPP for other modes.
pub fn least_bytes(mode: u32, range: Range<u64>, size_bytes: u64, there: &FileSystem) -> Result<u64, Errno> {
    if mode & !KEEP_SIZE != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let room_bytes = there.blocks_available.saturating_mul(there.fragment_bytes.into());
    if range.end.saturating_sub(size_bytes.max(range.start)) > room_bytes {
        return Err(Errno::ENOSPC);
    }
    Ok(if mode == KEEP_SIZE { 0 } else { range.end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beyond_the_buffer_are_refused() {
        let there = FileSystem { blocks_available: 10, fragment_bytes: 1000, ..FileSystem::default() };
        let plan = |mode, range, size| least_bytes(mode, range, size, &there);
        assert_eq!(plan(0, 0..10_000, 0), Ok(10_000));
        assert_eq!(plan(KEEP_SIZE, 0..10_000, 0), Ok(0));
        assert_eq!([0, KEEP_SIZE].map(|mode| plan(mode, 0..10_001, 0)), [Err(Errno::ENOSPC); 2]);
        assert_eq!(plan(0, 0..20_000, 15_000), Ok(20_000), "it has the rest");
        assert_eq!(plan(2, 0..1, 1), Err(Errno::EOPNOTSUPP));
    }
}
