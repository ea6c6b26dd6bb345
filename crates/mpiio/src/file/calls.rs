//! Collective calls: what becomes of each, which all ranks decide alike, on values that all have exchanged (`agree`).

use std::time::Duration;

use super::{Answer, File, LARGE_STRIPES, Passing};
use crate::error::Error;
use crate::gather::{self, Received};
use crate::group::Group;
use crate::held_calls::HeldCalls;
use crate::hints::{Choice, Hold};
use crate::hulls::Hulls;
use crate::memory::Buffer;
use crate::outcome::{self, Fault};
use crate::plan::Plan;
use crate::view::Extent;

/// Bytes that are held so long are written by the next collective write, together: half of the second after which each rank
/// would write its own (`shim/files.c`).
const HELD_MAX: Duration = Duration::from_millis(500);

/// Bytes that a rank holds at most, whatever its buffer, unless hints say that it may hold them until a sync.
const HELD_MAX_BYTES: u64 = 64 << 20;

/// Pieces that a rank holds at most, unless it is to hold them in any case: as many requests would write them if another MPI
/// call came.
const PIECES_MAX: u64 = 1024;

/// The facts of a call that all ranks know.
struct Agreed {
    call_cost: u64,
    held_cost: u64,
    call_pieces: u64,
    held_pieces: u64,
    is_refused: bool,
    is_small: bool,
    can_hold: bool,
    follows: bool,
    doublings: u32,
    is_old: bool,
    end: u64,
}

/// Until when this library has the bytes of a collective write.
enum Holding {
    /// Until a later call, in these stretches of the file; the bytes of earlier calls are written first, or not.
    Beyond { writes_first: bool, hulls: Option<Hulls> },
    /// Until the call ends.
    Within,
    /// It is MPI's.
    None,
}

impl<G: Group> File<G> {
    /// A collective write of the buffer, from the given byte of the view on. `None`: this rank cannot take the call apart.
    ///
    /// # Errors
    /// Of held bytes that could not be written, those of this call perhaps among them; the same on every rank.
    pub fn write_collective(&mut self, from: u64, buffer: Option<&Buffer>) -> Result<Answer, Error> {
        let answer = self.write_or_pass(from, buffer);
        self.is_interrupted = false;
        self.passed.clear();
        if self.is_marked && matches!(answer, Ok(Answer::Pass(_) | Answer::PassFailed(..))) {
            let extents = buffer.and_then(|buffer| self.view.as_ref()?.extents(from, buffer.len_bytes()));
            self.passed = extents.unwrap_or_default();
        }
        answer
    }

    fn write_or_pass(&mut self, from: u64, buffer: Option<&Buffer>) -> Result<Answer, Error> {
        if let Some(passing) = self.passing(self.hints.write, self.storage.access().writes) {
            return self.pass(passing);
        }
        let call = self.call(from, buffer);
        let agreed = self.agree(call.as_ref(), true)?;
        if agreed.is_refused {
            let flushed = self.flush_if(agreed.held_cost > 0);
            return self.pass_after(flushed, Passing::Unsupported);
        }
        self.learn(&agreed);
        if self.hints.write == Choice::Automatic && !agreed.is_small && agreed.held_cost == 0 {
            return self.pass(Passing::Large);
        }
        let (Some(buffer), Some((extents, _))) = (buffer, call) else { return Err(Error::Message) };
        let holding = self.holding(&agreed, &extents)?;
        let writes_first = !matches!(holding, Holding::Beyond { writes_first: false, .. });
        let flushed = self.flush_if(writes_first && agreed.held_cost > 0);
        let (ends_held, hulls) = match holding {
            Holding::None => return self.pass_after(flushed, Passing::NotHeld),
            Holding::Within => (false, None),
            Holding::Beyond { hulls, .. } => (true, hulls),
        };
        self.report.held_call();
        // Also after an error this call's bytes are held or written: that of earlier ones is no reason to lose them.
        let limit = self.limit_bytes();
        if agreed.call_cost > limit {
            if matches!(&flushed, Err(error) if !error.is_agreed()) {
                return flushed.map(|()| Answer::Done(0));
            }
            let written = self.write_in_slices(from, buffer, agreed.call_cost.div_ceil(limit));
            return flushed.and(written).map(|()| Answer::Done(buffer.len_bytes()));
        }
        hulls.iter().for_each(|hulls| self.hulls.add(hulls));
        self.beside.raise_end(agreed.end);
        self.hold(&extents, |bytes| buffer.pack(0, buffer.len_bytes(), bytes));
        let written = self.flush_if(!ends_held);
        flushed.and(written).map(|()| Answer::Done(buffer.len_bytes()))
    }

    /// The most that a rank holds, bytes.
    fn limit_bytes(&self) -> u64 {
        match self.hints.hold {
            Hold::Yes => self.hints.buffer_bytes,
            _ => self.hints.buffer_bytes.min(HELD_MAX_BYTES),
        }
    }

