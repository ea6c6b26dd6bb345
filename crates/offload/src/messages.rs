//! The exchange with the daemon of this host about queries: lines of JSON on its control socket, in which it names the nodes that
//! hold a file and carries requests to them. Bytes travel as hexadecimal text.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use forebay_types::Generation;
use forebay_wire::{QueryTable, QueryWants};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long it may take to hear which nodes hold a file: a silent node costs a second on each level of the tree.
pub const HOLDERS_TIMEOUT: Duration = Duration::from_secs(10);

/// A node that holds a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// Which node.
    pub rank: u32,
    /// On which host.
    pub host: String,
    /// By which right it holds it.
    pub holds: Holds,
    /// The version that it has.
    pub generation: Generation,
    /// Parts that it makes at once.
    pub threads: usize,
    /// Bytes that it parses in a second, with all of them.
    pub bytes_per_s: f64,
    /// Bytes that it parses faster at the beginning, and how many of them in a second.
    #[serde(default)]
    pub burst: (f64, f64),
    /// A device's directory, in which it may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
}

/// Why a node counts as one that holds a file. The first of these that any node has counts for all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// It is a device, and the file is its own.
    Device,
    /// The file is in the burst tier, and this node's log may have bytes of it.
    Burst,
    /// It keeps (nearly) all of it in its cache.
    Cache,
    /// It can read the backing file system, where the file lies.
    Backing,
}

impl Holder {
    /// A node as the holder of one version of a file.
    #[must_use]
    pub fn of(node: &JobNode, holds: Holds, generation: Generation) -> Self {
        let JobNode { rank, host, threads, bytes_per_s, burst, data } = node.clone();
        Self { rank, host, holds, generation, threads, bytes_per_s, burst, data }
    }

    /// Those with the best right.
    #[must_use]
    pub fn best(mut holders: Vec<Self>) -> Vec<Self> {
        let best = holders.iter().map(|holder| holder.holds).min();
        holders.retain(|holder| Some(holder.holds) == best);
        holders
    }
}

/// The nodes that hold a file.
#[derive(Default, Serialize, Deserialize)]
pub struct FileHolders {
    /// By rank.
    pub holders: Vec<Holder>,
    /// Nodes whose logs have bytes of it, if it is in the burst tier.
    pub in_logs: Vec<Holder>,
    /// The node whose log has most of each block, as runs: the first block of each run, and the node.
    pub homes: Vec<(u64, Option<u32>)>,
}

/// A node that may make pieces.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobNode {
    /// Which.
    pub rank: u32,
    /// On which host.
    pub host: String,
    /// Pieces that it makes at once.
    pub threads: usize,
    /// Bytes that it parses in a second, with all of them.
    pub bytes_per_s: f64,
    /// Bytes that it parses faster at the beginning, and how many of them in a second.
    #[serde(default)]
    pub burst: (f64, f64),
    /// A device's directory, in which it may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
}

/// The files of a request that a node can read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeFiles {
    /// It.
    pub node: JobNode,
    /// Those that it holds, by their places in the request: by which right, and which version.
    pub held: Vec<(usize, Holds, Generation)>,
    /// Those that lie on the backing file system, which it can read. It has not looked at them.
    pub readable: Vec<usize>,
}

/// The nodes that hold some files.
#[derive(Default, Serialize, Deserialize)]
pub struct FilesHolders {
    /// All nodes, by rank.
    pub nodes: Vec<JobNode>,
    /// Of each file, in the order of the request.
    pub files: Vec<HeldFile>,
    /// By how much this host parses more slowly than its samples say, as far as was seen.
    pub host_factor: f64,
    /// By how much its bytes come more slowly.
    pub host_read_factor: f64,
}

/// The nodes that hold one of some files.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct HeldFile {
    /// Those that have looked, by rank.
    pub holders: Vec<(u32, Holds, Generation)>,
    /// Others that can read the backing file system, where it lies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<u32>,
    /// The node whose log has most of each block, as runs, if it is in the burst tier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub homes: Vec<(u64, Option<u32>)>,
}

impl FilesHolders {
    /// Those of `count` files, as nodes say.
    #[must_use]
    pub fn of(count: usize, mut nodes: Vec<NodeFiles>) -> Self {
        nodes.sort_by_key(|files| files.node.rank);
        nodes.dedup_by_key(|files| files.node.rank);
        let mut files = vec![HeldFile::default(); count];
        for NodeFiles { node, held, readable } in &nodes {
            for (file, holds, generation) in held {
                if let Some(file) = files.get_mut(*file) {
                    file.holders.push((node.rank, *holds, *generation));
                }
            }
            for file in readable.iter().filter(|file| held.iter().all(|(other, ..)| other != *file)) {
                if let Some(file) = files.get_mut(*file) {
                    file.readers.push(node.rank);
                }
            }
        }
        Self { nodes: nodes.into_iter().map(|files| files.node).collect(), files, ..Self::default() }
    }

