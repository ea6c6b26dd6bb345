//! Who writes what, and in which round: computed by every rank alike from what all have said of their bytes.
//!
//! The stripes that anybody touches, in the order of the file, are dealt out in equal parts on stripe boundaries: the file
//! domains, one for each aggregator. Stripes that nobody touches take no part, so a sparse file costs no rounds. A round
//! covers as much of each domain as the aggregator's buffer holds.

use crate::error::Error;
use crate::view::Extent;

/// Stretches of a file by which a rank describes its bytes. Finer would tell the plan more, and every rank hears it of all:
/// 4,096 ranks exchange 2 MiB.
const SPANS_MAX: usize = 32;

/// What a plan needs to know of one rank's bytes.
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

/// What a plan is made of beside the shares.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Ranks that may aggregate, in the order in which they are taken; at least one.
    pub candidates: Vec<usize>,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Bytes of an aggregator's buffer.
    pub buffer_bytes: u64,
}

/// Who writes or reads what, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The rank that has each file domain.
    pub aggregators: Vec<usize>,
    /// How often every aggregator fills its buffer at most.
    pub rounds: usize,
    /// What is dealt out, with the bytes of what is before each stretch.
    spans: Vec<(Extent, u64)>,
    domain_bytes: u64,
    round_bytes: u64,
}

/// A part of an extent that lies in one file domain and one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the file domain.
    pub domain: usize,
    /// The round.
    pub round: usize,
    /// Which bytes.
    pub extent: Extent,
}

impl Plan {
    /// The plan for these shares; `None` if nobody has bytes.
    #[must_use]
    pub fn new(shares: &[Share], terms: &Terms) -> Option<Self> {
        let mut all: Vec<Extent> = shares.iter().flat_map(|share| &share.spans).copied().collect();
        all.sort_unstable();
        let mut total_bytes = 0;
        let spans: Vec<(Extent, u64)> = whole_stripes(&all, terms.stripe_bytes)
            .into_iter()
            .map(|span| {
                let before = total_bytes;
                total_bytes += span.len;
                (span, before)
            })
            .collect();
        let stripes = total_bytes.div_ceil(terms.stripe_bytes);
        if stripes == 0 {
            return None;
        }
        let domain_bytes = stripes.div_ceil(terms.candidates.len().max(1) as u64) * terms.stripe_bytes;
        let domains = total_bytes.div_ceil(domain_bytes) as usize;
        let round_bytes = (terms.buffer_bytes / terms.stripe_bytes).max(1) * terms.stripe_bytes;
        let rounds = domain_bytes.div_ceil(round_bytes) as usize;
        let aggregators = terms.candidates.iter().copied().take(domains).collect();
        Some(Self { aggregators, rounds, spans, domain_bytes, round_bytes })
    }

    /// The domain of a rank.
    #[must_use]
    pub fn domain_of(&self, rank: usize) -> Option<usize> {
        self.aggregators.iter().position(|aggregator| *aggregator == rank)
    }

    /// The parts of an extent by domain and round; in order.
    ///
    /// # Errors
    /// [`Error::Message`] if no share said that it would have these bytes.
    pub fn cut(&self, extent: Extent, mut part: impl FnMut(Part)) -> Result<(), Error> {
        let mut left = extent;
        let mut index = self.spans.partition_point(|(span, _)| span.end() <= left.offset);
        while left.len > 0 {
            let (span, before) = *self.spans.get(index).ok_or(Error::Message)?;
            let within = left.offset.checked_sub(span.offset).ok_or(Error::Message)?;
            let in_domain = (before + within) % self.domain_bytes;
            let until_round = self.round_bytes - in_domain % self.round_bytes;
            let len = left.len.min(span.len - within).min(until_round).min(self.domain_bytes - in_domain);
            let domain = ((before + within) / self.domain_bytes) as usize;
            let round = (in_domain / self.round_bytes) as usize;
            part(Part { domain, round, extent: Extent { offset: left.offset, len } });
            left = Extent { offset: left.offset + len, len: left.len - len };
            if within + len == span.len {
                index += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents(pairs: &[(u64, u64)]) -> Vec<Extent> {
        pairs.iter().map(|&(offset, len)| Extent { offset, len }).collect()
    }

    fn terms(aggregators: usize, stripe_bytes: u64, buffer_bytes: u64) -> Terms {
        Terms { candidates: (0..aggregators).collect(), stripe_bytes, buffer_bytes }
    }

    #[test]
    fn domains_are_equal_parts_on_stripe_boundaries() {
        let share = Share::of(&extents(&[(5, 70)]), 10);
        let plan = Plan::new(&[share], &terms(3, 10, 20)).unwrap();
        assert_eq!((plan.aggregators.as_slice(), plan.rounds), (&[0, 1, 2][..], 2));
        let mut parts = vec![];
        plan.cut(Extent { offset: 5, len: 70 }, |part| {
            parts.push((part.domain, part.round, part.extent.offset, part.extent.len));
        })
        .unwrap();
        assert_eq!(parts, [(0, 0, 5, 15), (0, 1, 20, 10), (1, 0, 30, 20), (1, 1, 50, 10), (2, 0, 60, 15)]);
    }

    #[test]
    fn what_nobody_touches_costs_no_rounds() {
        let share = Share::of(&extents(&[(3, 4), (1 << 40, 4)]), 10);
        let plan = Plan::new(&[share], &terms(2, 10, 10)).unwrap();
        assert_eq!((plan.aggregators.len(), plan.rounds), (2, 1));
    }

    #[test]
    fn nothing_to_write_is_no_plan() {
        assert_eq!(Plan::new(&[Share::default(), Share::default()], &terms(2, 10, 10)), None);
    }

    #[test]
    fn bytes_that_nobody_announced_are_refused() {
        let plan = Plan::new(&[Share::of(&extents(&[(0, 10)]), 10)], &terms(1, 10, 10)).unwrap();
        assert!(plan.cut(Extent { offset: 5, len: 10 }, |_| {}).is_err());
        assert!(Share::decode(&[0xff; Share::MESSAGE_BYTES]).is_err());
    }

    proptest! {
        /// A share covers its extents, in few spans, and survives being sent.
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
            for extent in &extents {
                prop_assert!(share.spans.iter().any(|span| span.offset <= extent.offset && extent.end() <= span.end()));
            }
            prop_assert_eq!(Share::decode(&share.encode()).unwrap(), vec![share.clone()]);
            // Every byte is cut into one part, in order of domain and round, and no part leaves its round's bytes.
            let plan = Plan::new(&[share], &terms(3, 16, 64)).unwrap();
            let mut last = (0, 0);
            for extent in extents {
                let mut next = extent.offset;
                plan.cut(extent, |part| {
                    assert_eq!(part.extent.offset, next);
                    assert!(last <= (part.domain, part.round) && part.round < plan.rounds);
                    last = (part.domain, part.round);
                    next = part.extent.end();
                }).unwrap();
                prop_assert_eq!(next, extent.end());
            }
        }
    }
}
