//! Counts of a run's work on a file, kept while it runs; rank 0 writes them down (`record`) and prints what it was asked to.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::group::Group;
use crate::hints::Hints;
use crate::mark;
use crate::message::{NUMBER_BYTES, Reader, put};
use crate::missing::Missing;
use crate::outcome::Fault;
use crate::plan::Plan;
use crate::record::{Aggregator, Failure, Record, State};
use crate::say;
use crate::storage::Requests;

/// Failures that a record lists; one for each aggregator of a large job would tell nothing more.
const FAILURES_MAX: usize = 64;

/// Lines of the mark that one exchange adds at most.
const LINES_MAX: usize = 64;

/// The end of a list that is cut.
const MORE: &str = " ...";

/// The counts of a run, and where they go.
#[derive(Debug)]
pub struct Report {
    record: Record,
    hosts: Vec<String>,
    is_first_rank: bool,
    prints: bool,
    directory: Option<PathBuf>,
    /// Whether MPI deletes the file when it is closed, and with it the mark.
    pub deletes: bool,
    /// Whether this rank has marked the file because bytes of it are held.
    has_marked: bool,
    /// Failures in words, for the mark.
    lines: String,
}

/// The work of all ranks.
#[derive(Debug)]
pub struct Totals {
    requests: Requests,
    has_marked: bool,
    /// Whether any rank holds bytes, or has an error to tell.
    pub holds: bool,
}

/// Bytes of all failures that a mark lists; beyond, it says that any byte may be missing. `opening` reads no more.
const MARK_MAX_BYTES: usize = 60 << 10;

impl Report {
    /// Of a file that is being opened, with the directory of the records.
    #[must_use]
    pub fn new(
        file: PathBuf,
        rank: usize,
        hosts: Vec<String>,
        network: &str,
        hints: &Hints,
        directory: Option<PathBuf>,
    ) -> Self {
        let record = Record {
            file,
            ranks: hosts.len(),
            hosts: hosts.iter().collect::<BTreeSet<_>>().len(),
            network: network.to_owned(),
            buffer_bytes: hints.buffer_bytes,
            stripe_bytes: hints.stripe_bytes,
            ..Record::default()
        };
        Self {
            record,
            hosts,
            is_first_rank: rank == 0,
            prints: hints.prints,
            directory,
            deletes: false,
            has_marked: false,
            lines: String::new(),
        }
    }

    /// Other hints hold from now on.
    pub fn set_hints(&mut self, hints: &Hints) {
        (self.record.buffer_bytes, self.record.stripe_bytes) = (hints.buffer_bytes, hints.stripe_bytes);
        self.prints = hints.prints;
    }

    /// The hosts of the ranks.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The hints that hold, by the names that a program can set them by; no value is longer than so many bytes.
    #[must_use]
    pub fn hints(&self, hints: &Hints, value_max_bytes: usize) -> Vec<(&'static str, String)> {
        let unquoted = |text: serde_json::Result<String>| text.unwrap_or_default().trim_matches('"').to_owned();
        let list = |aggregators: &[Aggregator]| {
            aggregators.iter().map(|each| each.rank.to_string()).collect::<Vec<_>>().join(" ")
        };
        let mut told = vec![
            ("forebay_aggregation", unquoted(serde_json::to_string(&hints.write))),
            ("forebay_hold", unquoted(serde_json::to_string(&hints.hold))),
            ("forebay_buffer_bytes", hints.buffer_bytes.to_string()),
            ("forebay_strategy", hints.strategy.clone().unwrap_or_else(|| "best".to_owned())),
        ];
        if !self.record.aggregators.is_empty() {
            told.push(("forebay_aggregators", self.record.aggregators.len().to_string()));
            told.push(("forebay_aggregator_list", in_room(list(&self.record.aggregators), value_max_bytes)));
        }
        told
    }