    /// Those of the only file.
    #[must_use]
    pub fn into_one(mut self) -> FileHolders {
        let file = self.files.pop().unwrap_or_default();
        let holder = |(rank, holds, generation): (u32, Holds, Generation)| {
            let node = self.nodes.iter().find(|node| node.rank == rank)?;
            Some(Holder::of(node, holds, generation))
        };
        let mut holders: Vec<Holder> = file.all().into_iter().filter_map(holder).collect();
        holders.sort_by_key(|holder| holder.rank);
        let (in_logs, holders) = holders.into_iter().partition(|holder| holder.holds == Holds::Burst);
        FileHolders { holders, in_logs, homes: file.homes }
    }
}

impl HeldFile {
    /// All that can read it: others can read the version that a node has found which has looked.
    #[must_use]
    pub fn all(&self) -> Vec<(u32, Holds, Generation)> {
        let of = |wanted: Holds| self.holders.iter().find(|(_, holds, _)| *holds == wanted);
        let found = of(Holds::Backing).or_else(|| of(Holds::Cache));
        let others = found
            .into_iter()
            .flat_map(|(.., version)| self.readers.iter().map(|rank| (*rank, Holds::Backing, *version)));
        self.holders.iter().copied().chain(others).collect()
    }
}

/// Files that one request for their holders is about at most (`forebay_wire::query::QUERY_FILES_MAX`).
pub const HOLDERS_FILES_MAX: usize = forebay_wire::query::QUERY_FILES_MAX;

/// The request for the nodes that hold the file at a path; answered by `FileHolders`.
#[must_use]
pub fn holders_request(path: &str, wants: QueryWants) -> Value {
    json!({"command": "holders", "path": path, "wants": wants})
}

/// The request for the nodes that hold the files at some paths, `HOLDERS_FILES_MAX` at most; answered by `FilesHolders`.
#[must_use]
pub fn files_holders_request(paths: &[String], wants: QueryWants) -> Value {
    json!({"command": "queryholders", "paths": paths, "wants": wants})
}

/// A request of one of the kinds below.
///
/// # Errors
/// A path in it is not valid UTF-8.
pub fn request(command: &str, asked: &impl Serialize) -> anyhow::Result<Value> {
    let mut request = serde_json::to_value(asked)?;
    request["command"] = json!(command);
    Ok(request)
}

/// A part as the command asks for it.
#[derive(Serialize, Deserialize, Debug)]
pub struct AskedPart {
    /// Of which node.
    pub rank: u32,
    /// The file, by its absolute path.
    pub path: String,
    /// The version, as that node has it.
    pub generation: Generation,
    /// How often each byte occurs is wanted.
    pub counts_bytes: bool,
    /// Rows are wanted.
    pub table: Option<QueryTable>,
    /// The first block.
    pub first: u64,
    /// Blocks.
    pub blocks: u32,
    /// Whether the part begins within quotes, if that is known.
    pub begins_quoted: Option<bool>,
    /// How long it may take.
    pub timeout_ms: u64,
}

/// Some blocks of a column as the command asks for them.
#[derive(Serialize, Deserialize, Debug)]
pub struct AskedColumn {
    /// Of which node.
    pub rank: u32,
    /// The file, by its absolute path.
    pub path: String,
    /// The version, as that node has it.
    pub generation: Generation,
    /// Its rows.
    pub table: QueryTable,
    /// The first block.
    pub first: u64,
    /// Blocks.
    pub blocks: u32,
    /// Whether the first begins within quotes.
    pub begins_quoted: bool,
    /// The bits of the mean.
    pub mean_bits: u64,
    /// Those of the deviation.
    pub deviation_bits: u64,
    /// The file that they go to, if they do not travel.
    pub draft: Option<AskedDraft>,
    /// How long it may take.
    pub timeout_ms: u64,
}

/// A file that a device writes.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct AskedDraft {
    /// Its absolute path.
    pub output: String,
    /// Tells it from others.
    pub number: u64,
    /// The line above the column, if any.
    pub head: String,
}

/// A stream to a node's worker of a statement, as `forebay-sql` asks for it. After the answer the connection carries its bytes.
#[derive(Serialize, Deserialize, Debug)]
pub struct AskedStream {
    /// Of which node.
    pub rank: u32,
    /// Tells the statement from others.
    pub statement: u64,
    /// Whether the worker is started, and ends with this stream.
    pub starts: bool,
}

/// A worker's end of a stream that its daemon told it of. After the answer the connection carries its bytes.
#[derive(Serialize, Deserialize, Debug)]
pub struct AskedJoin {
    /// The statement that it is the worker of.
    pub statement: u64,
    /// The stream.
    pub stream: u64,
}

/// Files that a worker reads, in the versions that are meant. Answered by the path of each on this node.
#[derive(Serialize, Deserialize, Debug)]
pub struct AskedPlaces {
    /// The files.
    pub files: Vec<AskedFile>,
}

/// Files of `AskedPlaces`, so that a request fits a line.
pub const PLACES_FILES_MAX: usize = 32;

/// A version of a file, as every node sees it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct AskedFile {
    /// Its absolute path.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// When it was modified, seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
}

/// Bytes of a node's answer as text, in hexadecimal.
pub fn text_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes that a text stands for.
pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digit = |at: u8| char::from(at).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?) as u8);
    text.as_bytes().chunks(2).map(byte).collect()
}
