//! Bytes that an earlier run left out of a file, and that no rank has written since.
//!
//! The mark beside an incomplete file names the bytes that may be missing. A run that opens the file takes them from there, every
//! rank strikes out what it writes, and at the end only what no rank has struck out is missing still.

use crate::error::Error;
use crate::group::Group;
use crate::message::{EXTENT_BYTES, Reader, put_extent};
use crate::view::Extent;

/// Parts that a rank tells apart: 64 KiB of them. Beyond, what is written in the middle of one counts as missing.
const PARTS_MAX: usize = 4096;

/// Missing bytes, in order, apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing(Vec<Extent>);

impl Missing {
    /// These.
    #[must_use]
    pub fn new(extents: &[Extent]) -> Self {
        Self(crate::view::in_order(extents))
    }

    /// Those that the text of a mark names in lines such as `bytes 0 to 4096: why`; all, where it names none.
    #[must_use]
    pub fn of_mark(text: &str) -> Self {
        let named = |line: &str| {
            let (from, to) = line.trim_start().strip_prefix("bytes ")?.split_once(':')?.0.split_once(" to ")?;
            let (offset, end): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
            (offset < end && end <= i64::MAX as u64).then(|| Extent { offset, len: end - offset })
        };
        let extents: Vec<Extent> = text.lines().filter_map(named).collect();
        if extents.is_empty() { Self(vec![Extent { offset: 0, len: i64::MAX as u64 }]) } else { Self::new(&extents) }
    }

    /// The bytes.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.0
    }

    /// Whether it names no bytes, since nothing is known but that some are missing.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.last().is_some_and(|last| last.end() == i64::MAX as u64)
    }

    /// These bytes are in the file now.
    pub fn written(&mut self, extent: Extent) {
        if self.0.is_empty() {
            return;
        }
        let from = self.0.partition_point(|part| part.end() <= extent.offset);
        let to = self.0.partition_point(|part| part.offset < extent.end());
        if from >= to {
            return;
        }
        let (first, last) = (self.0[from], self.0[to - 1]);
        let before =
            (first.offset < extent.offset).then(|| Extent { offset: first.offset, len: extent.offset - first.offset });
        let after =
            (extent.end() < last.end()).then(|| Extent { offset: extent.end(), len: last.end() - extent.end() });
        if before.is_some() && after.is_some() && self.0.len() >= PARTS_MAX {
            return;
        }
        self.0.splice(from..to, before.into_iter().chain(after));
    }

    /// The file ends here: what is beyond is not of it.
    pub fn cut(&mut self, size: u64) {
        self.0.retain_mut(|part| {
            part.len = part.len.min(size.saturating_sub(part.offset));
            part.len > 0
        });
    }

    /// The bytes that no rank has written. Collective.
    ///
    /// # Errors
    /// [`Error::Communication`], [`Error::Message`].
    pub fn of_all<G: Group>(&self, group: &G) -> Result<Self, Error> {
        let mut most = [self.0.len() as i64];
        group.all_max(&mut most)?;
        let [most] = most;
        if most == 0 {
            return Ok(Self::default());
        }
        let mut message = Vec::with_capacity(most as usize * EXTENT_BYTES);
        self.0.iter().for_each(|part| put_extent(&mut message, *part));
        message.resize(most as usize * EXTENT_BYTES, 0);
        let mut missing: Option<Self> = None;
        for message in group.all_gather(&message)?.chunks(message.len()) {
            let count = message.chunks(EXTENT_BYTES).take_while(|part| part.iter().any(|byte| *byte != 0)).count();
            let mut reader = Reader::new(message);
            let parts: Result<Vec<Extent>, Error> = (0..count).map(|_| reader.extent()).collect();
            let parts = Self(parts?);
            missing = Some(match missing {
                Some(missing) => missing.both(&parts),
                None => parts,
            });
        }
        Ok(missing.unwrap_or_default())
    }

    /// The bytes that are in both.
    fn both(&self, other: &Self) -> Self {
        let (mut parts, mut one, mut two) = (vec![], self.0.as_slice(), other.0.as_slice());
        while let (Some(left), Some(right)) = (one.first(), two.first()) {
            let (offset, end) = (left.offset.max(right.offset), left.end().min(right.end()));
            if offset < end {
                parts.push(Extent { offset, len: end - offset });
            }
            if left.end() <= right.end() {
                one = &one[1..];
            } else {
                two = &two[1..];
            }
        }
        Self(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents(pairs: &[(u64, u64)]) -> Vec<Extent> {
        pairs.iter().map(|&(offset, len)| Extent { offset, len }).collect()
    }

    #[test]
    fn a_mark_names_bytes_or_means_all() {
        let text =
            "/scratch/file is incomplete:\nbytes 10 to 20: rank 1, round 3: full\n earlier: no\nbytes 5 to 12: x\n";
        assert_eq!(Missing::of_mark(text), Missing::new(&extents(&[(5, 15)])));
        assert!(Missing::of_mark("").is_all() && Missing::of_mark("bytes 7 to 3: x").is_all());
        assert!(!Missing::of_mark(text).is_all());
    }

    proptest! {
        /// A byte is missing if it was and was not written.
        #[test]
        fn what_is_written_is_not_missing(
            missing in prop::collection::vec((0u64..100, 1u64..30), 1..6),
            written in prop::collection::vec((0u64..120, 1u64..30), 0..12), size in 0u64..150, cuts: bool,
        ) {
            let (missing, written) = (extents(&missing), extents(&written));
            let mut left = Missing::new(&missing);
            written.iter().for_each(|extent| left.written(*extent));
            if cuts {
                left.cut(size);
            }
            let has = |extents: &[Extent], byte: u64| extents.iter().any(|each| each.offset <= byte && byte < each.end());
            for byte in 0..200 {
                let is_left = has(&missing, byte) && !has(&written, byte) && !(cuts && byte >= size);
                prop_assert_eq!(has(left.extents(), byte), is_left, "byte {}", byte);
            }
            let other = Missing::new(&written);
            for byte in 0..200 {
                prop_assert_eq!(has(left.both(&other).extents(), byte), has(left.extents(), byte) && has(&written, byte));
            }
        }
    }
}