    /// The record as it stands, as JSON.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(&self.record).unwrap_or_default()
    }

    /// A call's bytes are held.
    pub fn held_call(&mut self) {
        self.record.held_calls += 1;
    }

    /// Ranks hold bytes: if the run dies, its record and the mark beside the file say that some may be missing. On all ranks.
    pub fn holds(&mut self) {
        if self.is_first_rank {
            self.holds_alone();
        }
    }

    /// The same, for bytes of which the other ranks do not know.
    pub fn holds_alone(&mut self) {
        if self.deletes || std::mem::replace(&mut self.has_marked, true) {
            return;
        }
        self.write();
        let line = unknown("it was not closed, and ranks held some of them");
        if let Err(error) =
            append(&self.record.file, &format!("{} is being written:\n{line}", self.record.file.display()))
        {
            say::complain_once(format_args!(
                "{} cannot be written, so nothing beside the file will say if this run dies: {error}",
                mark::path_of(&self.record.file).display()
            ));
        }
    }

    /// Every rank wrote or read its own bytes of a call.
    pub fn alone_call(&mut self) {
        self.record.alone_calls += 1;
    }

    /// A call reads by way of aggregators.
    pub fn read_call(&mut self) {
        self.record.reads += 1;
    }

    /// A call passed through to MPI.
    pub fn passed(&mut self, why: &str) {
        *self.record.passed_through.entry(why.to_owned()).or_default() += 1;
    }

    /// An exchange begins.
    pub fn exchanged(&mut self) {
        self.record.exchanges += 1;
        if self.record.exchanges == 1 {
            self.write();
        }
    }

    /// Every rank wrote what it held.
    pub fn own_writes(&mut self) {
        self.record.own_writes += 1;
    }

    /// There is no plan for an exchange.
    pub fn unplanned(&mut self, why: &str) {
        self.record.unplanned += 1;
        if self.record.unplanned == 1 {
            why.clone_into(&mut self.record.unplanned_why);
            if self.is_first_rank {
                let file = self.record.file.display();
                say::complain(format_args!("{file}: without a plan, nothing is aggregated: {why}"));
            }
        }
    }

    /// A plan holds; aggregators that are others than before are printed.
    pub fn planned(&mut self, plan: &Plan) {
        let host = |rank: usize| self.hosts.get(rank).cloned().unwrap_or_default();
        let aggregators: Vec<Aggregator> =
            plan.aggregators.iter().map(|&rank| Aggregator { rank, host: host(rank) }).collect();
        self.record.rounds = plan.rounds;
        plan.strategy.clone_into(&mut self.record.strategy);
        if aggregators != self.record.aggregators {
            self.record.aggregators = aggregators;
            if self.prints && self.is_first_rank {
                let list = |of: &dyn Fn(&Aggregator) -> String| {
                    self.record.aggregators.iter().map(of).collect::<Vec<_>>().join(" ")
                };
                say::print_hint("forebay_aggregator_list", list(&|each| each.rank.to_string()));
                say::print_hint("forebay_aggregator_hosts", list(&|each| each.host.clone()));
            }
        }
    }

    /// An exchange has ended, with these faults.
    pub fn concluded(&mut self, faults: &[(usize, Fault)]) {
        if faults.is_empty() {
            return;
        }
        let new = self.note(faults);
        if self.is_first_rank {
            self.mark(&new);
            self.write();
        }
    }

    /// This rank could not write what it held, and no other hears of it.
    pub fn left(&mut self, rank: usize, fault: Fault) {
        let new = self.note(&[(rank, fault)]);
        self.mark(&new);
        self.write();
    }

    /// Adds failures. Returns them, as lines. Those for which there is no room are told as one.
    fn note(&mut self, faults: &[(usize, Fault)]) -> String {
        self.record.state = State::Incomplete;
        let (each, rest) = faults.split_at(faults.len().min(LINES_MAX - 1));
        let (rank, first) =
            (rest.first().map(|(rank, _)| *rank), rest.iter().map(|(_, fault)| *fault).reduce(Fault::and));
        let failure = |(rank, Fault { errno, round, missing }): (usize, Fault)| Failure {
            rank,
            error: errno.to_string(),
            round: round + 1,
            offset: missing.offset,
            length: missing.len,
        };
        let new: Vec<Failure> = each.iter().copied().chain(rank.zip(first)).map(failure).collect();
        let room = FAILURES_MAX.saturating_sub(self.record.failures.len());
        self.record.failures.extend(new.iter().take(room).cloned());
        let new: String = new.iter().map(line).collect();
        self.lines += &new;
        new
    }

    /// Adds up what all ranks did. Collective.
    ///
    /// # Errors
    /// [`Error::Communication`], [`Error::Message`].
    pub fn totals<G: Group>(&self, group: &G, own: Requests, holds: bool) -> Result<Totals, Error> {
        let mut report = vec![];
        let flags = [self.has_marked, holds].map(u64::from);
        let counts = [own.writes, own.striped_writes, own.bytes_written, own.reads, own.bytes_read, flags[0], flags[1]];
        counts.iter().for_each(|count| put(&mut report, *count));
        let mut totals = [0u64; 7];
        for report in group.all_gather(&report)?.chunks(counts.len() * NUMBER_BYTES) {
            let mut reader = Reader::new(report);
            for total in &mut totals {
                *total = total.saturating_add(reader.number()?);
            }
        }
        let [writes, striped_writes, bytes_written, reads, bytes_read, marked, holding] = totals;
        let requests = Requests { writes, striped_writes, bytes_written, reads, bytes_read };
        Ok(Totals { requests, has_marked: marked > 0, holds: holding > 0 })
    }

    /// The file is closed: writes the record. `missing` is what an earlier run has left out and nobody has written since, if the
    /// file was marked.
    pub fn close(&mut self, totals: &Totals, missing: Option<Missing>) {
        let (record, has_marked) = (&mut self.record, totals.has_marked);
        record.write_requests = totals.requests.writes;
        record.striped_write_requests = totals.requests.striped_writes;
        record.bytes_written = totals.requests.bytes_written;
        record.read_requests = totals.requests.reads;
        record.bytes_read = totals.requests.bytes_read;
        let is_whole = missing.as_ref().is_none_or(|missing| missing.extents().is_empty());
        if record.state == State::Writing {
            record.state = if is_whole { State::Complete } else { State::Incomplete };
        }
        if self.deletes || ((has_marked || missing.is_some()) && self.record.state == State::Complete) {
            self.unmark();
        } else if has_marked {
            self.mark_again(missing.as_ref());
        }
        let record = &self.record;
        // Calls that were held may have had no bytes; the record says since then that the file is being written.
        let says_writing = self.has_marked || record.exchanges > 0;
        if says_writing || record.bytes_written > 0 || !record.failures.is_empty() || !record.passed_through.is_empty()
        {
            self.write();
        }
    }

    /// A record that cannot be written is missed by `--explain` alone.
    fn write(&self) {
        let Some(directory) = self.directory.as_deref().filter(|_| self.is_first_rank) else { return };
        if let Err(error) = self.record.write(directory) {
            say::complain_once(format_args!(
                "cannot write the record for forebay mpiio --explain to {}: {error}",
                directory.display()
            ));
        }
    }

    fn unmark(&self) {
        let marker = mark::path_of(&self.record.file);
        if self.is_first_rank
            && marker.exists()
            && let Err(error) = fs::remove_file(&marker)
        {
            say::complain(format_args!("{} is out of date and cannot be removed: {error}", marker.display()));
        }
    }

    /// The file is closed: the mark, which said so far that any byte may be missing, names those that are.
    fn mark_again(&self, missing: Option<&Missing>) {
        if !self.is_first_rank {
            return;
        }
        let earlier = missing.map(Missing::extents).unwrap_or_default().iter();
        let earlier =
            earlier.map(|part| format!("bytes {} to {}: left out by an earlier run\n", part.offset, part.end()));
        let mut lines = earlier.collect::<String>() + &self.lines;
        if lines.len() > MARK_MAX_BYTES {
            lines = unknown("there were many errors");
        }
        let what = format!("{} is incomplete:\n{lines}", self.record.file.display());
        let marker = mark::path_of(&self.record.file);
        // A mark without a whole text means all bytes, so none is lost if this run ends here.
        let written = mark::make(&self.record.file).and_then(|marked| marked.set_len(0));
        if let Err(error) = written.and_then(|()| append(&self.record.file, &what)) {
            say::complain(format_args!("{} cannot be written completely: {error}", marker.display()));
        }
    }

    /// Says beside the file that some of it is missing, below what was said of it before. A full file system may have no room for
    /// the text, but has for a name: a mark without a whole text means all bytes.
    fn mark(&self, lines: &str) {
        let marker = mark::path_of(&self.record.file);
        let what = format!("{} is incomplete:\n{lines}", self.record.file.display());
        say::complain(what.trim_end());
        let written = append(&self.record.file, &what);
        if let Err(error) = written {
            say::complain(format_args!("{} cannot be written completely: {error}", marker.display()));
        }
    }
}

