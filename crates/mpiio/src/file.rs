//! A file that ranks have open together: which collective calls are held, when they are written, and what passes through.
//!
//! Writes are held until the ranks flush: at sync, at close, when a rank's buffer would overflow, and before anything that must
//! see them. Every decision that all ranks must take alike is taken on values that all have exchanged (`agree`), so no rank
//! waits for a message that nobody sends. What a rank does alone (independent calls) first writes what that rank holds, which
//! is all that MPI's consistency between ranks asks for without a sync (MPI 4.0, 14.6.1).

use std::path::Path;

use crate::error::Error;
use crate::exchange;
use crate::gather::{self, Received};
use crate::group::Group;
use crate::held_calls::HeldCalls;
use crate::hints::{Choice, Hints};
use crate::memory::Buffer;
use crate::opening::{self, Opening};
use crate::outcome::{self, Fault};
use crate::plan::{Plan, Terms};
use crate::report::Report;
use crate::share::Share;
use crate::storage::Storage;
use crate::view::{Extent, View};

mod declared;

/// Extents of so many stripes on average gain nothing by being gathered: at most one request in as many is not whole.
const LARGE_STRIPES: u64 = 4;

/// Why a collective call is left to MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// Hints say so.
    Disabled,
    /// The file is in atomic mode: other ranks must see the bytes when the call returns.
    Atomic,
    /// A rank's datatype or view cannot be taken apart.
    Unsupported,
    /// All ranks read or write large extents already.
    Large,
}

impl Passing {
    /// In the words of the record.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Disabled => "disabled by hints",
            Self::Atomic => "atomic mode",
            Self::Unsupported => "a datatype or view that is not taken apart",
            Self::Large => "extents are large already",
        }
    }
}

/// What becomes of a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done, with so many bytes.
    Done(u64),
    /// MPI is to do it, on every rank; what was held is written.
    Pass(Passing),
}

/// What all ranks know of a call.
struct Agreed {
    call_cost: u64,
    held_cost: u64,
    is_refused: bool,
    is_small: bool,
}

/// One rank's side of a file.
#[derive(Debug)]
pub struct File<G> {
    group: G,
    /// What the program said of hints, at rank 0.
    said: Vec<(String, String)>,
    hints: Hints,
    terms: Terms,
    view: Option<View>,
    held: HeldCalls,
    /// What this rank may write until the next flush, in order, and the plan for it, where the program declared that.
    declared: Option<(Vec<Extent>, Option<Plan>)>,
    storage: Storage,
    /// The end of what all ranks have written by collective calls, as far as it may not be in the file yet.
    end: u64,
    is_atomic: bool,
    /// What went wrong when this rank wrote alone; all hear of it when they meet next.
    own_fault: Option<Fault>,
    report: Report,
}

impl<G: Group> File<G> {
    /// Opens a file that MPI has opened; `None` if it is left to MPI. Collective.
    ///
    /// # Errors
    /// [`Error::Communication`], [`Error::Message`].
    pub fn open(group: G, opening: &Opening<'_>) -> Result<Option<Self>, Error> {
        let Some(agreement) = opening::agree(&group, opening)? else { return Ok(None) };
        let (hosts, network) = opening::hosts(&group, opening, &agreement)?;
        let path = agreement.path();
        let storage = Storage::new(path.clone(), agreement.inode, opening.access, agreement.hints.stripe_bytes);
        let records = opening.records.map(Path::to_owned);
        let report = Report::new(path, group.rank(), hosts, network.source, &agreement.hints, records);
        let terms = Terms::of(&agreement.hints, report.hosts(), network);
        let (held, view) = (HeldCalls::default(), Some(View::whole()));
        let (hints, is_atomic, own_fault) = (agreement.hints, false, None);
        Ok(Some(Self {
            group,
            said: opening.hints.to_vec(),
            hints,
            terms,
            view,
            held,
            declared: None,
            storage,
            end: 0,
            is_atomic,
            own_fault,
            report,
        }))
    }

