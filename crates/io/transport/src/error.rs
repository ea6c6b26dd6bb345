//! Errors between two nodes, and the error numbers that a program gets that waits for the answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use forebay_types::{Errno, NodeRank};
use forebay_wire::message::PROTOCOL_VERSION;
use forebay_wire::{Level, WireError};
use thiserror::Error;

/// Why a call brought no answer. The peer may or may not have handled the request, except where it says otherwise; all
/// requests may be asked again.
#[derive(Clone, Debug, Error)]
pub enum CallError {
    /// No connection came about. The request was not sent.
    #[error("node {to} cannot be reached at {address}")]
    Unreachable {
        /// The node that was asked.
        to: NodeRank,
        /// Where it was looked for.
        address: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The listener there did not shake hands as a daemon of this job. The request was not sent.
    #[error("no connection to node {to} at {address}")]
    Refused {
        /// The node that was asked.
        to: NodeRank,
        /// Where it was looked for.
        address: String,
        /// The reason why the listener is not accepted.
        source: Arc<Refusal>,
    },
    /// No answer came in time; the peer was told that none is wanted any more.
    #[error("node {to} did not answer within {:?}", in_ms(*.after))]
    TimedOut {
        /// The node that was asked.
        to: NodeRank,
        /// The deadline of the call.
        after: Duration,
    },
    /// The connection ended before the answer.
    #[error("the connection to node {to} was lost")]
    ConnectionLost {
        /// The node that was asked.
        to: NodeRank,
    },
    /// The peer sent what cannot be; the connection was closed.
    #[error("node {to} sent corrupt bytes")]
    Corrupt {
        /// The node that was asked.
        to: NodeRank,
        /// The error in them.
        source: WireError,
    },
    /// Bytes of the answer came without the checksum they were sent with: a fault of a network or a memory on the way.
    /// The connection goes on; another node, or the same one, may be asked.
    #[error("the answer of node {to} has a wrong checksum")]
    BadChecksum {
        /// The node that was asked.
        to: NodeRank,
    },
    /// This endpoint was shut down.
    #[error("this node is shutting down")]
    ShutDown,
}

/// Deadlines that differ by nanoseconds are one text: a warning that is repeated is told once.
fn in_ms(time: Duration) -> Duration {
    Duration::from_millis((time.as_micros().div_ceil(1000)) as u64)
}

impl CallError {
    /// The error number that a program gets that waits for the answer.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Unreachable { .. } => Errno::EHOSTUNREACH,
            Self::Refused { .. } | Self::Corrupt { .. } => Errno::EPROTO,
            Self::TimedOut { .. } => Errno::ETIMEDOUT,
            Self::ConnectionLost { .. } => Errno::ECONNRESET,
            Self::BadChecksum { .. } => Errno::EBADMSG,
            Self::ShutDown => Errno::ECANCELED,
        }
    }
}

/// Why a handshake failed, seen from either side.
#[derive(Debug, Error)]
pub enum Refusal {
    /// It does not begin as a daemon does.
    #[error("it is not a Forebay daemon")]
    NoDaemon,
    /// Another protocol version.
    #[error("it speaks version {theirs} of the protocol, this daemon {PROTOCOL_VERSION}: use one build on all nodes")]
    Version {
        /// The version it speaks.
        theirs: u16,
    },
    /// Another level: it asks for less or for more than this job's.
    #[error("it speaks with --security {}, this job with {}", theirs.word(), ours.word())]
    Level {
        /// Its level.
        theirs: Level,
        /// This job's.
        ours: Level,
    },
    /// It did not prove that it holds the key: another job's daemon, another user, or somebody who repeats what was said
    /// on another connection or passes on what was meant for another port.
    #[error("it does not hold this job's key")]
    Key,
    /// Another job's daemon.
    #[error("it belongs to job {theirs:?}, not to {ours:?}")]
    Job {
        /// Its job.
        theirs: String,
        /// This job.
        ours: String,
    },
    /// A node of the job, but not the one meant, or a rank the job does not have.
    #[error("it is node {from} and expects node {to} here: the nodes' lists differ")]
    Rank {
        /// The rank that it claims.
        from: NodeRank,
        /// Whom it takes this node for.
        to: NodeRank,
    },
    /// It answered for another connection than the one it was asked on.
    #[error("it answered for another connection")]
    Session,
    /// It closed the connection without a word.
    #[error("it closed the connection during the handshake: another job may use the port, or its log tells why")]
    Closed,
    /// It did not finish in time.
    #[error("it did not shake hands within {0:?}")]
    Late(Duration),
    /// Others from its source came after it, more than are heard at once.
    #[error("too many connections came from its address or network at once")]
    Crowded,
    /// The connection failed.
    #[error("the connection failed during the handshake")]
    Io(#[from] io::Error),
}
