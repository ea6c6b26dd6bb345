//! The waiters of a request of the read path.

use forebay_cache::Key;
use forebay_dispatch::{Dispatch, Finished};
use forebay_types::{Name, NodeRank, Referral, ViewPath};
use forebay_wire::ReadMessage;

use crate::effect::{KernelTicket, PeerTicket};
use crate::inode_id::InodeId;
use crate::names::Known;
use crate::routing::ReadRouting;

/// A kernel request that is parked, or about to be answered; but for reads, which have their own state (`Reads`).
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Lookup { dir: ViewPath, name: Name },
    Attributes { inode: InodeId },
    Readlink { inode: InodeId },
    Directory { dir: ViewPath },
    FileSystem,
}

impl Operation {
    pub fn can_go_by_name(&self) -> bool {
        !matches!(self, Self::Directory { .. } | Self::FileSystem)
    }
}

/// A receiver of a request's answer.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    Kernel {
        ticket: KernelTicket,
        operation: Operation,
        known: Known,
    },
    /// One part of a read.
    ReadPart {
        ticket: KernelTicket,
        slot: usize,
    },
    Peer(Asker),
    /// One file of a peer's bundle.
    BundleFile {
        ticket: PeerTicket,
        slot: usize,
    },
    /// This node itself, for a parcel.
    Prefill(u32),
}

/// A node that asks this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asker {
    pub ticket: PeerTicket,
    pub rank: NodeRank,
    /// Whether it may be told of another node instead.
    pub referral: Referral,
}

/// By whom a waiter is found again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Reader {
    Kernel(KernelTicket),
    Peer(PeerTicket),
}

impl forebay_dispatch::Waiter for Waiter {
    type Id = Reader;

    fn id(&self) -> Option<Reader> {
        match self {
            Self::Kernel { ticket, .. } | Self::ReadPart { ticket, .. } => Some(Reader::Kernel(*ticket)),
            Self::Peer(Asker { ticket, .. }) | Self::BundleFile { ticket, .. } => Some(Reader::Peer(*ticket)),
            Self::Prefill(_) => None,
        }
    }
}

/// Requests of the read path.
pub(crate) type ReadDispatch = Dispatch<Key, ReadMessage, Waiter, ReadRouting>;

/// A request of the read path that has ended.
pub(crate) type ReadFinished = Finished<Key, Waiter>;