/// Adds to the mark of a file.
fn append(file: &Path, what: &str) -> std::io::Result<()> {
    let mut marked = mark::make(file)?;
    marked.write_all(what.as_bytes()).or_else(|error| marked.set_len(0).and(Err(error)))
}

/// Any byte may be missing.
fn unknown(why: &str) -> String {
    format!("bytes 0 to {}: {why}\n", i64::MAX)
}

fn line(Failure { rank, error, round, offset, length }: &Failure) -> String {
    format!("bytes {offset} to {}: rank {rank}, round {round}: {error}\n", offset + length)
}

/// A list of words, cut after a whole one where it has no room.
fn in_room(mut list: String, max_bytes: usize) -> String {
    if list.len() > max_bytes {
        let room = max_bytes.saturating_sub(MORE.len());
        // A word that ends exactly there is whole.
        let end = list[..=room].rfind(' ').unwrap_or(0);
        list.truncate(end);
        list += MORE;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mark that is read again names no fewer bytes than are missing.
    #[test]
    fn many_failures_of_an_exchange_are_told_as_few() {
        let hints = crate::hints::resolve(&[], &|_| None, None).hints;
        let mut report = Report::new("/scratch/file".into(), 1, vec![], "one switch", &hints, None);
        let fault = |rank: u64| Fault {
            errno: rustix::io::Errno::NOSPC,
            round: 0,
            missing: crate::view::Extent { offset: rank * 100, len: 10 },
        };
        let faults: Vec<(usize, Fault)> = (0..200).map(|rank| (rank as usize, fault(rank))).collect();
        let lines = report.note(&faults);
        assert_eq!(lines.lines().count(), LINES_MAX);
        let missing = Missing::of_mark(&lines);
        let covers =
            |rank: u64| missing.extents().iter().any(|part| part.offset <= rank * 100 && part.end() >= rank * 100 + 10);
        assert!((0..200).all(covers) && !missing.is_all());
    }

    #[test]
    fn a_long_list_is_cut_after_a_whole_number() {
        let list = || (0..100).map(|rank| rank.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(in_room(list(), 400), list());
        assert_eq!(in_room(list(), 14), "0 1 2 3 4 ...");
        assert_eq!(in_room(list(), 13), "0 1 2 3 4 ...");
        assert_eq!(in_room(list(), 12), "0 1 2 3 ...");
        assert!(in_room(list(), 255).len() <= 255);
    }
}
