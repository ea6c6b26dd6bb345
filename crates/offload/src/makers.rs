//! The nodes of a job that can read a file, and the parts that they make of it.
//!
//! The daemon of this host carries requests and answers; which node makes what is decided in `dealing`, `several` and the core
//! (`forebay_query::Parts`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use forebay_query::{Burst, Collected, End, Filter, Kept, OnText, PartState, Separator, Share};
use forebay_types::Generation;
use forebay_wire::{QueryDialect, QueryTable, QueryWants};
use serde_json::json;

use crate::dealing::{Dealing, NODES_MAX};
use crate::files::{FileSource, Table, WantedRows};
use crate::messages::{AskedPart, FilesHolders, HeldFile, Holder, Holds, JobNode, bytes_of, request};
use crate::pieces::Homes;
use crate::several::{FilePart, Group, SeveralFiles};

/// How long a part may take; a node that takes longer is lost. The slowest device that is of any use makes one in a second.
pub const PART_TIMEOUT: Duration = Duration::from_secs(20);

/// The job, as this host's daemon has it.
pub(crate) struct Job {
    /// The daemon's control socket.
    pub(crate) socket: PathBuf,
    wants: QueryWants,
    /// By how much this host parses more slowly than its samples say, as far as was seen.
    pub(crate) host_factor: f64,
    /// By how much its bytes come more slowly.
    pub(crate) host_read_factor: f64,
}

impl Job {
    /// This host took so much longer than was predicted, in what it waited for. A daemon that does not hear it only predicts worse.
    pub(crate) fn saw_host(&self, factor: f64, waited_for_bytes: bool) {
        let factor = factor * if waited_for_bytes { self.host_read_factor } else { self.host_factor };
        let request =
            json!({"command": "querysaw", "wants": self.wants, "factor": factor, "waited_for_bytes": waited_for_bytes});
        let _ = forebay_control::ask(&self.socket, &request, Duration::from_secs(1));
    }
}

/// Nodes that can read the same files, and by which right: those of a file share one of these with others.
pub(crate) type NodeSet = Vec<(JobNode, Holds)>;

/// The nodes that make a file's parts beside the host.
#[derive(Clone)]
pub struct Makers {
    pub(crate) job: Arc<Job>,
    pub(crate) nodes: Arc<NodeSet>,
    /// The version that each of the nodes has; one if it is the same.
    versions: Vec<Generation>,
    /// The path by which nodes know the file.
    pub(crate) path: String,
    /// Which of them is to make which block, if the file is in the burst tier.
    pub(crate) homes: Homes,
}

impl Makers {
    /// Those that a daemon has named (`files_holders_request`, in as many answers as were needed) for files that nodes know by these
    /// paths; None where they know none: devices, or where there are none nodes whose logs have it, or else those that keep it and
    /// those that can read the backing file system. None if no node holds the version that this host has.
    #[must_use]
    pub fn among(
        found: Vec<FilesHolders>,
        files: &[(&FileSource, Option<String>)],
        socket: PathBuf,
        wants: QueryWants,
    ) -> Vec<Option<Self>> {
        let factors = found.first().map(|found| (found.host_factor, found.host_read_factor));
        let (host_factor, host_read_factor) = factors.unwrap_or((1.0, 1.0));
        let job = Arc::new(Job { socket, wants, host_factor, host_read_factor });
        let mut sets: BTreeMap<Vec<(u32, Holds)>, Arc<NodeSet>> = BTreeMap::new();
        let mut held = found.into_iter().flat_map(|FilesHolders { nodes, files, .. }| {
            let nodes: Arc<BTreeMap<u32, JobNode>> =
                Arc::new(nodes.into_iter().map(|node| (node.rank, node)).collect());
            files.into_iter().map(move |file| (Arc::clone(&nodes), file))
        });
        let of = |(source, path): &(&FileSource, Option<String>)| {
            let path = path.clone()?;
            let (nodes, file) = held.next()?;
            let holders = best(&file, source, &nodes);
            let key: Vec<(u32, Holds)> = holders.iter().map(|(rank, holds, _)| (*rank, *holds)).collect();
            let (_, first, version) = *holders.first()?;
            let node = |(rank, holds): &(u32, Holds)| Some((nodes.get(rank)?.clone(), *holds));
            let nodes = sets.entry(key).or_insert_with_key(|key| Arc::new(key.iter().filter_map(node).collect()));
            let is_one = holders.iter().all(|(_, _, other)| *other == version);
            let versions = holders.iter().map(|(_, _, version)| *version).take(if is_one { 1 } else { usize::MAX });
            let homes = Homes(if first == Holds::Burst { file.homes } else { vec![] });
            Some(Self { job: Arc::clone(&job), nodes: Arc::clone(nodes), versions: versions.collect(), path, homes })
        };
        files.iter().map(of).collect()
    }