    /// Notes whether this call follows the one before at all ranks.
    fn learn(&mut self, agreed: &Agreed) {
        self.following.call(agreed.follows, agreed.doublings);
        if !agreed.follows && !self.hulls.is_empty() {
            // Each rank has written its own, or is about to: that is what holding them was to avoid.
            self.report.own_writes();
            self.following.was_wrong();
            self.hulls.clear();
        }
    }

    /// How long the bytes of a call are held; all ranks find the same. Collective.
    fn holding(&mut self, agreed: &Agreed, extents: &[Extent]) -> Result<Holding, Error> {
        let is_full = agreed.held_cost.saturating_add(agreed.call_cost) > self.limit_bytes();
        let within = if self.hints.always { Holding::Within } else { Holding::None };
        match self.hints.hold {
            Hold::Yes => {
                self.report.holds();
                return Ok(Holding::Beyond { writes_first: is_full, hulls: None });
            }
            Hold::No => return Ok(within),
            Hold::Automatic => {}
        }
        let has_many = |pieces: u64| !self.hints.always && pieces > PIECES_MAX;
        let is_held = agreed.can_hold && self.following.holds(self.hints.always) && !has_many(agreed.call_pieces);
        if !is_held || agreed.call_cost > self.limit_bytes() {
            return Ok(within);
        }
        // Before any rank holds anything, since all wait for the first rank here.
        self.report.holds();
        let hulls = Hulls::of_call(&self.group, extents)?;
        let meets = hulls.meet(&self.hulls);
        if meets {
            self.following.was_wrong();
        }
        let are_many = has_many(agreed.held_pieces.saturating_add(agreed.call_pieces));
        let writes_first = is_full || are_many || meets || agreed.is_old || !agreed.follows;
        Ok(Holding::Beyond { writes_first, hulls: Some(hulls) })
    }

    /// Holds a write that must not wait for other ranks (a non-blocking collective one). False if MPI is to do it as an
    /// independent call of this rank.
    ///
    /// # Errors
    /// Of bytes that this rank held before.
    pub fn write_without_waiting(&mut self, from: u64, buffer: Option<&Buffer>) -> Result<bool, Error> {
        let call = self.call(from, buffer);
        let (Some(buffer), Some((extents, cost))) = (buffer, call) else {
            // An error here is kept for the next flush: this call is MPI's, and has its own.
            let _ = self.write_own();
            return Ok(false);
        };
        let is_full = cost.saturating_add(self.beside.cost_bytes()) > self.hints.buffer_bytes;
        let written = if is_full { self.write_own() } else { Ok(()) };
        if cost > self.hints.buffer_bytes {
            return Ok(false);
        }
        self.report.holds_alone();
        self.beside.raise_end(extents.last().map_or(0, Extent::end));
        self.hold(&extents, |bytes| buffer.pack(0, buffer.len_bytes(), bytes));
        written.map(|()| true)
    }

    /// A collective read into the buffer.
    ///
    /// # Errors
    /// Of what was held, and of the read; the same on every rank.
    pub fn read_collective(&mut self, from: u64, buffer: Option<&Buffer>) -> Result<Answer, Error> {
        let passing = self.passing(self.hints.read, self.storage.access().reads);
        if let Some(passing) = passing.filter(|_| !self.holds_writes()) {
            return self.pass(passing);
        }
        let call = self.call(from, buffer);
        let agreed = self.agree(call.as_ref(), false)?;
        self.flush_if(agreed.held_cost > 0)?;
        if let Some(passing) = passing {
            return self.pass(passing);
        }
        if agreed.is_refused {
            return self.pass(Passing::Unsupported);
        }
        if self.hints.read == Choice::Automatic && !agreed.is_small {
            return self.pass(Passing::Large);
        }
        let Some(buffer) = buffer else { return Err(Error::Message) };
        self.report.read_call();
        let slices = agreed.call_cost.div_ceil(self.hints.buffer_bytes).max(1);
        match self.read_in_slices(from, buffer, slices) {
            Err(Error::Plan(why)) => {
                self.report.unplanned(&why);
                self.pass(Passing::Unplanned)
            }
            read => read.map(Answer::Done),
        }
    }

    fn pass(&mut self, passing: Passing) -> Result<Answer, Error> {
        self.report.passed(passing.words());
        Ok(Answer::Pass(passing))
    }

    fn pass_after(&mut self, flushed: Result<(), Error>, passing: Passing) -> Result<Answer, Error> {
        let passed = self.pass(passing)?;
        match flushed {
            Err(Error::Rank { errno, .. }) => Ok(Answer::PassFailed(passing, errno)),
            flushed => flushed.map(|()| passed),
        }
    }

