//! The messages: how a connection begins, what a node asks its parent, what it is told.
//!
//! Paths travel with every request, so that any node can answer any request without a table of its own: a daemon may
//! be restarted, and a request may be sent to another parent, without anything to agree on first.

use forebay_types::{Attributes, ChunkIndex, Errno, FileSystem, Generation, Name, NodeRank, Urgency, ViewPath, limits};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ListingVersion;
use crate::report::{Missing, Report};

/// Version of the protocol; daemons of one job are of one build, so any difference is refused.
pub const PROTOCOL_VERSION: u16 = 3;

/// First bytes of a `Greeting`: tells another program's connection from a daemon's.
pub const MAGIC: [u8; 8] = *b"forebay\x01";

/// What is wrong with bytes that a peer sent. The connection they came on is closed; no state changed.
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
    /// No key: whoever reaches the port and knows the job's name is let in.
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

/// What each side says first on a connection: nothing about the job, and what makes this connection's keys unlike any
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

/// What each side says next: who it is and whom it means. Encrypted unless the level is `Off`; that it can be decrypted
/// is the proof that the speaker holds the key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Which job; connections of another are refused.
    pub job: String,
    /// Who speaks.
    pub from: NodeRank,
    /// To whom, as far as the speaker knows.
    pub to: NodeRank,
    /// What the connection is for.
    pub class: Class,
    /// Ties a control and a bulk connection of one peer together.
    pub session: u64,
}

/// What a node asks its parent, or the node that stands in for it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Request {
    /// The complete listing of a directory. Answer: `Listing`; body: the encoded listing.
    Listing {
        /// The directory.
        dir: ViewPath,
        /// Up to which refresh the asking node has forgotten (see `Request::Refresh`).
        epoch: u64,
    },
    /// The attributes of one page of a listing that came without them. Answer: `Entries`, one a name.
    Page {
        /// The directory.
        dir: ViewPath,
        /// Which listing: pages of different ones must not be taken for each other.
        listing: ListingVersion,
        /// Number of the page in the listing.
        page: u32,
        /// The names of the page, `limits::ATTRIBUTES_PAGE_NAMES` at most.
        names: Vec<Name>,
        /// As of `Listing`.
        epoch: u64,
    },
    /// One name in a directory that cannot be listed. Answer: `Entries` with one record.
    Lookup {
        /// The directory.
        dir: ViewPath,
        /// The name.
        name: Name,
        /// As of `Listing`.
        epoch: u64,
    },
    /// One chunk of a file. Answer: `Body`; body: the bytes. `ESTALE` when the file is no longer that generation.
    Chunk {
        /// The file.
        file: ViewPath,
        /// The version wanted.
        generation: Generation,
        /// Which chunk.
        index: ChunkIndex,
    },
    /// Small files of one directory, whole, one after the other. Answer: `Body`; body: their bytes. Any error means that
    /// they are to be asked for one by one.
    Bundle {
        /// The directory.
        dir: ViewPath,
        /// The generation of its listing: places in different listings must not be taken for each other.
        generation: Generation,
        /// The first file's place in the listing.
        first: u32,
        /// The files with the versions wanted, within `limits::BUNDLE_*`.
        files: Vec<(Name, Generation)>,
    },
    /// Sizes of the file system that holds `path`. Answer: `FileSystem`.
    FileSystem {
        /// A path on it.
        path: ViewPath,
    },
    /// Carried to the root and back with a body of that many bytes: measures the overlay. Answer: `Body`.
    Probe {
        /// Bytes of body in the answer, 4 MiB at most.
        payload_bytes: u32,
    },
    /// Where an answer for `path` would come from, node by node to the root. Answer: `Text`, a JSON array.
    Explain {
        /// The path.
        path: ViewPath,
    },
    /// The state of this node and, recursively, of its children. Answer: `Text`, a JSON array of node objects.
    Status,
    /// Ends this node's daemon after its children's. Answer: `Text`, a JSON array of the ranks that ended.
    Shutdown,
    /// Whether this node is there; answered at once, whatever else is under way. Answer: `Alive`.
    Ping {
        /// As of `Listing`.
        epoch: u64,
    },
    /// One step of a refresh, for this node and, recursively, its children. Answer: `Text`, a JSON array of the ranks
    /// that took it.
    Refresh {
        /// Number of the refresh, one more than that of the last.
        epoch: u64,
        /// Which step.
        step: RefreshStep,
        /// What is refreshed, `limits::REFRESH_PATHS_MAX` at most.
        paths: Vec<ViewPath>,
    },
    /// A file has turned out to be no longer of this generation: whoever is asked forgets what says so, after all who are
    /// asked in turn have. Answer: `Entries` with one record.
    Recheck {
        /// The file.
        file: ViewPath,
        /// The version that it is not any more.
        generation: Generation,
        /// As of `Listing`.
        epoch: u64,
    },
    /// A part of the start-up's contents (see `parcel`). Answer: `Body`; `ENODATA` where there are no more.
    Parcel {
        /// Its number, from 0.
        index: u32,
        /// As of `Listing`.
        epoch: u64,
    },
    /// While the job starts: who is ready of the asking node and those below it. Answer: `Noted`; one that says that all
    /// are ready is answered when the job is up, or after a while.
    Report {
        /// Who is.
        report: Report,
    },
    /// What programs of the asked node have used while they started, or those of the first node below it that has
    /// something. Answer: `Body`; body: the uses (see `recording`). `ENODATA` where nothing was used.
    Recording,
}