    /// The ranks.
    pub const fn group(&self) -> &G {
        &self.group
    }

    /// The view that holds from now on; `None` for one that cannot be taken apart.
    pub fn set_view(&mut self, view: Option<View>) {
        self.view = view;
    }

    /// Bytes of the view's unit, 1 where it is not known.
    #[must_use]
    pub fn etype_bytes(&self) -> u64 {
        self.view.as_ref().map_or(1, View::etype_bytes)
    }

    /// What is known of the end of the file beyond what is in it.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Hints that the program gives for the open file; those of rank 0 count. Where it gives any, what is held is flushed.
    /// Collective.
    ///
    /// # Errors
    /// As [`File::flush`].
    pub fn set_hints(&mut self, said: Vec<(String, String)>) -> Result<(), Error> {
        let mut changes = [i64::from(self.group.rank() == 0 && !said.is_empty())];
        self.group.all_max(&mut changes)?;
        if changes == [0] {
            return Ok(());
        }
        let flushed = self.flush();
        self.said.extend(said);
        self.hints = opening::agree_on_hints(&self.group, &self.said)?;
        self.terms = Terms::of(&self.hints, self.report.hosts(), self.terms.network.clone());
        self.storage.set_stripe_bytes(self.hints.stripe_bytes);
        self.report.set_hints(&self.hints);
        flushed
    }

    /// The hints that hold, by name.
    #[must_use]
    pub fn hints(&self) -> Vec<(&'static str, String)> {
        self.report.hints(&self.hints)
    }

    /// A collective write of the buffer, from the given byte of the view on. `None`: this rank cannot take the call apart.
    ///
    /// # Errors
    /// Of held bytes that could not be written, those of this call perhaps among them; the same on every rank.
    pub fn write_collective(&mut self, from: u64, buffer: Option<&Buffer>) -> Result<Answer, Error> {
        if let Some(passing) = self.passing(self.hints.write, self.storage.access().writes) {
            return self.pass(passing);
        }
        let limit = self.hints.buffer_bytes;
        let call = self.call(from, buffer);
        let agreed = self.agree(call.as_ref())?;
        if agreed.is_refused {
            self.flush_if(agreed.held_cost > 0)?;
            return self.pass(Passing::Unsupported);
        }
        if self.hints.write == Choice::Automatic && !agreed.is_small && agreed.held_cost == 0 {
            return self.pass(Passing::Large);
        }
        let (Some(buffer), Some((extents, _))) = (buffer, call) else { return Err(Error::Message) };
        self.report.held_call();
        if agreed.call_cost > limit {
            self.flush_if(agreed.held_cost > 0)?;
            self.write_in_slices(from, buffer, agreed.call_cost.div_ceil(limit))?;
            return Ok(Answer::Done(buffer.len_bytes()));
        }
        self.flush_if(agreed.held_cost + agreed.call_cost > limit)?;
        self.held.hold(&extents, |bytes| buffer.pack(0, buffer.len_bytes(), bytes));
        Ok(Answer::Done(buffer.len_bytes()))
    }

    /// Holds a write that must not wait for other ranks (a non-blocking collective one). False if MPI is to do it as an
    /// independent call of this rank.
    ///
    /// # Errors
    /// Of bytes that this rank held before.
    pub fn write_without_waiting(&mut self, from: u64, buffer: Option<&Buffer>) -> Result<bool, Error> {
        let call = self.call(from, buffer);
        let (Some(buffer), Some((extents, cost))) = (buffer, call) else {
            self.write_own()?;
            return Ok(false);
        };
        if cost.saturating_add(self.held.cost_bytes()) > self.hints.buffer_bytes {
            self.write_own()?;
        }
        if cost > self.hints.buffer_bytes {
            return Ok(false);
        }
        self.held.hold(&extents, |bytes| buffer.pack(0, buffer.len_bytes(), bytes));
        Ok(true)
    }

    /// What was done so far, as the record of the run has it.
    #[must_use]
    pub fn explain(&self) -> String {
        self.report.text()
    }

