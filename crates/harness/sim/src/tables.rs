//! What a job keeps of its questions, bodies, parcels, refreshes and turns. Who works with it is elsewhere: each table has
//! a file that carries it on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_node::{AttemptId, Part, Source};
use forebay_overlay::Tree;
use forebay_types::{Epoch, Errno, Time, ViewPath};
use forebay_wire::{Listing, ReadMessage, RefreshStep};

use crate::NodeIndex;
use crate::body::{Handle, Piece, State};
use crate::model::Versions;

/// One question of one life of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Caller {
    /// Who asks.
    pub node: NodeIndex,
    /// In which of its lives.
    pub life: u32,
    /// Its number of the question.
    pub call: AttemptId,
}

/// A question under way.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// What was asked.
    pub request: ReadMessage,
    /// Whom it was sent to.
    pub source: Source,
    /// Since when a program waits for it.
    pub wanted_since: Option<Time>,
    /// The body that it fills.
    pub body: Option<usize>,
    /// The first of those that travel with it, by which the message is known.
    pub with: AttemptId,
}

/// A body at a node.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    /// Whose.
    pub at: Caller,
    /// Who sends it; nobody for one that is read from the backing file system.
    pub from: Option<NodeIndex>,
    /// How far it has come.
    pub state: State,
    pub handle: Handle,
    /// Whether its core knows of it.
    pub has_started: bool,
    pub watchers: Vec<Watcher>,
}

/// Who waits for a body.
#[derive(Clone, Debug)]
pub(crate) enum Watcher {
    /// A program's read, by the program's number and that of its request.
    Read(usize, u32, Vec<Part<Handle>>),
    /// A peer that gets the files of a bundle in one.
    Bundle(u64, Vec<Result<Handle, Errno>>),
    /// The body of the next node, sent on by this one.
    Next(usize),
    /// A node's own question.
    Own(u64, Handle),
}

/// What the backing file system answered to one question.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The tree that the question belongs to.
    pub tree: Tree,
    /// Which lives of which nodes asked it, how often.
    pub readers: BTreeMap<(NodeIndex, u32), u32>,
}

/// What is known of all turns.
#[derive(Default)]
pub(crate) struct TurnsTaken {
    /// Turns that began for a program.
    pub demand_count: u64,
    /// Turns that began for what was asked ahead, although a program had waited for it for long enough to be heard of.
    pub unheard: Vec<String>,
}

/// A refresh under way.
pub(crate) struct Refresh {
    pub epoch: Epoch,
    pub leader: NodeIndex,
    pub paths: Vec<ViewPath>,
    pub step: RefreshStep,
    /// Those that have not taken the step yet.
    pub waits_for: BTreeSet<NodeIndex>,
    /// Those that have taken all steps so far.
    pub with: BTreeSet<NodeIndex>,
    /// The files when the second step began: nobody who took all steps may be behind them.
    pub seen: Versions,
}

/// What refreshes have come to.
#[derive(Default)]
pub(crate) struct Refreshes {
    pub under_way: Option<Refresh>,
    pub waiting: VecDeque<Vec<ViewPath>>,
    /// Refreshes that took all their steps.
    pub completed_count: usize,
}

/// Parcels that are being made, and what is in those that were.
#[derive(Default)]
pub(crate) struct Parcels {
    /// By the tickets of the questions that they wait for.
    pub making: BTreeMap<u64, Making>,
    pub made: Vec<Made>,
}

/// A parcel that waits for a listing, or for one of its files.
#[derive(Clone)]
pub(crate) struct Making {
    pub by: Caller,
    pub dir: ViewPath,
    pub listing: Option<Listing>,
    /// What is still to be asked for, last first.
    pub wanted: Vec<Piece>,
    pub chunks: Vec<Piece>,
}

/// What a parcel holds.
#[derive(Clone)]
pub(crate) struct Made {
    pub dir: ViewPath,
    pub listing: Listing,
    pub chunks: Vec<Piece>,
}
