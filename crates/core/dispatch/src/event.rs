//! The inputs and outputs of the dispatch.

use std::time::Duration;

use forebay_types::{Epoch, Errno, NodeRank, Priority, Referral, Time};

use crate::ids::{AttemptId, HoldId, RequestId};
use crate::routing::Source;
use crate::table::Waiting;

/// A demand, beside the key and the message.
#[derive(Clone, Debug)]
pub struct Wanted<W> {
    /// Its priority at the backing file system.
    pub priority: Priority,
    /// Until when, for the waiter or, without one, for the request.
    pub deadline: Time,
    /// The waiter; none for a prefetch.
    pub waiter: Option<W>,
    /// The holds of the request if it is new.
    pub holds: Vec<HoldId>,
    /// Whether the request, if it is new, is asked of no node: the one that wants it found those slow.
    pub is_alone: bool,
}

/// Whether a request is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// It is new.
    First(RequestId),
    /// It was under way.
    Coalesced(RequestId),
}

/// A request that has ended, with those who waited for it.
#[derive(Debug)]
pub struct Finished<K, W> {
    /// Its number.
    pub request: RequestId,
    /// The key that was requested.
    pub key: K,
    /// The waiters, in the order they came.
    pub waiters: Vec<Waiting<W>>,
}

/// Why a request ended without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Its time is over.
    TimedOut,
    /// Its time is over, and there was nobody to ask.
    CutOff,
    /// No node is left to ask, and nothing else is of use.
    NoSource,
    /// The backing file system's answer was lost, and there is nobody behind it.
    BackingLost,
}

impl Failure {
    /// The error for the waiters.
    #[must_use]
    pub fn errno(self) -> Errno {
        match self {
            Self::TimedOut => Errno::ETIMEDOUT,
            Self::CutOff => Errno::EHOSTUNREACH,
            Self::NoSource | Self::BackingLost => Errno::EIO,
        }
    }
}

/// A step for the driver, or for the path that owns the requests.
#[derive(Debug)]
pub enum Event<K, M, W> {
    /// Ask `source`; bring the answer back before `deadline`.
    Ask {
        /// The attempt.
        attempt: AttemptId,
        /// Whom to ask.
        source: Source,
        /// The message.
        message: M,
        /// Its priority at the backing file system; another node is told.
        priority: Priority,
        /// Whether a node that is asked may name another one.
        referral: Referral,
        /// Up to which refresh this node has forgotten.
        epoch: Epoch,
        /// When the answer is of no use any more.
        deadline: Time,
    },
    /// A program waits now for what was asked ahead of any.
    Promote {
        /// The attempt.
        attempt: AttemptId,
        /// The source of the attempt.
        source: Source,
    },
    /// This attempt's answer is not wanted any more; a body that it was filling ends by `Errno::WAY_LOST`.
    Cancel {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Ask a node whether it is there; report `pinged` before `deadline`.
    Ping {
        /// Whom to ask.
        peer: NodeRank,
        /// Up to which refresh this node has forgotten.
        epoch: Epoch,
        /// When it counts as lost.
        deadline: Time,
    },
    /// The time of these is over; others still wait for their request.
    Late {
        /// The waiters.
        waiters: Vec<W>,
        /// Why there was no answer.
        why: Failure,
    },
    /// A request ended without an answer.
    Failed {
        /// The request.
        finished: Finished<K, W>,
        /// Why.
        why: Failure,
    },
    /// A body that was arriving will never be whole: its sender is lost, or left alone because it is slow.
    BodyLost {
        /// The request that it was the answer to.
        request: RequestId,
    },
    /// A node takes far longer than others for what they all are asked: others are asked in its place.
    LeftAlone {
        /// The node.
        peer: NodeRank,
        /// For how long.
        time: Duration,
    },
}

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Attempts at peers.
    pub asked_peers: u64,
    /// Attempts at the backing file system.
    pub asked_backing: u64,
    /// Requests asked ahead that a program came to wait for while they were under way.
    pub promoted: u64,
    /// Waits that joined a request under way.
    pub coalesced: u64,
    /// Times that a request was given up at a deadline.
    pub timed_out: u64,
    /// Attempts made again elsewhere, because a source could not be reached.
    pub failovers: u64,
    /// Requests asked of a second node, because the first was slow.
    pub hedged: u64,
    /// Attempts at nodes that others have named.
    pub referred: u64,
}
