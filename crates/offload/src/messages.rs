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
    /// It reads the backing file system for others.
    Root,
}

impl Holder {
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
    /// By how much this host parses more slowly than its samples say, as far as was seen.
    pub host_factor: f64,
    /// By how much its bytes come more slowly.
    pub host_read_factor: f64,
}

/// The request for the nodes that hold the file at a path; answered by `FileHolders`.
#[must_use]
pub fn holders_request(path: &str, wants: QueryWants) -> Value {
    json!({"command": "holders", "path": path, "wants": wants})
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
