//! How a connection begins, what an answer says, and how any message is encoded. Requests stand in `request`, what they
//! ask in a module for each path.

use forebay_types::{Attributes, Epoch, Errno, FileSystem, NodeRank, limits};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::report::Missing;

/// Version of the protocol; daemons of one job are of one build, so any difference is refused.
pub const PROTOCOL_VERSION: u16 = 16;

/// First bytes of a `Greeting`: tells another program's connection from a daemon's.
pub const MAGIC: [u8; 8] = *b"forebay\x01";

/// The defect of bytes that a peer sent. The connection they came on is closed; no state changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum WireError {
    /// A frame's fixed head.
    #[error("corrupt frame: {0}")]
    Frame(&'static str),
    /// A frame whose tag is not that of this place on this connection.
    #[error("a frame that was altered, repeated, left out or made up")]
    Forged,
    /// A message within a frame.
    #[error("corrupt message")]
    Message,
    /// A directory listing.
    #[error("corrupt listing: {0}")]
    Listing(&'static str),
}

/// Which of a peer's two connections: a small message must not wait behind bodies (measured: 15 to 18 ms behind four
/// bodies of 4 MiB on one connection, 0.1 ms on a second).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Class {
    /// Requests, credit, cancellation, small answers.
    Control,
    /// Answers with bodies above one frame.
    Bulk,
}

/// How the daemons of a job protect their connections. All have the same level: a connection whose sides differ is
/// refused, so that nobody can talk a node into less.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Level {
    /// No key: a peer that reaches the port and knows the job's name is let in.
    Off,
    /// Both sides prove that they hold the job's key; heads and messages are authenticated, bodies are not.
    Auth,
    /// As `Auth`, and everything after the first frame but the frames' heads is encrypted.
    Seal,
}

impl Level {
    /// Its name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auth => "auth",
            Self::Seal => "seal",
        }
    }
}

/// Bytes of the random number in a `Greeting`.
pub const NONCE_BYTES: usize = 32;

/// Each side's first message on a connection. It names no job, and makes this connection's keys unlike any
/// other's. The magic and the version stay first in every version of the protocol.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// `MAGIC`.
    pub magic: [u8; 8],
    /// `PROTOCOL_VERSION`.
    pub version: u16,
    /// How the speaker protects its connections.
    pub level: Level,
    /// A random number, new for each connection.
    pub nonce: [u8; NONCE_BYTES],
}

/// Each side's second message: its own rank and the peer's. It is encrypted unless the level is `Off`. If it can be decrypted,
/// the speaker holds the key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Which job; connections of another are refused.
    pub job: String,
    /// The speaker.
    pub from: NodeRank,
    /// To whom, as far as the speaker knows.
    pub to: NodeRank,
    /// The purpose of the connection.
    pub class: Class,
    /// Ties a control and a bulk connection of one peer together.
    pub session: u64,
}

/// One name's attributes, asked for on their own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryRecord {
    /// Its attributes.
    pub attributes: Attributes,
    /// A symbolic link's target; empty for anything else.
    pub target: Vec<u8>,
}

/// An answer's result, beside its body.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The body is an encoded listing.
    Listing,
    /// The body is the bytes asked for.
    Body,
    /// The body is a record for each name asked for (`encode_entries`): long link targets do not fit a message.
    Entries,
    /// Sizes of a file system.
    FileSystem(FileSystem),
    /// JSON, in the body.
    Text,
    /// It failed, by this error of the backing file system or of the way there.
    Failed(Errno),
    /// The node is there.
    Alive {
        /// Up to which refresh it has forgotten.
        epoch: Epoch,
    },
    /// The asking node has not heard of a refresh, and is told nothing before it has.
    Fenced {
        /// Up to which refresh the answering node has forgotten.
        epoch: Epoch,
    },
    /// The report has arrived.
    Noted {
        /// The nodes without which the job is up, `limits::REPORT_MISSING_MAX` at most; `None` while it starts.
        settled: Option<Vec<Missing>>,
    },
    /// The result of each file of a bundle: an error, or its bytes are in the body.
    Bundle(Vec<Option<Errno>>),
    /// Another node has the bytes, or is getting them. `None`: this node, which was named by another, has none of them.
    Referred(Option<NodeRank>),
}

/// An answer's message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The result.
    pub outcome: Outcome,
    /// Bytes of body in all, over as many frames as it takes.
    pub body_bytes: u32,
}

/// Encodes any message.
#[must_use]
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // Messages are plain enums and vectors, for which postcard into a growing vector has no failing case.
    postcard::to_stdvec(message).expect("encoding into memory cannot fail")
}

/// Decodes any message and refuses bytes left over.
///
/// # Errors
/// `WireError::Message` when the bytes are not exactly one message, or break a limit.
pub fn decode<'a, T: Deserialize<'a> + Checked>(bytes: &'a [u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes::<T>(bytes) {
        Ok((message, [])) if message.is_within_limits() => Ok(message),
        _ => Err(WireError::Message),
    }
}

/// Encodes the body of an `Outcome::Entries`.
#[must_use]
pub fn encode_entries(records: &[Option<EntryRecord>]) -> Vec<u8> {
    encode(&records)
}

/// Decodes the body of an `Outcome::Entries`: a record for each name asked for, `None` for one that does not exist.
///
/// # Errors
/// `WireError::Message` when the bytes are not exactly such records, or break a limit.
pub fn decode_entries(bytes: &[u8]) -> Result<Vec<Option<EntryRecord>>, WireError> {
    decode(bytes)
}

/// A message that knows its limits beyond what its types say.
pub trait Checked {
    /// Whether every count is within `limits`.
    fn is_within_limits(&self) -> bool;
}

/// Longest job name, bytes.
pub const JOB_BYTES_MAX: usize = 128;

impl Checked for Greeting {
    fn is_within_limits(&self) -> bool {
        true
    }
}

impl Checked for Hello {
    fn is_within_limits(&self) -> bool {
        self.job.len() <= JOB_BYTES_MAX
    }
}

impl Checked for Answer {
    fn is_within_limits(&self) -> bool {
        let is_outcome_within = match &self.outcome {
            Outcome::Noted { settled: Some(missing) } => missing.len() <= limits::REPORT_MISSING_MAX,
            Outcome::Bundle(files) => files.len() <= limits::BUNDLE_FILES_MAX,
            _ => true,
        };
        self.body_bytes as usize <= limits::LISTING_BYTES_MAX && is_outcome_within
    }
}

impl Checked for Vec<Option<EntryRecord>> {
    fn is_within_limits(&self) -> bool {
        self.len() <= limits::ATTRIBUTES_PAGE_NAMES
            && self.iter().flatten().all(|record| record.target.len() <= limits::TARGET_BYTES_MAX)
    }
}

impl Checked for Errno {
    fn is_within_limits(&self) -> bool {
        true
    }
}