    /// Whether collective writes are held at all; the same on every rank.
    #[must_use]
    pub fn holds_writes(&self) -> bool {
        self.passing(self.hints.write, self.storage.access().writes).is_none()
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
        let agreed = self.agree(call.as_ref())?;
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
        self.read_in_slices(from, buffer, agreed.call_cost.div_ceil(self.hints.buffer_bytes).max(1)).map(Answer::Done)
    }

    /// Writes what any rank holds. Collective.
    ///
    /// # Errors
    /// The first that any rank met; the same on every rank.
    pub fn flush(&mut self) -> Result<(), Error> {
        let mut values = [self.held.cost_bytes().min(i64::MAX as u64) as i64, i64::from(self.own_fault.is_some())];
        self.group.all_max(&mut values)?;
        self.flush_if(values != [0, 0])
    }

    /// Writes what this rank holds, without any other rank.
    ///
    /// # Errors
    /// That of writing; the others hear of it at the next flush.
    pub fn write_own(&mut self) -> Result<(), Error> {
        let Some(fault) = exchange::write_own(&self.held, &mut self.storage) else {
            self.held.clear();
            return Ok(());
        };
        self.held.clear();
        self.own_fault.get_or_insert(fault);
        Err(Error::Rank { rank: self.group.rank(), errno: fault.errno })
    }

    /// Brings everything to stable storage, as far as this library wrote it. Collective.
    ///
    /// # Errors
    /// As [`File::flush`].
    pub fn sync(&mut self) -> Result<(), Error> {
        let flushed = self.flush();
        let errno = self.storage.sync().err().map(|error| error.errno());
        let missing = Extent { offset: 0, len: self.end.max(1) };
        let faults = outcome::agree(&self.group, errno.map(|errno| Fault { errno, round: 0, missing }))?;
        flushed.and_then(|()| self.conclude(&faults))
    }

    /// What `MPI_File_set_atomicity` says: in atomic mode nothing is held. Collective.
    ///
    /// # Errors
    /// As [`File::flush`].
    pub fn set_atomic(&mut self, is_atomic: bool) -> Result<(), Error> {
        self.is_atomic = is_atomic;
        self.flush()
    }

    /// After the size of the file was set: what was known of its end is no more.
    pub fn forget_end(&mut self) {
        self.end = 0;
    }

    /// Writes what is held and the record of the run. Collective.
    ///
    /// # Errors
    /// As [`File::flush`].
    pub fn close(mut self) -> Result<(), Error> {
        let flushed = self.flush();
        self.report.close(&self.group, self.storage.requests())?;
        flushed
    }

    /// Why no call of this kind is held, as far as it needs no agreement.
    const fn passing(&self, choice: Choice, is_open_for: bool) -> Option<Passing> {
        match choice {
            Choice::Disable => Some(Passing::Disabled),
            _ if self.is_atomic => Some(Passing::Atomic),
            _ if !is_open_for => Some(Passing::Disabled),
            _ => None,
        }
    }

    fn pass(&mut self, passing: Passing) -> Result<Answer, Error> {
        self.report.passed(passing.words());
        Ok(Answer::Pass(passing))
    }

    /// The extents of a call, and what holding it costs. Extents of a call that is too large to be held are not listed.
    fn call(&self, from: u64, buffer: Option<&Buffer>) -> Option<(Vec<Extent>, u64)> {
        let (view, len) = (self.view.as_ref()?, buffer?.len_bytes());
        let extents = view.extents(from, len.min(self.hints.buffer_bytes))?;
        let cost = HeldCalls::cost_bytes_of(&extents).max(len);
        Some((extents, cost))
    }

