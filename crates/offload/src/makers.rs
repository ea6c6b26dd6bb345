//! The nodes of a job that hold one file, and the parts that they make of it.
//!
//! The daemon of this host carries requests and answers; which node makes what is decided in `dealing` and in the core
//! (`forebay_query::Parts`).

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use forebay_query::{Burst, Collected, End, Filter, Kept, OnText, Part, PartState, Parts, Separator, State};
use forebay_wire::{QueryDialect, QueryTable, QueryWants};
use serde_json::{Value, json};

use crate::dealing::{Dealing, HostPart, Made, REQUESTS_MAX};
use crate::files::{
    Contents, FileSource, PassOptions, Table, WantedRows, begins_quoted, collect_part, state_of_nothing,
};
use crate::messages::{AskedPart, FileHolders, Holder, Holds, bytes_of, request};
use crate::pieces::{FileParts, Homes};

/// How long a part may take; a node that takes longer is lost. The slowest device that is of any use makes one in a second.
pub const PART_TIMEOUT: Duration = Duration::from_secs(20);

/// The nodes that make a file's parts beside the host.
pub struct Makers {
    pub(crate) holders: Vec<Holder>,
    /// The path by which nodes know the file.
    pub(crate) path: String,
    /// That of this host's daemon.
    pub(crate) socket: PathBuf,
    /// Which of them is to make which block, if the file is in the burst tier.
    pub(crate) homes: Homes,
    wants: QueryWants,
    /// By how much this host parses more slowly than its samples say, as far as was seen.
    pub(crate) host_factor: f64,
    /// By how much its bytes come more slowly.
    pub(crate) host_read_factor: f64,
}

impl Makers {
    /// Those that a daemon has named (`holders_request`) for a file that nodes know by this path: devices, or where there are none
    /// nodes whose logs have it, or nodes that keep it, or else those that read the backing file system. None if no node holds the
    /// version that this host has.
    ///
    /// # Errors
    /// The answer cannot be decoded.
    pub fn among(
        answer: Value,
        source: &FileSource,
        (path, socket): (String, PathBuf),
        wants: QueryWants,
    ) -> anyhow::Result<Option<Self>> {
        let found: FileHolders = serde_json::from_value(answer).context("the answer cannot be decoded")?;
        let FileHolders { holders, in_logs, homes, host_factor, host_read_factor } = found;
        let same = holders.into_iter().chain(in_logs).filter(|holder| source.is_version(&holder.generation));
        let mut holders = Holder::best(same.collect());
        holders.truncate(REQUESTS_MAX);
        let Some(Holder { holds, .. }) = holders.first() else { return Ok(None) };
        let homes = Homes(if *holds == Holds::Burst { homes } else { vec![] });
        Ok(Some(Self { holders, path, socket, homes, wants, host_factor, host_read_factor }))
    }

    /// They, as the model sees them, where each needs so long to begin.
    pub(crate) fn ends(&self, begins: f64) -> Vec<End> {
        let end = |holder: &Holder| {
            let burst = Burst { bytes: holder.burst.0, bytes_per_s: holder.burst.1 };
            End { parses: holder.bytes_per_s, reads: f64::INFINITY, begins, burst }
        };
        self.holders.iter().map(end).collect()
    }

    /// This host took so much longer than was predicted, in what it waited for. A daemon that does not hear it only predicts worse.
    pub(crate) fn saw_host(&self, factor: f64, waited_for_bytes: bool) {
        let factor = factor * if waited_for_bytes { self.host_read_factor } else { self.host_factor };
        let request =
            json!({"command": "querysaw", "wants": self.wants, "factor": factor, "waited_for_bytes": waited_for_bytes});
        let _ = forebay_control::ask(&self.socket, &request, Duration::from_secs(1));
    }

    /// Parts that all of them make at once.
    fn threads(&self) -> usize {
        self.holders.iter().map(|holder| holder.threads).sum()
    }