    /// They, as holders of their versions of the file.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        let version = |index: usize| self.versions.get(index).unwrap_or(&self.versions[0]);
        let nodes = self.nodes.iter().enumerate();
        nodes.map(|(index, (node, holds))| Holder::of(node, *holds, *version(index))).collect()
    }

    /// The version that a node has.
    fn version_of(&self, rank: u32) -> Option<&Generation> {
        let index = self.nodes.iter().position(|(node, _)| node.rank == rank)?;
        self.versions.get(index).or_else(|| self.versions.first())
    }

    /// They, as parts are dealt out to them.
    pub(crate) fn group(&self) -> Group {
        self.nodes.iter().map(|(node, holds)| (node.rank, (*holds, node.bytes_per_s))).collect()
    }

    /// So many bytes of theirs, as the model sees them, where each needs so long to begin. Nodes of one host share its processors.
    pub(crate) fn share(&self, bytes: u64, begins: f64) -> Share {
        let sharing = |host: &str| self.nodes.iter().filter(|(node, _)| node.host == host).count() as f64;
        let end = |(node, _): &(JobNode, Holds)| {
            let part = 1.0 / sharing(&node.host);
            let burst = Burst { bytes: node.burst.0 * part, bytes_per_s: node.burst.1 * part };
            (node.rank, End { parses: node.bytes_per_s * part, reads: f64::INFINITY, begins, burst })
        };
        Share { bytes, nodes: self.nodes.iter().map(end).collect() }
    }

    /// Parts that all of them make at once.
    pub(crate) fn threads(&self) -> usize {
        self.nodes.iter().map(|(node, _)| node.threads).sum()
    }

    /// A part, made by a node.
    pub(crate) fn ask(
        &self,
        dealing: &Dealing<'_, SeveralFiles<'_>>,
        holder: &Holder,
        (source, table, collected): (&FileSource, Table<'_>, Collected),
        FilePart { part, .. }: FilePart,
    ) -> anyhow::Result<PartState> {
        let asked = AskedPart {
            rank: holder.rank,
            path: self.path.clone(),
            generation: *self.version_of(holder.rank).context("it does not hold the file")?,
            counts_bytes: collected.bytes,
            table: table.map(|rows| rows_of(source, rows, collected)),
            first: part.first,
            blocks: part.blocks,
            begins_quoted: part.begins_quoted,
            timeout_ms: PART_TIMEOUT.as_millis() as u64,
        };
        let answer = dealing.ask_over(&self.job.socket, &request("querypart", &asked)?, PART_TIMEOUT)?;
        let state = answer.as_str().and_then(bytes_of).and_then(|bytes| PartState::decode(&bytes));
        state.context("the answer cannot be decoded")
    }
}

/// The nodes that are to make a file's parts, the best of those that have this host's version of it.
fn best(file: &HeldFile, source: &FileSource, nodes: &BTreeMap<u32, JobNode>) -> Vec<(u32, Holds, Generation)> {
    let mut holders = file.all();
    // Of a burst file the node knows the version that asked the tree.
    holders.retain(|(rank, _, version)| nodes.contains_key(rank) && source.is_version(version));
    holders.sort_by_key(|(rank, holds, _)| (*holds, *rank));
    let first = holders.first().map(|(_, holds, _)| *holds);
    if matches!(first, Some(Holds::Device | Holds::Burst)) {
        holders.retain(|(_, holds, _)| Some(*holds) == first);
    }
    holders.truncate(NODES_MAX);
    holders
}

/// Rows of a file, as they travel.
pub fn rows_of(source: &FileSource, WantedRows { schema, kept }: WantedRows<'_>, collected: Collected) -> QueryTable {
    let Kept { columns, described, on_text, filter, by } = kept;
    // A schema has `FIELDS_MAX` fields at most.
    let indices = |columns: &[usize]| columns.iter().map(|column| *column as u16).collect();
    let separator = match schema.dialect.separator {
        Separator::Byte(byte) => Some(byte),
        Separator::Blanks | Separator::Doubles => None,
    };
    let missing = schema.dialect.missing.iter().map(str::to_owned).collect();
    let dialect = QueryDialect { separator, point: schema.dialect.point, comment: schema.dialect.comment, missing };
    QueryTable {
        dialect,
        data_sets: source.data_sets().to_vec(),
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