/// The steps of a refresh; each is taken by all nodes before the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RefreshStep {
    /// The kernel is told to forget, and what it is told from now on holds for this one answer.
    Quiet,
    /// What is known is forgotten, and who asks for it waits.
    Hold,
    /// It is asked for anew.
    Release,
}

impl Request {
    /// The same request, asked by a node that has forgotten up to this refresh.
    #[must_use]
    pub fn in_epoch(mut self, now: u64) -> Self {
        match &mut self {
            Self::Listing { epoch, .. }
            | Self::Page { epoch, .. }
            | Self::Lookup { epoch, .. }
            | Self::Parcel { epoch, .. }
            | Self::Recheck { epoch, .. }
            | Self::Ping { epoch } => {
                *epoch = now;
            }
            _ => {}
        }
        self
    }

    /// Up to which refresh the asking node has forgotten; `None` where it does not matter, because the request names
    /// the version of what it asks for.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Self::Listing { epoch, .. }
            | Self::Page { epoch, .. }
            | Self::Lookup { epoch, .. }
            | Self::Parcel { epoch, .. }
            | Self::Recheck { epoch, .. }
            | Self::Ping { epoch } => Some(*epoch),
            _ => None,
        }
    }

    /// A short word for logs and counters.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Listing { .. } => "listing",
            Self::Page { .. } => "page",
            Self::Lookup { .. } => "lookup",
            Self::Chunk { .. } => "chunk",
            Self::Bundle { .. } => "bundle",
            Self::Parcel { .. } => "parcel",
            Self::FileSystem { .. } => "file-system",
            Self::Probe { .. } => "probe",
            Self::Explain { .. } => "explain",
            Self::Status => "status",
            Self::Shutdown => "shutdown",
            Self::Ping { .. } => "ping",
            Self::Refresh { .. } => "refresh",
            Self::Recheck { .. } => "recheck",
            Self::Report { .. } => "report",
            Self::Recording => "recording",
        }
    }
}

/// One name's attributes, asked for on their own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryRecord {
    /// Its attributes.
    pub attributes: Attributes,
    /// A symbolic link's target; empty for anything else.
    pub target: Vec<u8>,
}

/// What an answer says, beside its body.
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
        epoch: u64,
    },
    /// The asking node has not heard of a refresh, and is told nothing before it has.
    Fenced {
        /// Up to which refresh the answering node has forgotten.
        epoch: u64,
    },
    /// The report has arrived.
    Noted {
        /// The nodes without which the job is up, `limits::REPORT_MISSING_MAX` at most; `None` while it starts.
        settled: Option<Vec<Missing>>,
    },
}

/// An answer's message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// What it says.
    pub outcome: Outcome,
    /// Bytes of body in all, over as many frames as it takes.
    pub body_bytes: u32,
}

/// A request with the time it may still take, and who waits for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TimedRequest {
    /// Milliseconds the asking node still waits; clocks of nodes need not agree.
    pub remaining_ms: u32,
    /// What goes first where there are turns. A `Promote` of its stream may raise it.
    pub urgency: Urgency,
    /// What is asked.
    pub request: Request,
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

/// Largest probe, bytes.
pub const PROBE_BYTES_MAX: u32 = 4 << 20;

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

impl Checked for TimedRequest {
    fn is_within_limits(&self) -> bool {
        match &self.request {
            Request::Page { names, .. } => (1..=limits::ATTRIBUTES_PAGE_NAMES).contains(&names.len()),
            Request::Bundle { files, .. } => is_bundle_within_limits(files),
            Request::Parcel { index, .. } => *index < limits::PARCELS_MAX,
            Request::Probe { payload_bytes } => *payload_bytes <= PROBE_BYTES_MAX,
            Request::Refresh { paths, .. } => (1..=limits::REFRESH_PATHS_MAX).contains(&paths.len()),
            Request::Report { report } => report.is_within_limits(),
            _ => true,
        }
    }
}