    fn agree(&mut self, call: Option<&(Vec<Extent>, u64)>) -> Result<Agreed, Error> {
        let (extents, cost) = call.map_or((&[][..], 0), |(extents, cost)| (extents.as_slice(), *cost));
        let bytes: u64 = extents.iter().map(|extent| extent.len).sum();
        let is_small = bytes < LARGE_STRIPES * self.hints.stripe_bytes * extents.len() as u64;
        let end = extents.last().map_or(0, Extent::end);
        let signed = |value: u64| value.min(i64::MAX as u64) as i64;
        let held = signed(self.held.cost_bytes());
        let mut values = [signed(cost), held, i64::from(call.is_none()), i64::from(is_small), signed(end)];
        self.group.all_max(&mut values)?;
        let [call_cost, held_cost, refused, small, end] = values;
        self.end = self.end.max(end as u64);
        let (call_cost, held_cost) = (call_cost as u64, held_cost as u64);
        Ok(Agreed { call_cost, held_cost, is_refused: refused > 0, is_small: small > 0 })
    }

    /// A call larger than a buffer: all ranks write equal parts of theirs at a time.
    fn write_in_slices(&mut self, from: u64, buffer: &Buffer, slices: u64) -> Result<(), Error> {
        let mut first_error = Ok(());
        for slice in 0..slices {
            let (start, len) = slice_of(buffer.len_bytes(), slice, slices);
            let extents = self.view.as_ref().and_then(|view| view.extents(from + start, len)).unwrap_or_default();
            self.held.hold(&extents, |bytes| buffer.pack(start, len, bytes));
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

    /// Reads by a plan. What goes wrong at any rank is an error at all.
    fn gather(&mut self, plan: &Plan, extents: &[Extent]) -> Result<Received, Error> {
        self.report.planned(plan);
        let received = gather::read(&self.group, plan, extents, &mut self.storage)?;
        let faults = outcome::agree(&self.group, received.fault)?;
        match faults.first() {
            Some(&(rank, Fault { errno, .. })) => Err(Error::Rank { rank, errno }),
            None => Ok(received),
        }
    }

    fn shares(&self, extents: &[Extent]) -> Result<Vec<Share>, Error> {
        Share::decode(&self.group.all_gather(&Share::of(extents, self.hints.stripe_bytes).encode())?)
    }

    /// Writes what all ranks hold, if any of them holds anything.
    fn flush_if(&mut self, anybody_holds: bool) -> Result<(), Error> {
        if !anybody_holds {
            return Ok(());
        }
        let plan = match self.declared.take() {
            // Large ones too: that they are gathered was asked for.
            Some((_, plan)) => plan.map(|plan| (plan, false)),
            None => {
                let extents: Vec<Extent> = self.held.in_file_order().iter().map(|piece| piece.extent).collect();
                let shares = self.shares(&extents)?;
                Plan::new(&shares, &self.terms)?.map(|plan| (plan, self.are_large(&shares)))
            }
        };
        let fault = match plan {
            None => None,
            Some((_, true)) if self.hints.write == Choice::Automatic => {
                self.report.own_writes();
                exchange::write_own(&self.held, &mut self.storage)
            }
            Some((plan, _)) => {
                self.report.planned(&plan);
                self.report.exchanged();
                exchange::write(&self.group, &plan, &self.held, &mut self.storage)?
            }
        };
        self.held.clear();
        let fault = self.own_fault.take().or(fault);
        let faults = outcome::agree(&self.group, fault)?;
        self.conclude(&faults)
    }

    fn are_large(&self, shares: &[Share]) -> bool {
        let sum = |of: fn(&Share) -> u64| shares.iter().map(of).fold(0, u64::saturating_add);
        let large = LARGE_STRIPES * self.hints.stripe_bytes;
        sum(|share| share.bytes) >= sum(|share| share.extent_count).saturating_mul(large)
    }

    fn conclude(&mut self, faults: &[(usize, Fault)]) -> Result<(), Error> {
        self.report.concluded(faults);
        faults.first().map_or(Ok(()), |&(rank, Fault { errno, .. })| Err(Error::Rank { rank, errno }))
    }
}

/// Where a slice of a call begins, and its bytes.
fn slice_of(len: u64, slice: u64, slices: u64) -> (u64, u64) {
    let at = |slice: u64| (u128::from(len) * u128::from(slice) / u128::from(slices)) as u64;
    (at(slice), at(slice + 1) - at(slice))
}
