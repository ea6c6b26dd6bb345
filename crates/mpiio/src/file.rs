//! A file that ranks have open together: which collective calls are held, when they are written, and what passes through.
//!
//! Writes are held until the ranks flush: at sync, at close, when a rank's buffer would overflow, and before anything that must
//! see them. Every decision that all ranks must take alike is taken on values that all have exchanged (`agree`), so no rank
//! waits for a message that nobody sends. An independent call of a rank first writes what that rank holds.
//!
//! MPI's consistency between ranks asks for no more without a sync (MPI 4.0, 14.6.1), but programs do: a barrier, or any message,
//! is enough for them. So, unless hints say otherwise, the shim has a rank write what it holds before any other MPI call
//! (`write_own`), and bytes are held only where nothing suggests such a call (`following`) and no two ranks hold bytes for
//! the same place (`hulls`).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::beside::Beside;
use crate::choice::{FileSystem, Rates, Way};
use crate::error::Error;
use crate::exchange;
use crate::following::Following;
use crate::group::Group;
use crate::hints::{Choice, Hints, Hold};
use crate::hulls::Hulls;
use crate::opening::{self, Opening};
use crate::outcome::{self, Fault};
use crate::plan::{Plan, Terms, Writing};
use crate::report::Report;
use crate::share::Share;
use crate::storage::{Requests, Storage};
use crate::view::{Extent, View};

mod agreement;
mod alone;
mod calls;
mod declared;

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
    /// Bytes cannot be held beyond the call, and within it MPI is as good.
    NotHeld,
    /// The planner refuses what the ranks want to read.
    Unplanned,
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
            Self::NotHeld => "not to be held, since other MPI calls come between",
            Self::Unplanned => "no plan",
        }
    }
}

/// The outcome of a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done, with so many bytes.
    Done(u64),
    /// MPI is to do it, on every rank; what was held is written.
    Pass(Passing),
    /// MPI is to do it, but some of what was held could not be written: then the call has failed with this error.
    PassFailed(Passing, Errno),
}

