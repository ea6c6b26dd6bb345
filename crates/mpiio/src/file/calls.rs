//! Collective calls: what becomes of each, which all ranks decide alike, on values that all have exchanged (`agree`).

use super::agreement::Agreed;
use super::{Answer, File, Passing};
use crate::choice::{FileSystem, Way};
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

/// Bytes that a rank holds at most, whatever its buffer, unless hints say that it may hold them until a sync.
const HELD_MAX_BYTES: u64 = 64 << 20;

/// Pieces that a rank holds at most, unless it is to hold them in any case: as many requests would write them if another MPI
/// call came.
const PIECES_MAX: u64 = 1024;

/// Until when this library has the bytes of a collective write.
enum Holding {
    /// Until a later call, in these stretches of the file; the bytes of earlier calls are written first, or not.
    Beyond { writes_first: bool, hulls: Option<Hulls> },
    /// Until the call ends: aggregators write them.
    Within,
    /// Until the call ends: every rank writes its own.
    Alone,
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
        let mut agreed = self.agree(call.as_ref(), true)?;
        let hinted = self.take_hints(&mut agreed)?;
        if let Some(passing) = self.passing(self.hints.write, true) {
            return self.pass_after(hinted, passing);
        }
        if agreed.is_refused {
            let flushed = hinted.and(self.flush_if(agreed.held_cost > 0));
            return self.pass_after(flushed, Passing::Unsupported);
        }
        self.learn(&agreed);
        let (Some(buffer), Some((extents, _))) = (buffer, call) else { return Err(Error::Message) };
        let holding = self.holding(&mut agreed, &extents)?;
        let writes_first = !matches!(holding, Holding::Beyond { writes_first: false, .. });
        let flushed = hinted.and(self.flush_if(writes_first && agreed.held_cost > 0));
        let (ends_held, hulls) = match holding {
            Holding::None => return self.pass_after(flushed, self.reason_to_pass(&agreed)),
            Holding::Alone => {
                let written = self.write_alone(from, buffer);
                return flushed.and(written).map(|()| Answer::Done(buffer.len_bytes()));
            }
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
        if ends_held {
            return flushed.map(|()| Answer::Done(buffer.len_bytes()));
        }
        self.told_shares = agreed.shares;
        self.must_exchange = true;
        let written = self.flush_if(true);
        (self.told_shares, self.must_exchange) = (None, false);
        flushed.and(written).map(|()| Answer::Done(buffer.len_bytes()))
    }

    /// Why a call is MPI's that could be held.
    fn reason_to_pass(&self, agreed: &Agreed) -> Passing {
        let is_large = self.hints.write == Choice::Automatic && !agreed.is_small && agreed.held_cost == 0;
        if is_large { Passing::Large } else { Passing::NotHeld }
    }

    /// Hints that rank 0 was given since the last call hold from this one on; the result is that of writing what was held.
    fn take_hints(&mut self, agreed: &mut Agreed) -> Result<Result<(), Error>, Error> {
        if !agreed.has_hints {
            return Ok(Ok(()));
        }
        let flushed = self.flush_if(agreed.held_cost > 0);
        // The shares are those of other stripes.
        (agreed.held_cost, agreed.shares) = (0, None);
        self.adopt_hints()?;
        Ok(flushed)
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
    fn holding(&mut self, agreed: &mut Agreed, extents: &[Extent]) -> Result<Holding, Error> {
        let is_full = agreed.held_cost.saturating_add(agreed.call_cost) > self.limit_bytes();
        if self.hints.hold == Hold::Yes {
            if self.hints.write == Choice::Automatic && !agreed.is_small && agreed.held_cost == 0 {
                return Ok(if self.file_system == FileSystem::Nfs { Holding::None } else { Holding::Alone });
            }
            self.report.holds();
            return Ok(Holding::Beyond { writes_first: is_full, hulls: None });
        }
        let has_many = |pieces: u64| !self.hints.always && pieces > PIECES_MAX;
        let can_hold = self.hints.hold == Hold::Automatic
            && agreed.can_hold
            && self.following.holds(self.hints.always)
            && !has_many(agreed.call_pieces)
            && agreed.call_cost <= self.limit_bytes();
        let are_many = has_many(agreed.held_pieces.saturating_add(agreed.call_pieces));
        let way = self.way(agreed, can_hold);
        self.expects_exchange = way == Some(Way::Aggregated);
        match way {
            None => return Ok(Holding::None),
            Some(Way::Alone) => return Ok(Holding::Alone),
            Some(Way::Aggregated) => return Ok(Holding::Within),
            Some(Way::Held) => {}
        }
        self.report.holds();
        // The first rank has marked the file before any rank holds anything: once, all wait for it.
        let told = agreed.hulls.take().filter(|_| std::mem::replace(&mut self.has_held, true));
        let hulls = told.map_or_else(|| Hulls::of_call(&self.group, extents), Ok)?;
        let meets = hulls.meet(&self.hulls);
        if meets {
            self.following.was_wrong();
        }
        let writes_first = is_full || are_many || meets || agreed.is_old || !agreed.follows;
        Ok(Holding::Beyond { writes_first, hulls: Some(hulls) })
    }

    /// The way of a write; `None` if it is MPI's. All ranks find the same.
    fn way(&self, agreed: &Agreed, can_hold: bool) -> Option<Way> {
        if self.hints.always {
            return Some(if can_hold { Way::Held } else { Way::Aggregated });
        }
        if self.file_system == FileSystem::Nfs {
            let is_large = self.hints.write == Choice::Automatic && !agreed.is_small;
            return (can_hold && !is_large).then_some(Way::Held);
        }
        let calls = if can_hold { self.limit_bytes() / agreed.call_cost.max(1) } else { 0 };
        match self.rates.best(&agreed.work(self), calls) {
            // ROMIO's hint wants aggregators.
            Way::Alone if self.hints.write == Choice::Enable => Some(Way::Aggregated),
            way => Some(way),
        }
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
        let mut agreed = self.agree(call.as_ref(), false)?;
        self.take_hints(&mut agreed)??;
        self.flush_if(agreed.held_cost > 0)?;
        if let Some(passing) = passing.or_else(|| self.passing(self.hints.read, true)) {
            return self.pass(passing);
        }
        if agreed.is_refused {
            return self.pass(Passing::Unsupported);
        }
        let Some(buffer) = buffer else { return Err(Error::Message) };
        if self.hints.read == Choice::Automatic {
            let weighs = self.file_system != FileSystem::Nfs && self.hints.hold != Hold::Yes;
            if self.file_system == FileSystem::Nfs && !agreed.is_small {
                return self.pass(Passing::Large);
            }
            let is_best = || self.rates.best(&agreed.work(self), 0) == Way::Alone;
            if !agreed.is_small || (weighs && is_best()) {
                return self.read_alone(from, buffer).map(Answer::Done);
            }
        }
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