    /// The state of a file: parts made by the nodes, by this host as `host_part` says, and by it where nobody else is left. Of
    /// each block whether it begins within quotes, if `is_reread`.
    pub(crate) fn collect(
        &self,
        source: &FileSource,
        table: Table<'_>,
        options: PassOptions<'_>,
        host_part: HostPart,
        is_reread: bool,
    ) -> anyhow::Result<(State, Vec<bool>, Made)> {
        let PassOptions { collected, threads, .. } = options;
        let like = state_of_nothing(table, collected);
        let host_threads = if matches!(host_part, HostPart::Rest) { 0 } else { threads };
        let parts = match is_reread || self.homes.are_known() {
            true => Parts::by_block(source.bytes(), like).behind(begins_quoted(table)),
            false => Parts::new(source.bytes(), self.threads() + host_threads, like).behind(begins_quoted(table)),
        };
        let pieces = FileParts { parts, homes: self.homes.clone() };
        let dealing = Dealing::new(pieces, &self.holders, options.done_bytes);
        let here = |part| {
            let options =
                PassOptions { threads: 1, done_bytes: &Default::default(), is_given_up: dealing.is_over(), ..options };
            collect_part(source, table, options, part)
        };
        let asked = asked_of_all(table, collected);
        let ask = |holder: &Holder, part| self.ask(&dealing, holder, &asked, part);
        dealing.run(&self.holders, host_part, threads, ask, here)?;
        source.check()?;
        let (FileParts { parts, .. }, made) = dealing.finish();
        let quoted = if is_reread { parts.quoted_starts().to_vec() } else { vec![] };
        Ok((parts.finish()?, quoted, made))
    }

    /// A part, made by a node.
    fn ask(
        &self,
        dealing: &Dealing<'_, FileParts>,
        holder: &Holder,
        asked: &(bool, Option<QueryTable>),
        part: Part,
    ) -> anyhow::Result<PartState> {
        let (counts_bytes, table) = asked.clone();
        let asked = AskedPart {
            rank: holder.rank,
            path: self.path.clone(),
            generation: holder.generation,
            counts_bytes,
            table,
            first: part.first,
            blocks: part.blocks,
            begins_quoted: part.begins_quoted,
            timeout_ms: PART_TIMEOUT.as_millis() as u64,
        };
        let answer = dealing.ask_over(&self.socket, &request("querypart", &asked)?, PART_TIMEOUT)?;
        let state = answer.as_str().and_then(bytes_of).and_then(|bytes| PartState::decode(&bytes));
        state.context("the answer cannot be decoded")
    }
}

/// The part of a request that is the same for every node.
fn asked_of_all(table: Table<'_>, collected: Collected) -> (bool, Option<QueryTable>) {
    (collected.bytes, table.map(|rows| rows_of(rows, collected)))
}

/// Rows of a file, as they travel.
pub fn rows_of(WantedRows { schema, kept }: WantedRows<'_>, collected: Collected) -> QueryTable {
    let Kept { columns, described, on_text, filter, by } = kept;
    // A schema has `FIELDS_MAX` fields at most.
    let indices = |columns: &[usize]| columns.iter().map(|column| *column as u16).collect();
    let separator = match schema.dialect.separator {
        Separator::Byte(byte) => Some(byte),
        Separator::Blanks => None,
    };
    let missing = schema.dialect.missing.iter().map(str::to_owned).collect();
    let dialect = QueryDialect { separator, point: schema.dialect.point, comment: schema.dialect.comment, missing };
    QueryTable {
        dialect,
        fields: schema.numeric.len() as u16,
        rows_from: schema.rows_from,
        columns: indices(columns),
        gramian: collected.gramian,
        covariance: collected.covariance,
        described_numbers: indices(&described.numbers),
        described_texts: indices(&described.texts),
        filter: filter.map(Filter::encode).unwrap_or_default(),
        by: by.map(|column| column as u16),
        text_is_missing: on_text == OnText::Missing,
    }
}
