//! The facts of a collective call that all ranks know: each tells its own in one exchange, whatever becomes of the call.
//!
//! Few ranks tell each other everything at once: where their bytes are, for bytes to be held, and their shares where an
//! exchange is expected. Of many ranks that would be megabytes a call, so these agree on the largest values first.

use std::time::{Duration, Instant};

use super::File;
use crate::choice::Work;
use crate::error::Error;
use crate::group::Group;
use crate::hulls::Hulls;
use crate::message::{EXTENT_BYTES, NUMBER_BYTES};
use crate::share::Share;
use crate::view::Extent;

/// Ranks that tell each other everything at once: 640 bytes each.
const RANKS_GATHERED_MAX: usize = 512;

/// Bytes that are held so long are written by the next collective write, together: half of the second after which each rank
/// would write its own (`shim/files.c`).
const HELD_MAX: Duration = Duration::from_millis(500);

/// Numbers that a rank tells.
const VALUES: usize = 14;

/// The facts of a call that all ranks know.
pub(super) struct Agreed {
    pub call_cost: u64,
    pub held_cost: u64,
    pub call_pieces: u64,
    pub held_pieces: u64,
    pub is_refused: bool,
    pub is_small: bool,
    pub can_hold: bool,
    pub follows: bool,
    pub doublings: u32,
    pub is_old: bool,
    pub end: u64,
    pub has_hints: bool,
    /// Bytes of all ranks, or as many as they have at most.
    pub bytes_total: u64,
    /// Where the bytes of each rank are, if that was told.
    pub hulls: Option<Hulls>,
    /// The shares of all ranks, if they were told.
    pub shares: Option<Vec<Share>>,
}

impl Agreed {
    /// The work of the call.
    pub(super) fn work<G: Group>(&self, file: &File<G>) -> Work {
        file.terms.work(self.call_cost, self.bytes_total, self.call_pieces)
    }
}

impl<G: Group> File<G> {
    /// Tells the others what this rank knows of a call. Collective.
    pub(super) fn agree(&mut self, call: Option<&(Vec<Extent>, u64)>, writes: bool) -> Result<Agreed, Error> {
        let (extents, cost) = call.map_or((&[][..], 0), |(extents, cost)| (extents.as_slice(), *cost));
        let own = self.own_values(extents, cost, call.is_some(), writes);
        let is_few = self.group.size() <= RANKS_GATHERED_MAX;
        let tells_share = is_few && std::mem::take(&mut self.expects_exchange);
        let began = Instant::now();
        let (values, bytes_total, hulls, shares) = if is_few {
            self.gather_facts(&own, extents, tells_share)?
        } else {
            let mut values = own;
            self.group.all_max(&mut values)?;
            (values, (values[0] as u64).saturating_mul(self.group.size() as u64), None, None)
        };
        self.sync_ns = began.elapsed().as_nanos().min(i64::MAX as u128) as i64;
        let agreed = Agreed {
            call_cost: values[0] as u64,
            held_cost: values[1] as u64,
            call_pieces: values[2] as u64,
            held_pieces: values[3] as u64,
            is_refused: values[4] > 0,
            is_small: values[5] > 0,
            can_hold: values[6] == 0,
            follows: values[7] == 0,
            doublings: values[8] as u32,
            is_old: values[9] > 0,
            end: values[10] as u64,
            has_hints: values[11] > 0,
            bytes_total,
            hulls,
            shares,
        };
        let least = |value: i64| if value == i64::MIN { 0 } else { value.unsigned_abs() };
        self.rates.measured(least(values[12]), least(values[13]));
        if agreed.held_cost == 0 {
            self.beside.forget_end();
        } else {
            self.beside.raise_end(agreed.end);
        }
        Ok(agreed)
    }

    fn own_values(&mut self, extents: &[Extent], cost: u64, is_known: bool, writes: bool) -> [i64; VALUES] {
        let bytes: u64 = extents.iter().map(|extent| extent.len).sum();
        let is_small = bytes < self.terms.large_bytes() * extents.len() as u64;
        let end = extents.last().filter(|_| writes).map_or(0, Extent::end).max(self.beside.end());
        // An error of this rank's own is told with what all hold.
        let held = self.beside.cost_bytes().max(u64::from(self.own_fault.is_some()));
        let age = self.held_since.map_or(Duration::ZERO, |since| since.elapsed());
        let signed = |value: u64| value.min(i64::MAX as u64) as i64;
        // The least counts of what took time: the last rank that came waited for nobody.
        let least = |ns: i64| if ns > 0 { -ns } else { i64::MIN };
        [
            signed(cost),
            signed(held),
            signed(extents.len() as u64),
            signed(self.beside.piece_count()),
            i64::from(!is_known),
            i64::from(is_small),
            i64::from(!self.beside.is_shared()),
            i64::from(self.is_interrupted),
            i64::from(self.following.doublings()),
            i64::from(age >= HELD_MAX),
            signed(end),
            i64::from(self.group.rank() == 0 && !self.new_hints.is_empty()),
            least(self.storage.take_request_ns()),
            least(std::mem::take(&mut self.sync_ns)),
        ]
    }

    #[allow(clippy::type_complexity, reason = "the parts of one struct, which the caller fills")]
    fn gather_facts(
        &self,
        own: &[i64; VALUES],
        extents: &[Extent],
        tells_share: bool,
    ) -> Result<([i64; VALUES], u64, Option<Hulls>, Option<Vec<Share>>), Error> {
        let mut message: Vec<u8> = own.iter().flat_map(|value| value.to_le_bytes()).collect();
        message.extend(Hulls::own(extents));
        if tells_share {
            message.extend(Share::of(extents, self.hints.stripe_bytes).encode());
        }
        let told = self.group.all_gather(&message)?;
        let (mut values, mut total, mut hulls, mut shares) = ([i64::MIN; VALUES], 0u64, vec![], vec![]);
        for told in told.chunks(message.len()) {
            let (numbers, rest) = told.split_at(VALUES * NUMBER_BYTES);
            let numbers = numbers.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
            for (value, number) in values.iter_mut().zip(numbers.clone()) {
                *value = (*value).max(number);
            }
            total = total.saturating_add(numbers.clone().next().unwrap_or(0) as u64);
            let (hull, share) = rest.split_at(EXTENT_BYTES);
            hulls.extend_from_slice(hull);
            shares.extend_from_slice(share);
        }
        let shares = tells_share.then(|| Share::decode(&shares)).transpose()?;
        Ok((values, total, Some(Hulls::of_all(&hulls)?), shares))
    }
}
