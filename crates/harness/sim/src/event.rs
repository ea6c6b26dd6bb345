//! What happens in a job, and at which node.

use std::sync::Arc;

use forebay_node::Answered;
use forebay_types::{Epoch, Errno, Priority};
use forebay_wire::{ReadMessage, RefreshStep, Request};

use crate::NodeIndex;
use crate::body::{Handle, Piece, State};
use crate::faults::Fault;
use crate::tables::Caller;

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A program begins.
    Start(usize),
    /// Something goes wrong, or is mended.
    Fault(Fault),
    /// A node is asked, by as many attempts as travel together.
    Ask { to: NodeIndex, from: Vec<Caller>, request: Request<ReadMessage> },
    /// The backing file system is asked.
    Backing { by: Caller, request: ReadMessage, priority: Priority },
    /// An answer arrives.
    Answer { to: Vec<Caller>, answered: Answered },
    /// What became of the files of a bundle arrives.
    Bundle { to: Vec<Caller>, files: Vec<Result<Arc<[Piece]>, Errno>> },
    /// The head of an answer with a body arrives.
    BodyStart { to: Caller, handle: Handle },
    /// The last byte of a body arrives, or it becomes clear that it will not.
    BodyEnd { body: usize, state: State },
    /// Nobody wants an answer any more.
    PeerCancel { to: NodeIndex, from: Caller },
    /// A program waits for an answer that was asked for ahead.
    PeerPromote { to: NodeIndex, from: Caller },
    /// A node is asked whether it is there.
    Ping { to: NodeIndex, from: NodeIndex, life: u32, number: u64, epoch: Epoch },
    /// It says so, or the time for it is over.
    Pong { to: NodeIndex, life: u32, peer: NodeIndex, number: u64, alive_in: Option<Epoch> },
    /// A node takes a whole parcel apart.
    OpenParcel { at: NodeIndex, life: u32, index: u32, body: Handle },
    /// A read whose bytes got lost is asked for again.
    ReadAgain { program: usize, request: u32 },
    /// The shell answers a request that nobody answered.
    TooLate { program: usize, request: u32 },
    /// A node takes a step of a refresh.
    Step { to: NodeIndex, epoch: Epoch, step: RefreshStep, known: Epoch },
    /// The leader hears that a node has taken it.
    Taken { epoch: Epoch, step: RefreshStep, by: NodeIndex },
    /// The leader waits no longer for the others.
    StepOver { epoch: Epoch, step: RefreshStep },
    /// A program's caller loses patience.
    Interrupt(usize),
}

impl Event {
    /// At which node it happens, and in which of its lives, if that matters.
    pub fn place(&self) -> Option<(NodeIndex, Option<u32>)> {
        match self {
            Self::Ask { to, .. }
            | Self::PeerCancel { to, .. }
            | Self::PeerPromote { to, .. }
            | Self::Ping { to, .. }
            | Self::Step { to, .. } => Some((*to, None)),
            Self::Answer { to, .. } | Self::Bundle { to, .. } => to.first().map(|to| (to.node, Some(to.life))),
            Self::BodyStart { to, .. } => Some((to.node, Some(to.life))),
            Self::Pong { to, life, .. } | Self::OpenParcel { at: to, life, .. } => Some((*to, Some(*life))),
            _ => None,
        }
    }
}
