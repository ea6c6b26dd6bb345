//! Queries near the data: the nodes of a job that hold a file, and parts of it asked of them.
//!
//! The daemon of this host carries questions and answers; what is asked of whom is decided in `dealing` and in the core
//! (`forebay_query::Parts`).

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use forebay_daemon::AskedPart;
use forebay_daemon::query::{
    Contents, FileSource, Holder, Holds, PassOptions, Table, collect_part, decode_part, state_of_nothing,
};
use forebay_launch::JobDirectory;
use forebay_query::{Burst, Collected, End, Part, PartState, Parts, Schema, State};
use forebay_wire::{QueryTable, QueryWants};
use serde::Deserialize;
use serde_json::json;

use crate::commands::ask::ask_any;
use crate::commands::paths::{resolved, views, within_view};
use crate::commands::query::dealing::{Dealing, Homes, HostPart, Made, QUESTIONS_MAX};
use crate::control;

/// How long it may take to hear who holds a file: a silent node costs a second on each level of the tree.
const HOLDERS_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a part may take; a node that takes longer is lost. The slowest device that is of any use makes one in a second.
pub const PART_TIMEOUT: Duration = Duration::from_secs(20);

/// The job that this host takes part in.
pub struct Near {
    directory: JobDirectory,
    wants: QueryWants,
}

/// Those who make a file's parts beside the host.
pub struct Makers {
    /// They.
    pub holders: Vec<Holder>,
    /// The file's absolute path.
    pub path: String,
    /// That of this host's daemon.
    pub socket: PathBuf,
    /// Which of them is to make which block, if the file is in the burst tier.
    pub homes: Homes,
    wants: QueryWants,
    /// By how much this host parses more slowly than its samples say, as far as was seen.
    pub host_factor: f64,
    /// By how much its bytes come more slowly.
    pub host_read_factor: f64,
}

/// What the daemon of this host says.
#[derive(Deserialize)]
struct Said {
    holders: Vec<Holder>,
    in_logs: Vec<Holder>,
    homes: Vec<(u64, Option<u32>)>,
    host_factor: f64,
    host_read_factor: f64,
}

impl Near {
    /// For queries that collect this.
    pub fn new(directory: JobDirectory, collected: Collected) -> Self {
        let Collected { bytes: counts_bytes, columns: rows, gramian } = collected;
        Self { directory, wants: QueryWants { counts_bytes, rows, gramian } }
    }

    /// The nodes that hold a file as this host sees it: devices, or where there are none nodes whose logs have it, or nodes that keep
    /// it, or else those that read the backing file system. None if nobody does.
    pub fn makers(&self, source: &FileSource) -> anyhow::Result<Option<Makers>> {
        let path = std::path::absolute(source.path()).context("a path cannot be made absolute")?;
        // Nodes know files by their places.
        let (_, path) = within_view(&path, &views(&self.directory));
        let Some(path) = resolved(&path).to_str().map(str::to_owned) else { return Ok(None) };
        let question = json!({"command": "holders", "path": path, "wants": self.wants});
        let said = ask_any(&self.directory, None, &question, HOLDERS_TIMEOUT)?;
        let Said { holders: mut all, in_logs, homes, host_factor, host_read_factor } =
            serde_json::from_value(said).context("the answer cannot be decoded")?;
        all.extend(in_logs);
        let is_same = |holder: &Holder| source.is_version(&holder.generation);
        let best = all.iter().filter(|holder| is_same(holder)).map(|holder| holder.holds).min();
        let holders: Vec<Holder> = all
            .into_iter()
            .filter(|holder| is_same(holder) && Some(holder.holds) == best)
            .take(QUESTIONS_MAX)
            .collect();
        let socket = answering_socket(&self.directory)?;
        let homes = Homes(if best == Some(Holds::Burst) { homes } else { vec![] });
        let wants = self.wants;
        let makers = Makers { holders, path, socket, homes, wants, host_factor, host_read_factor };
        Ok((!makers.holders.is_empty()).then_some(makers))
    }
}