fn is_bundle_within_limits(files: &[(Name, Generation)]) -> bool {
    let sizes = || files.iter().map(|(_, generation)| generation.size_bytes);
    (1..=limits::BUNDLE_FILES_MAX).contains(&files.len())
        && sizes().all(|bytes| (1..=limits::BUNDLE_FILE_BYTES_MAX).contains(&bytes))
        && sizes().sum::<u64>() <= limits::BUNDLE_BYTES_MAX
}

impl Checked for Answer {
    fn is_within_limits(&self) -> bool {
        let named = match &self.outcome {
            Outcome::Noted { settled: Some(missing) } => missing.len(),
            _ => 0,
        };
        self.body_bytes as usize <= limits::LISTING_BYTES_MAX && named <= limits::REPORT_MISSING_MAX
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_comes_back_as_it_was_sent() {
        let request = TimedRequest {
            remaining_ms: 30_000,
            urgency: Urgency::Ahead,
            request: Request::Chunk {
                file: ViewPath::new(b"a/\xff\n").unwrap(),
                generation: Generation::default(),
                index: ChunkIndex(7),
            },
        };
        assert_eq!(decode::<TimedRequest>(&encode(&request)), Ok(request));
    }

    #[test]
    fn a_path_that_leads_outside_is_refused_in_decoding() {
        let good = encode(&Request::Listing { dir: ViewPath::new(b"aa/b").unwrap(), epoch: 0 });
        let at = good.windows(4).position(|window| window == b"aa/b").unwrap();
        let mut bad = encode(&(9u32, Urgency::Demand));
        bad.extend_from_slice(&good);
        assert!(decode::<TimedRequest>(&bad).is_ok());
        let at = at + 1;
        bad[at..at + 4].copy_from_slice(b"../b");
        assert_eq!(decode::<TimedRequest>(&bad), Err(WireError::Message));
    }

    /// One that has hardly any time left.
    fn timed(request: Request) -> TimedRequest {
        TimedRequest { remaining_ms: 1, urgency: Urgency::Demand, request }
    }

    #[test]
    fn bytes_left_over_are_refused() {
        let mut bytes = encode(&timed(Request::Status));
        bytes.push(0);
        assert_eq!(decode::<TimedRequest>(&bytes), Err(WireError::Message));
    }

    #[test]
    fn a_page_with_the_longest_names_fits_a_frame() {
        let page = Request::Page {
            dir: ViewPath::new(["a"; 2048].join("/").as_bytes()).unwrap(),
            listing: ListingVersion { names_hash: u64::MAX, ..ListingVersion::default() },
            page: u32::MAX,
            names: vec![Name::new(&[0xff; limits::NAME_BYTES_MAX]).unwrap(); limits::ATTRIBUTES_PAGE_NAMES],
            epoch: u64::MAX,
        };
        assert!(encode(&TimedRequest { remaining_ms: u32::MAX, ..timed(page) }).len() <= limits::HEAD_BYTES_MAX);
    }

    #[test]
    fn a_bundle_keeps_to_its_limits() {
        let file = |size_bytes| (Name::new(b"a").unwrap(), Generation { size_bytes, ..Generation::default() });
        let bundle = |files: Vec<(Name, Generation)>| {
            let request = Request::Bundle { dir: ViewPath::root(), generation: Generation::default(), first: 0, files };
            decode::<TimedRequest>(&encode(&timed(request)))
        };
        assert!(bundle(vec![file(1); limits::BUNDLE_FILES_MAX]).is_ok());
        assert!(bundle(vec![file(limits::BUNDLE_FILE_BYTES_MAX); 4]).is_ok());
        let bad = [
            vec![],
            vec![file(0)],
            vec![file(limits::BUNDLE_FILE_BYTES_MAX + 1)],
            vec![file(limits::BUNDLE_FILE_BYTES_MAX); 5],
            vec![file(1); limits::BUNDLE_FILES_MAX + 1],
        ];
        for files in bad {
            assert_eq!(bundle(files), Err(WireError::Message));
        }
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode::<Greeting>(&bytes);
            let _ = decode::<Hello>(&bytes);
            let _ = decode::<TimedRequest>(&bytes);
            let _ = decode::<Answer>(&bytes);
        }
    }
}
