//! What a run did with a file, counted while it runs; rank 0 writes it down (`record`) and prints what it was asked to.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::group::Group;
use crate::hints::Hints;
use crate::message::{NUMBER_BYTES, Reader, put};
use crate::outcome::Fault;
use crate::plan::Plan;
use crate::record::{self, Aggregator, Failure, Record, State};
use crate::say;
use crate::storage::Requests;

/// Failures that a record lists; one for each aggregator of a large job would tell nothing more.
const FAILURES_MAX: usize = 64;

/// The counts of a run, and where they go.
#[derive(Debug)]
pub struct Report {
    record: Record,
    hosts: Vec<String>,
    is_first_rank: bool,
    prints: bool,
    directory: Option<PathBuf>,
}

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
        Self { record, hosts, is_first_rank: rank == 0, prints: hints.prints, directory }
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

    /// The hints that hold, by the names that a program can set them by.
    #[must_use]
    pub fn hints(&self, hints: &Hints) -> Vec<(&'static str, String)> {
        let word = |choice| serde_json::to_string(&choice).unwrap_or_default().trim_matches('"').to_owned();
        let list = |aggregators: &[Aggregator]| {
            aggregators.iter().map(|each| each.rank.to_string()).collect::<Vec<_>>().join(" ")
        };
        let mut told = vec![
            ("forebay_aggregation", word(hints.write)),
            ("forebay_buffer_bytes", hints.buffer_bytes.to_string()),
            ("forebay_strategy", hints.strategy.clone().unwrap_or_else(|| "best".to_owned())),
        ];
        if !self.record.aggregators.is_empty() {
            told.push(("forebay_aggregators", self.record.aggregators.len().to_string()));
            told.push(("forebay_aggregator_list", list(&self.record.aggregators)));
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
        self.record.state = State::Incomplete;
        let failure = |(rank, fault): &(usize, Fault)| Failure {
            rank: *rank,
            error: fault.errno.to_string(),
            round: fault.round + 1,
            offset: fault.missing.offset,
            length: fault.missing.len,
        };
        let room = FAILURES_MAX.saturating_sub(self.record.failures.len());
        self.record.failures.extend(faults.iter().take(room).map(failure));
        if self.is_first_rank {
            self.mark();
            self.write();
        }
    }

    /// The file is closed: adds up what all ranks did, and writes the record.
    ///
    /// # Errors
    /// [`Error::Communication`], [`Error::Message`].
    pub fn close<G: Group>(&mut self, group: &G, own: Requests) -> Result<(), Error> {
        let mut report = vec![];
        let counts = [own.writes, own.striped_writes, own.bytes_written, own.reads, own.bytes_read];
        counts.iter().for_each(|count| put(&mut report, *count));
        let mut totals = [0u64; 5];
        for report in group.all_gather(&report)?.chunks(counts.len() * NUMBER_BYTES) {
            let mut reader = Reader::new(report);
            for total in &mut totals {
                *total = total.saturating_add(reader.number()?);
            }
        }
        let record = &mut self.record;
        [
            record.write_requests,
            record.striped_write_requests,
            record.bytes_written,
            record.read_requests,
            record.bytes_read,
        ] = totals;
        if record.state == State::Writing {
            record.state = State::Complete;
            self.unmark();
        }
        let record = &self.record;
        if record.bytes_written > 0 || !record.failures.is_empty() || !record.passed_through.is_empty() {
            self.write();
        }
        Ok(())
    }

    /// A record that cannot be written is missed by `--explain` alone.
    fn write(&self) {
        let Some(directory) = self.directory.as_deref().filter(|_| self.is_first_rank) else { return };
        if let Err(error) = self.record.write(directory) {
            say::complain(format_args!("no record for forebay mpiio --explain in {}: {error}", directory.display()));
        }
    }

    /// A run that wrote as many bytes as the file has wrote all of it anew: what an earlier one left out is there now.
    fn unmark(&self) {
        let marker = record::marker(&self.record.file);
        if self.is_first_rank && marker.exists() {
            let is_anew = fs::metadata(&self.record.file).is_ok_and(|file| file.len() <= self.record.bytes_written);
            if is_anew && let Err(error) = fs::remove_file(&marker) {
                say::complain(format_args!("{} means nothing now and stays: {error}", marker.display()));
            }
        }
    }

    /// Says beside the file that some of it is missing. A full file system may have no room for the text, but has for a name.
    fn mark(&self) {
        let marker = record::marker(&self.record.file);
        let line = |failure: &Failure| {
            let Failure { rank, error, round, offset, length } = failure;
            format!("bytes {offset} to {}: rank {rank}, round {round}: {error}\n", offset + length)
        };
        let text: String = self.record.failures.iter().map(line).collect();
        let what = format!("{} is incomplete:\n{text}", self.record.file.display());
        say::complain(what.trim_end());
        write_marker(&marker, &what);
    }
}

fn write_marker(marker: &Path, text: &str) {
    if let Err(error) = fs::write(marker, text) {
        say::complain(format_args!("{} is not whole: {error}", marker.display()));
    }
}
