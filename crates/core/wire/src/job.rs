//! Messages about the job itself, carried over its first tree: who is there, what it does, when it ends.

use forebay_types::{ChunkIndex, Epoch, Extent, Generation, ViewPath, limits};
use serde::{Deserialize, Serialize};

use crate::query::{QUERY_FILES_MAX, QueryWants};
use crate::report::Report;

/// A node's message to another about the job.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum JobMessage {
    /// Whether this node is there; answered at once, whatever else is under way. Answer: `Alive`.
    Ping,
    /// The state of this node and, recursively, of its children. Answer: `Text`, a JSON array of node objects.
    Status,
    /// Ends this node's daemon after its children's. Answer: `Text`, a JSON array of the ranks that ended.
    Shutdown,
    /// Where an answer for `path` would come from, node by node to the root. Answer: `Text`, a JSON array.
    Explain {
        /// The path.
        path: ViewPath,
    },
    /// Carried to the root and back with a body of that many bytes: measures the overlay. Answer: `Body`.
    Probe {
        /// Bytes of body in the answer, `PROBE_BYTES_MAX` at most.
        payload_bytes: u32,
    },
    /// The asked node is to lead a refresh. Answer: `Text`, a JSON array with its outcome.
    LeadRefresh {
        /// Paths to refresh, `limits::REFRESH_PATHS_MAX` at most.
        paths: Vec<ViewPath>,
    },
    /// One step of a refresh, for this node and, recursively, its children. Answer: `Text`, a JSON array of the ranks
    /// that took it.
    Refresh {
        /// The refresh.
        epoch: Epoch,
        /// Which step.
        step: RefreshStep,
        /// Paths to refresh, `limits::REFRESH_PATHS_MAX` at most.
        paths: Vec<ViewPath>,
    },
    /// While the job starts: who is ready of the asking node and those below it. Answer: `Noted`; one that says that all
    /// are ready is answered when the job is up, or after a while.
    Report {
        /// The ready and the missing nodes.
        report: Report,
    },
    /// The recording of the asked node's programs at their start, or that of the first node below it that has one.
    /// Answer: `Body`; body: the uses (see `recording`). `ENODATA` where no program has used any file.
    Recording,
    /// Which nodes, of this one and those below it, can read files that a query is about. Answer: `Text`, a JSON array.
    Holders {
        /// The files, `QUERY_FILES_MAX` at most.
        files: Vec<ViewPath>,
        /// The values that the query collects.
        wants: QueryWants,
    },
    /// The asked node reads chunks of a file and keeps them, as the node that others ask for them. Answer: `Text`, an empty JSON array.
    Keep {
        /// The file.
        file: ViewPath,
        /// Its version.
        generation: Generation,
        /// The first chunk.
        first: ChunkIndex,
        /// How many, `KEEP_CHUNKS_MAX` at most.
        count: u32,
    },
    /// The kernel of the asked node reads bytes of a file. Answer: `Text`, an empty JSON array.
    ReadFile {
        /// The file.
        file: ViewPath,
        /// The bytes.
        extent: Extent,
    },
}

/// Chunks that a node is asked to keep at once.
pub const KEEP_CHUNKS_MAX: u32 = 64;

/// The steps of a refresh; each is taken by all nodes before the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RefreshStep {
    /// The kernel is told to forget, and what it is told from now on holds for this one answer.
    Quiet,
    /// Each node forgets its names, and requests for them wait.
    Hold,
    /// The names are fetched anew.
    Release,
}

/// Largest probe, bytes.
pub const PROBE_BYTES_MAX: u32 = 4 << 20;

impl JobMessage {
    /// A short word for logs and counters.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Status => "status",
            Self::Shutdown => "shutdown",
            Self::Explain { .. } => "explain",
            Self::Probe { .. } => "probe",
            Self::LeadRefresh { .. } => "lead-refresh",
            Self::Refresh { .. } => "refresh",
            Self::Report { .. } => "report",
            Self::Recording => "recording",
            Self::Holders { .. } => "holders",
            Self::Keep { .. } => "keep",
            Self::ReadFile { .. } => "read-file",
        }
    }

    pub(crate) fn is_within_limits(&self) -> bool {
        match self {
            Self::Probe { payload_bytes } => *payload_bytes <= PROBE_BYTES_MAX,
            Self::LeadRefresh { paths } | Self::Refresh { paths, .. } => {
                (1..=limits::REFRESH_PATHS_MAX).contains(&paths.len())
            }
            Self::Report { report } => report.is_within_limits(),
            Self::Holders { files, .. } => (1..=QUERY_FILES_MAX).contains(&files.len()),
            Self::Keep { count, .. } => (1..=KEEP_CHUNKS_MAX).contains(count),
            _ => true,
        }
    }
}