impl Makers {
    /// They, as the model sees them, where each needs so long to begin.
    pub fn ends(&self, begins: f64) -> Vec<End> {
        let end = |holder: &Holder| {
            let burst = Burst { bytes: holder.burst.0, bytes_per_s: holder.burst.1 };
            End { parses: holder.bytes_per_s, reads: f64::INFINITY, begins, burst }
        };
        self.holders.iter().map(end).collect()
    }

    /// This host took so much longer than was predicted, in what it waited for. Nothing depends on whether that is heard.
    pub fn saw_host(&self, factor: f64, waited_for_bytes: bool) {
        let factor = factor * if waited_for_bytes { self.host_read_factor } else { self.host_factor };
        let question =
            json!({"command": "querysaw", "wants": self.wants, "factor": factor, "waited_for_bytes": waited_for_bytes});
        let _ = control::ask(&self.socket, &question, Duration::from_secs(1));
    }

    /// Parts that all of them make at once.
    pub fn threads(&self) -> usize {
        self.holders.iter().map(|holder| holder.threads).sum()
    }

    /// The state of a file: parts made by the nodes, by this host as `host_part` says, and by it where nobody else is left. Of
    /// each block whether it begins within quotes, if `is_reread`.
    pub fn collect(
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
            true => Parts::by_block(source.bytes(), like),
            false => Parts::new(source.bytes(), self.threads() + host_threads, like),
        };
        let dealing = Dealing::new(parts, &self.holders, &self.homes, options.done_bytes);
        let here = |part| {
            let options =
                PassOptions { threads: 1, done_bytes: &Default::default(), is_given_up: dealing.is_over(), ..options };
            collect_part(source, table, options, part)
        };
        let asked = question(table, collected);
        let ask = |holder: &Holder, part| self.ask(&dealing, holder, &asked, part);
        dealing.run(&self.holders, host_part, threads, ask, here)?;
        source.check()?;
        let (parts, made) = dealing.finish();
        let quoted = if is_reread { parts.quoted_starts().to_vec() } else { vec![] };
        Ok((parts.finish()?, quoted, made))
    }

    /// A part, made by a node.
    fn ask(
        &self,
        dealing: &Dealing<'_, Parts>,
        holder: &Holder,
        asked: &(bool, Option<QueryTable>),
        part: Part,
    ) -> anyhow::Result<PartState> {
        let (counts_bytes, table) = asked.clone();
        let question = AskedPart {
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
        let mut question = serde_json::to_value(question)?;
        question["command"] = json!("querypart");
        let said = dealing.ask_over(&self.socket, &question, PART_TIMEOUT)?;
        let state = said.as_str().and_then(decode_part);
        state.context("the answer cannot be decoded")
    }
}

/// That of a daemon on this host that answers.
pub fn answering_socket(directory: &JobDirectory) -> anyhow::Result<PathBuf> {
    let mut sockets = directory.socket_ranks().into_iter().map(|rank| directory.socket(rank));
    let is_there = |socket: &PathBuf| control::ask(socket, &json!({"command": "ping"}), Duration::from_secs(1)).is_ok();
    sockets.find(is_there).context("no daemon of the job answers on this host")
}

/// What is asked of every node.
fn question(table: Table<'_>, collected: Collected) -> (bool, Option<QueryTable>) {
    let of = |(schema, columns): (&Schema, &[usize])| rows_of(schema, columns, collected.gramian);
    (collected.bytes, table.map(of))
}

/// A schema and columns of it, as they travel.
pub fn rows_of(schema: &Schema, columns: &[usize], gramian: bool) -> QueryTable {
    QueryTable {
        delimiter: schema.dialect.delimiter(),
        numeric: schema.numeric.clone(),
        rows_from: schema.rows_from,
        // A schema has `FIELDS_MAX` fields at most.
        columns: columns.iter().map(|column| *column as u16).collect(),
        gramian,
    }
}