/// One rank's side of a file.
#[derive(Debug)]
pub struct File<G> {
    group: G,
    /// Hints of the program, at rank 0, and those of which the other ranks have not heard.
    said: Vec<(String, String)>,
    new_hints: Vec<(String, String)>,
    hints: Hints,
    terms: Terms,
    view: Option<Arc<View>>,
    /// The held bytes, also for other threads.
    beside: Arc<Beside>,
    /// Since when.
    held_since: Option<Instant>,
    /// Where, if the program may make it visible by any MPI call.
    hulls: Hulls,
    /// Bytes of a stripe where no hint has them.
    stripe_bytes: u64,
    /// Whether bytes were held beyond a call; the same at all ranks.
    has_held: bool,
    file_system: FileSystem,
    /// The costs by which ways are chosen.
    rates: Rates,
    /// How long this rank was in the last exchange of facts, nanoseconds.
    sync_ns: i64,
    /// Whether the next call will probably be aggregated; the same at all ranks.
    expects_exchange: bool,
    /// Whether the bytes that are written now are those of aggregators, whatever each rank's own would cost.
    must_exchange: bool,
    /// The shares of what is held, where all ranks know them.
    told_shares: Option<Vec<Share>>,
    /// Whether collective writes follow each other.
    following: Following,
    /// Whether this rank has made another MPI call since the last one.
    is_interrupted: bool,
    /// The bytes that MPI writes of the call that was left to it last, if an earlier run has left the file incomplete.
    passed: Vec<Extent>,
    /// The extents that this rank may write until the next flush, in order, and how, where the program declared them.
    declared: Option<(Vec<Extent>, Writing)>,
    storage: Storage,
    /// Whether an earlier run has left the file incomplete.
    is_marked: bool,
    is_atomic: bool,
    /// The error of this rank's own writes; all ranks hear of it when they meet next.
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
        let (path, missing) = (agreement.path(), agreement.missing());
        let (is_marked, stripe_bytes) = (missing.is_some(), agreement.hints.stripe_bytes);
        let opened = Storage::open(
            path.clone(),
            opening.access,
            agreement.file_system,
            stripe_bytes,
            missing.unwrap_or_default(),
        );
        let (hosts, network, is_one_file) = opening::hosts(&group, opening, &agreement, &opened)?;
        let Some(storage) = opened.ok().filter(|_| is_one_file) else { return Ok(None) };
        let records = opening.records.map(Path::to_owned);
        let mut report = Report::new(path, group.rank(), hosts, network.source, &agreement.hints, records);
        report.deletes = opening.deletes;
        let terms = Terms::of(&agreement.hints, report.hosts(), network, agreement.processors);
        let for_threads = opening.has_threads.then(|| storage.for_another_thread());
        let (beside, view) = (Arc::new(Beside::new(for_threads)), Some(Arc::new(View::whole())));
        let (hints, is_atomic, own_fault) = (agreement.hints, false, None);
        let (file_system, rates) = (agreement.file_system, agreement.rates);
        Ok(Some(Self {
            group,
            said: opening.hints.to_vec(),
            new_hints: vec![],
            hints,
            terms,
            view,
            beside,
            held_since: None,
            hulls: Hulls::default(),
            stripe_bytes,
            has_held: false,
            file_system,
            rates,
            sync_ns: 0,
            expects_exchange: true,
            must_exchange: false,
            told_shares: None,
            following: Following::new(opening.doublings),
            is_interrupted: true,
            passed: vec![],
            declared: None,
            storage,
            is_marked,
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
        self.view = view.map(Arc::new);
        self.beside.set_view(self.view.clone());
    }

    /// Bytes of the view's unit, 1 where it is not known.
    #[must_use]
    pub fn etype_bytes(&self) -> u64 {
        self.view.as_ref().map_or(1, |view| view.etype_bytes())
    }

    /// The part that other threads can reach.
    #[must_use]
    pub fn beside(&self) -> Arc<Beside> {
        self.beside.clone()
    }

    /// Where the end of what all ranks hold is in this rank's view, units: after the last that begins before it.
    #[must_use]
    pub fn units_to_end(&self) -> u64 {
        self.view.as_ref().map_or(0, |view| view.bytes_before(self.beside.end()).div_ceil(view.etype_bytes()))
    }

    /// Hints that the program gives for the open file; those of rank 0 count, from the next collective call on. Collective where the
    /// library has nothing to do with such calls so far.
    ///
    /// # Errors
    /// [`Error::Communication`], [`Error::Message`].
    pub fn set_hints(&mut self, said: Vec<(String, String)>) -> Result<(), Error> {
        self.new_hints.extend(said.into_iter().filter(|hint| !self.said.contains(hint)));
        if !self.takes_hints_together() {
            return Ok(());
        }
        let mut changes = [i64::from(self.group.rank() == 0 && !self.new_hints.is_empty())];
        self.group.all_max(&mut changes)?;
        if changes == [0] { Ok(()) } else { self.flush().and(self.adopt_hints()) }
    }

    /// Whether [`File::set_hints`] is collective: calls that are disabled tell nobody anything.
    fn takes_hints_together(&self) -> bool {
        self.hints.write == Choice::Disable || self.hints.read == Choice::Disable
    }

    /// Tells all ranks the hints that rank 0 was given. Collective.
    fn adopt_hints(&mut self) -> Result<(), Error> {
        self.said.append(&mut self.new_hints);
        self.hints = opening::agree_on_hints(&self.group, &self.said)?;
        if !self.hints.is_stripe_given {
            self.hints.take_stripe(Some(self.stripe_bytes));
        }
        self.terms = Terms::of(&self.hints, self.report.hosts(), self.terms.network.clone(), self.terms.processors);
        self.storage.set_stripe_bytes(self.hints.stripe_bytes);
        self.report.set_hints(&self.hints);
        Ok(())
    }

    /// The hints that hold, by name; no value is longer than so many bytes.
    #[must_use]
    pub fn hints(&self, value_max_bytes: usize) -> Vec<(&'static str, String)> {
        self.report.hints(&self.hints, value_max_bytes)
    }

    /// The run so far, as its record describes it.
    #[must_use]
    pub fn explain(&self) -> String {
        self.report.text()
    }

    /// Whether collective writes are held at all; the same on every rank.
    #[must_use]
    pub fn holds_writes(&self) -> bool {
        self.passing(self.hints.write, self.storage.access().writes).is_none()
    }

    /// Whether collective writes that must not wait for other ranks are held; the same on every rank.
    #[must_use]
    pub fn holds_without_waiting(&self) -> bool {
        self.hints.hold == Hold::Yes && self.holds_writes()
    }

    /// For how long this rank holds bytes that it must write before any other MPI call; `None` if it holds none of that kind.
    #[must_use]
    pub fn must_write_own(&self) -> Option<Duration> {
        let must = self.hints.hold != Hold::Yes && self.declared.is_none();
        self.held_since.filter(|_| must).map(|since| since.elapsed())
    }

    /// This rank has made another MPI call since the last collective write.
    pub const fn interrupted(&mut self) {
        self.is_interrupted = true;
    }

    /// How often it turned out wrong to hold bytes, for the next file of this process.
    #[must_use]
    pub const fn doublings(&self) -> u32 {
        self.following.doublings()
    }

    /// MPI has made the collective write that was left to it.
    pub fn passed(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        passed.into_iter().for_each(|extent| self.storage.is_written(extent));
    }

    /// Sets the mode of `MPI_File_set_atomicity`: in atomic mode no bytes are held. Collective.
    ///
    /// # Errors
    /// As [`File::flush`].
    pub fn set_atomic(&mut self, is_atomic: bool) -> Result<(), Error> {
        self.is_atomic = is_atomic;
        self.flush()
    }

    /// The size of the file was set: what was known of its end is no more, and nothing is missing beyond it.
    pub fn sized(&mut self, size: u64) {
        self.beside.forget_end();
        self.storage.cut(size);
    }

    /// Writes what is held and the record of the run. Collective.
    ///
    /// # Errors
    /// As [`File::flush`].
    pub fn close(mut self) -> Result<(), Error> {
        let holds = !self.beside.held().is_empty() || self.own_fault.is_some();
        let mut totals = self.report.totals(&self.group, self.requests(), holds)?;
        let mut flushed = Ok(());
        if totals.holds {
            flushed = self.flush_if(true);
            totals = self.report.totals(&self.group, self.requests(), false)?;
        }
        let mut missing = None;
        if self.is_marked {
            let mut all = self.storage.missing().of_all(&self.group)?;
            if all.is_all() {
                // Which bytes is not known, so those that the file has count.
                all.cut(self.storage.len_bytes().unwrap_or(u64::MAX));
            }
            missing = Some(all);
        }
        self.report.close(&totals, missing);
        flushed
    }

    fn requests(&self) -> Requests {
        self.storage.requests().and(self.beside.requests())
    }

    /// The costs as they were measured, and of which kind of file system, for the next file of this process.
    #[must_use]
    pub const fn measured(&self) -> (FileSystem, Rates) {
        (self.file_system, self.rates)
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

    /// Writes what any rank holds. Collective.
    ///
    /// # Errors
    /// The first that any rank met; the same on every rank.
    pub fn flush(&mut self) -> Result<(), Error> {
        let mut values = [self.beside.cost_bytes().min(i64::MAX as u64) as i64, i64::from(self.own_fault.is_some())];
        self.group.all_max(&mut values)?;
        let flushed = self.flush_if(values != [0, 0]);
        // Declarations hold until here, also if nobody wrote.
        self.declared = None;
        flushed
    }

    /// Writes what this rank holds, without any other rank.
    ///
    /// # Errors
    /// That of writing; the others hear of it at the next flush.
    pub fn write_own(&mut self) -> Result<(), Error> {
        if self.held_since.take().is_none() {
            return Ok(());
        }
        let fault = exchange::write_own(&self.beside.held(), &mut self.storage);
        self.beside.forget();
        self.is_interrupted = true;
        let Some(fault) = fault else { return Ok(()) };
        self.own_fault = Some(self.own_fault.map_or(fault, |earlier| earlier.and(fault)));
        Err(Error::Rank { rank: self.group.rank(), errno: fault.errno })
    }

    /// Writes what this rank holds when the program ends without closing the file. No caller is there to hear of an error: the file
    /// is marked.
    pub fn leave(&mut self) {
        let _ = self.write_own();
        if let Some(fault) = self.own_fault.take() {
            self.report.left(self.group.rank(), fault);
        }
    }

    /// Brings everything to stable storage, as far as this library wrote it. Collective.
    ///
    /// # Errors
    /// As [`File::flush`].
    pub fn sync(&mut self) -> Result<(), Error> {
        let flushed = self.flush();
        let errno = self.storage.sync().err().map(|error| error.errno());
        let missing = Extent { offset: 0, len: self.storage.len_bytes().unwrap_or(i64::MAX as u64).max(1) };
        let faults = outcome::agree(&self.group, errno.map(|errno| Fault { errno, round: 0, missing }))?;
        self.storage.revalidate();
        flushed.and_then(|()| self.conclude(&faults))
    }

    fn shares(&self, extents: &[Extent]) -> Result<Vec<Share>, Error> {
        Share::decode(&self.group.all_gather(&Share::of(extents, self.hints.stripe_bytes).encode())?)
    }

    /// Writes what all ranks hold, if any of them holds anything.
    fn flush_if(&mut self, anybody_holds: bool) -> Result<(), Error> {
        if !anybody_holds {
            return Ok(());
        }
        let flushed = self.write_held();
        if let Err(error) = flushed.as_ref()
            && !error.is_agreed()
        {
            // The ranks are out of step: what is in the file, nobody knows.
            let missing = Extent { offset: 0, len: i64::MAX as u64 };
            self.report.left(self.group.rank(), Fault { errno: error.errno(), round: 0, missing });
        }
        flushed
    }

    fn write_held(&mut self) -> Result<(), Error> {
        self.held_since = None;
        self.hulls.clear();
        let held = self.beside.held();
        let writing = match self.declared.take() {
            Some((_, writing)) => writing,
            None => {
                let extents: Vec<Extent> = held.in_file_order().iter().map(|piece| piece.extent).collect();
                let shares = self.told_shares.take().map_or_else(|| self.shares(&extents), Ok)?;
                if self.are_best_alone(&shares) { Writing::Alone } else { self.plan(&shares)? }
            }
        };
        let fault = match writing {
            Writing::Nothing => None,
            Writing::Alone => {
                self.report.own_writes();
                exchange::write_own(&held, &mut self.storage)
            }
            Writing::Planned(plan) => {
                self.report.planned(&plan);
                self.report.exchanged();
                exchange::write(&self.group, &plan, &held, &mut self.storage)?
            }
        };
        drop(held);
        self.beside.forget();
        let fault = match (self.own_fault.take(), fault) {
            (Some(earlier), Some(fault)) => Some(earlier.and(fault)),
            (earlier, fault) => earlier.or(fault),
        };
        let faults = outcome::agree(&self.group, fault)?;
        self.conclude(&faults)
    }

    /// How these shares are written. Where no plan is possible, each rank writes its own bytes.
    fn plan(&mut self, shares: &[Share]) -> Result<Writing, Error> {
        match Plan::new(shares, &self.terms) {
            Ok(plan) => Ok(plan.map_or(Writing::Nothing, Writing::Planned)),
            Err(Error::Plan(why)) => {
                self.report.unplanned(&why);
                Ok(Writing::Alone)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether every rank had better write its own.
    fn are_best_alone(&self, shares: &[Share]) -> bool {
        let is_free = self.hints.write == Choice::Automatic && !self.must_exchange;
        let weighs = self.hints.hold == Hold::Automatic && !self.hints.always && self.file_system != FileSystem::Nfs;
        let is_best = || self.rates.best(&self.terms.work_of_shares(shares), 0) == Way::Alone;
        is_free && (self.terms.are_large(shares) || (weighs && is_best()))
    }

    /// Holds bytes, which `pack` appends, for these extents.
    fn hold(&mut self, extents: &[Extent], pack: impl FnOnce(&mut Vec<u8>)) {
        self.held_since.get_or_insert_with(Instant::now);
        self.beside.hold(extents, pack);
    }

    fn conclude(&mut self, faults: &[(usize, Fault)]) -> Result<(), Error> {
        self.report.concluded(faults);
        faults.first().map_or(Ok(()), |&(rank, Fault { errno, .. })| Err(Error::Rank { rank, errno }))
    }
}
