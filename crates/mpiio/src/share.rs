//! A rank's description of its bytes before an exchange, so that all ranks can plan: how many there are, in how many extents, and
//! roughly where.

use crate::error::Error;
use crate::view::Extent;

/// Stretches of a file by which a rank describes its bytes. Finer would tell the plan more, and every rank hears it of all:
/// 4,096 ranks exchange 2 MiB.
const SPANS_MAX: usize = 32;

/// The description of one rank's bytes that a plan needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// How many there are.
    pub bytes: u64,
    /// In how many extents.
    pub extent_count: u64,
    /// Stretches of whole stripes that cover them, in order.
    pub spans: Vec<Extent>,
}

impl Share {
    /// Bytes of every message that describes a share.
    pub const MESSAGE_BYTES: usize = 8 * (3 + 2 * SPANS_MAX);

    /// The share of a rank, by its extents in the order of the file.
    #[must_use]
    pub fn of(extents: &[Extent], stripe_bytes: u64) -> Self {
        let bytes = extents.iter().map(|extent| extent.len).sum();
        let mut spans = whole_stripes(extents, stripe_bytes);
        if spans.len() > SPANS_MAX {
            let gap = |pair: &[Extent]| pair[1].offset - pair[0].end();
            let mut gaps: Vec<u64> = spans.windows(2).map(gap).collect();
            gaps.sort_unstable_by(|a, b| b.cmp(a));
            // Gaps that are larger than this one separate; among equal ones the first do.
            let smallest = gaps[SPANS_MAX - 2];
            let mut equal = gaps[..SPANS_MAX - 1].iter().filter(|gap| **gap == smallest).count();
            let mut joined: Vec<Extent> = vec![];
            for span in spans {
                let separate = joined.last().is_none_or(|last| match (span.offset - last.end()).cmp(&smallest) {
                    std::cmp::Ordering::Greater => true,
                    std::cmp::Ordering::Equal if equal > 0 => {
                        equal -= 1;
                        true
                    }
                    _ => false,
                });
                match joined.last_mut() {
                    Some(last) if !separate => last.len = span.end() - last.offset,
                    _ => joined.push(span),
                }
            }
            spans = joined;
        }
        Self { bytes, extent_count: extents.len() as u64, spans }
    }

    /// As a message of [`Share::MESSAGE_BYTES`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let spans = self.spans.iter().flat_map(|span| [span.offset, span.len]);
        let words = [self.bytes, self.extent_count, self.spans.len() as u64].into_iter().chain(spans);
        let mut message: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        message.resize(Self::MESSAGE_BYTES, 0);
        message
    }

    /// The shares of all ranks, from their messages one after the other.
    ///
    /// # Errors
    /// [`Error::Message`] for anything that [`Share::encode`] does not make.
    pub fn decode(messages: &[u8]) -> Result<Vec<Self>, Error> {
        messages.chunks(Self::MESSAGE_BYTES).map(Self::decode_one).collect()
    }

    fn decode_one(message: &[u8]) -> Result<Self, Error> {
        let words: Vec<u64> = message.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let [bytes, extent_count, count, ref rest @ ..] = words[..] else { return Err(Error::Message) };
        let count = usize::try_from(count).ok().filter(|count| *count <= SPANS_MAX).ok_or(Error::Message)?;
        let spans = rest.get(..2 * count).ok_or(Error::Message)?;
        let spans: Vec<Extent> = spans.chunks(2).map(|pair| Extent { offset: pair[0], len: pair[1] }).collect();
        let ends = spans.iter().all(|span| span.len > 0 && span.offset.checked_add(span.len).is_some());
        let in_order = spans.windows(2).all(|pair| pair[0].end() <= pair[1].offset);
        if ends && in_order { Ok(Self { bytes, extent_count, spans }) } else { Err(Error::Message) }
    }
}

/// The stripes that extents in the order of the file touch, as stretches.
fn whole_stripes(extents: &[Extent], stripe_bytes: u64) -> Vec<Extent> {
    let mut spans: Vec<Extent> = vec![];
    for extent in extents {
        let offset = extent.offset / stripe_bytes * stripe_bytes;
        let end = extent.end().div_ceil(stripe_bytes).saturating_mul(stripe_bytes);
        match spans.last_mut() {
            Some(last) if offset <= last.end() => last.len = last.len.max(end - last.offset),
            _ => spans.push(Extent { offset, len: end - offset }),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nonsense_is_refused() {
        assert!(Share::decode(&[0xff; Share::MESSAGE_BYTES]).is_err());
    }

    proptest! {
        /// A share covers its extents, in few spans of whole stripes, and survives being sent.
        #[test]
        fn shares_cover_their_extents(gaps in prop::collection::vec((0u64..500, 1u64..50), 1..120)) {
            let mut offset = 0;
            let extents: Vec<Extent> = gaps.iter().map(|&(gap, len)| {
                let extent = Extent { offset: offset + gap, len };
                offset = extent.end();
                extent
            }).collect();
            let share = Share::of(&extents, 16);
            prop_assert!(share.spans.len() <= SPANS_MAX);
            prop_assert!(share.spans.iter().all(|span| span.offset.is_multiple_of(16) && span.len.is_multiple_of(16)));
            for extent in &extents {
                prop_assert!(share.spans.iter().any(|span| span.offset <= extent.offset && extent.end() <= span.end()));
            }
            prop_assert_eq!(Share::decode(&share.encode()).unwrap(), vec![share]);
        }
    }
}