    /// The extents of a call, and what holding it costs. Extents of a call that is too large to be held are not listed.
    fn call(&self, from: u64, buffer: Option<&Buffer>) -> Option<(Vec<Extent>, u64)> {
        let len = buffer?.len_bytes();
        if len == 0 {
            // A rank without bytes may have a view that shows none.
            return Some((vec![], 0));
        }
        let view = self.view.as_ref()?;
        let extents = view.extents(from, len.min(self.hints.buffer_bytes))?;
        let cost = HeldCalls::cost_bytes_of(&extents).max(len);
        Some((extents, cost))
    }

    fn agree(&mut self, call: Option<&(Vec<Extent>, u64)>, writes: bool) -> Result<Agreed, Error> {
        let (extents, cost) = call.map_or((&[][..], 0), |(extents, cost)| (extents.as_slice(), *cost));
        let bytes: u64 = extents.iter().map(|extent| extent.len).sum();
        let is_small = bytes < LARGE_STRIPES * self.hints.stripe_bytes * extents.len() as u64;
        let end = extents.last().filter(|_| writes).map_or(0, Extent::end).max(self.beside.end());
        // An error of this rank's own is told with what all hold.
        let held = self.beside.cost_bytes().max(u64::from(self.own_fault.is_some()));
        let age = self.held_since.map_or(Duration::ZERO, |since| since.elapsed());
        let signed = |value: u64| value.min(i64::MAX as u64) as i64;
        let mut values = [
            signed(cost),
            signed(held),
            signed(extents.len() as u64),
            signed(self.beside.piece_count()),
            i64::from(call.is_none()),
            i64::from(is_small),
            i64::from(!self.beside.is_shared()),
            i64::from(self.is_interrupted),
            i64::from(self.following.doublings()),
            i64::from(age >= HELD_MAX),
            signed(end),
        ];
        self.group.all_max(&mut values)?;
        let [
            call_cost,
            held_cost,
            call_pieces,
            held_pieces,
            refused,
            small,
            unshared,
            interrupted,
            doublings,
            old,
            end,
        ] = values;
        if held_cost == 0 {
            self.beside.forget_end();
        } else {
            self.beside.raise_end(end as u64);
        }
        Ok(Agreed {
            call_cost: call_cost as u64,
            held_cost: held_cost as u64,
            call_pieces: call_pieces as u64,
            held_pieces: held_pieces as u64,
            is_refused: refused > 0,
            is_small: small > 0,
            can_hold: unshared == 0,
            follows: interrupted == 0,
            doublings: doublings as u32,
            is_old: old > 0,
            end: end as u64,
        })
    }

    /// A call larger than a buffer: all ranks write equal parts of theirs at a time.
    fn write_in_slices(&mut self, from: u64, buffer: &Buffer, slices: u64) -> Result<(), Error> {
        let mut first_error = Ok(());
        for slice in 0..slices {
            let (start, len) = slice_of(buffer.len_bytes(), slice, slices);
            let extents = self.view.as_ref().and_then(|view| view.extents(from + start, len)).unwrap_or_default();
            self.hold(&extents, |bytes| buffer.pack(start, len, bytes));
            first_error = first_error.and(self.flush_if(true));
        }
        first_error
    }

    fn read_in_slices(&mut self, from: u64, buffer: &Buffer, slices: u64) -> Result<u64, Error> {
        let (mut total, mut first_error) = (0, Ok(()));
        for slice in 0..slices {
            let (start, len) = slice_of(buffer.len_bytes(), slice, slices);
            let extents = self.view.as_ref().and_then(|view| view.extents(from + start, len)).unwrap_or_default();
            let shares = self.shares(&extents)?;
            let Some(plan) = Plan::new(&shares, &self.terms)? else { continue };
            match self.gather(&plan, &extents) {
                Ok(received) => {
                    let inside = |extent: &Extent| extent.len.min(received.file_end.saturating_sub(extent.offset));
                    let valid: u64 = extents.iter().map(inside).sum();
                    buffer.unpack(start, &received.bytes[..valid as usize]);
                    total += valid;
                }
                // The other ranks go on, so this one does.
                Err(error @ Error::Rank { .. }) => first_error = first_error.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        first_error.map(|()| total)
    }

    /// Reads by a plan. An error at any rank is an error at all.
    pub(super) fn gather(&mut self, plan: &Plan, extents: &[Extent]) -> Result<Received, Error> {
        self.report.planned(plan);
        let received = gather::read(&self.group, plan, extents, &mut self.storage)?;
        let faults = outcome::agree(&self.group, received.fault)?;
        match faults.first() {
            Some(&(rank, Fault { errno, .. })) => Err(Error::Rank { rank, errno }),
            None => Ok(received),
        }
    }
}

/// Where a slice of a call begins, and its bytes.
fn slice_of(len: u64, slice: u64, slices: u64) -> (u64, u64) {
    let at = |slice: u64| (u128::from(len) * u128::from(slice) / u128::from(slices)) as u64;
    (at(slice), at(slice + 1) - at(slice))
}
