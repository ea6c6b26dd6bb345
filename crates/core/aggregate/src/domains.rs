//! File domains, and the windows of a domain: where the file is cut.
//!
//! Cuts lie on stripe boundaries, so that no two aggregators, and no two rounds, write one stripe. Parts are even by the
//! bytes that somebody has there, and not by offsets: a hole weighs nothing. Where there are fewer stripes than parts, there
//! are fewer parts.

use crate::extents::{Extent, bytes, within};

/// The measure by which the parts are even.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evenly {
    /// Bytes that somebody has.
    ByBytes,
    /// Offsets from the first byte to the last, as ROMIO cuts.
    ByOffset,
}

/// Cuts the span of a set into at most `count` spans with bytes in each, at multiples of `stripe_bytes`.
#[must_use]
pub fn cut(set: &[Extent], count: usize, stripe_bytes: u64, evenly: Evenly) -> Vec<Extent> {
    let (Some(first), Some(last)) = (set.first(), set.last()) else { return vec![] };
    let span = Extent::between(first.offset, last.end());
    let ideal = match evenly {
        Evenly::ByBytes => by_bytes(set, count),
        Evenly::ByOffset => (1..count).map(|part| span.offset + share(span.len, part, count)).collect(),
    };
    let on_stripes = ideal.into_iter().map(|offset| nearest_multiple(offset, stripe_bytes));
    let inside = on_stripes.filter(|offset| (span.offset + 1..span.end()).contains(offset));
    let mut start = span.offset;
    let mut spans = Vec::with_capacity(count);
    for end in inside.chain([span.end()]) {
        let part = Extent::between(start, end);
        if part.len > 0 && !within(set, part).is_empty() {
            spans.push(part);
            start = end;
        }
    }
    spans
}

/// Where each of `count` parts but the first begins if every byte may be a boundary.
fn by_bytes(set: &[Extent], count: usize) -> Vec<u64> {
    let total = bytes(set);
    let mut offsets = Vec::with_capacity(count);
    let (mut before, mut extents) = (0, set.iter());
    let mut extent = extents.next();
    for part in 1..count {
        let wanted = share(total, part, count);
        while let Some(current) = extent.filter(|current| before + current.len <= wanted) {
            before += current.len;
            extent = extents.next();
        }
        offsets.extend(extent.map(|current| current.offset + (wanted - before)));
    }
    offsets
}

/// `part` of `count` parts of `total`.
fn share(total: u64, part: usize, count: usize) -> u64 {
    (u128::from(total) * part as u128 / count as u128) as u64
}

fn nearest_multiple(offset: u64, of: u64) -> u64 {
    (offset + of / 2) / of * of
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::union;
    use proptest::prelude::*;

    fn spans(set: &[(u64, u64)], count: usize, stripe: u64, evenly: Evenly) -> Vec<(u64, u64)> {
        let set: Vec<Extent> = set.iter().copied().map(Extent::from).collect();
        cut(&set, count, stripe, evenly).into_iter().map(|span| (span.offset, span.end())).collect()
    }

    #[test]
    fn even_data_are_cut_evenly() {
        assert_eq!(spans(&[(0, 64)], 4, 4, Evenly::ByBytes), [(0, 16), (16, 32), (32, 48), (48, 64)]);
        assert_eq!(spans(&[(0, 64)], 3, 4, Evenly::ByBytes), [(0, 20), (20, 44), (44, 64)]);
    }

    #[test]
    fn holes_weigh_nothing_by_bytes_and_much_by_offset() {
        let set = [(0, 32), (1000, 32)];
        assert_eq!(spans(&set, 2, 4, Evenly::ByBytes), [(0, 1000), (1000, 1032)]);
        assert_eq!(spans(&set, 4, 4, Evenly::ByBytes), [(0, 16), (16, 1000), (1000, 1016), (1016, 1032)]);
        assert_eq!(spans(&set, 4, 4, Evenly::ByOffset), [(0, 260), (260, 1032)]);
    }

    #[test]
    fn there_are_no_more_parts_than_stripes() {
        assert_eq!(spans(&[(3, 6)], 8, 4, Evenly::ByBytes), [(3, 4), (4, 8), (8, 9)]);
        assert_eq!(spans(&[(5, 2)], 8, 4, Evenly::ByBytes), [(5, 7)]);
        assert!(spans(&[], 8, 4, Evenly::ByBytes).is_empty());
    }

    proptest! {
        #[test]
        fn every_byte_lies_in_one_span_and_cuts_on_stripes(
            extents in prop::collection::vec((0u64..2000, 1u64..50), 1..40), count in 1usize..12, stripe in 1u64..70,
            is_by_offset: bool,
        ) {
            let set = union(extents.into_iter().map(Extent::from).collect());
            let evenly = if is_by_offset { Evenly::ByOffset } else { Evenly::ByBytes };
            let spans = cut(&set, count, stripe, evenly);
            prop_assert!((1..=count).contains(&spans.len()));
            let covered: Vec<Extent> = spans.iter().flat_map(|span| within(&set, *span)).collect();
            prop_assert_eq!(union(covered.clone()), set.clone());
            prop_assert_eq!(bytes(&covered), bytes(&set));
            for pair in spans.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].offset && pair[1].offset.is_multiple_of(stripe));
            }
            for span in &spans {
                prop_assert!(!within(&set, *span).is_empty());
            }
        }

        #[test]
        fn parts_by_bytes_differ_by_two_half_stripes_at_most(count in 1usize..12, stripes in 12u64..100, stripe in 1u64..70) {
            let set = [Extent { offset: 0, len: stripes * stripe }];
            let spans = cut(&set, count, stripe, Evenly::ByBytes);
            prop_assert_eq!(spans.len(), count);
            for span in spans {
                let even = stripes * stripe / count as u64;
                prop_assert!(span.len.abs_diff(even) <= stripe + 1);
            }
        }
    }
}
