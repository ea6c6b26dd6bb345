//! The inputs and outputs of the core.

use std::sync::Arc;
use std::time::Duration;

use forebay_dispatch::{AttemptId, Source};
use forebay_types::{Attributes, Epoch, Errno, Extent, FileSystem, NodeRank, Time};
use forebay_wire::{EntryRecord, Listing, ReadMessage, Request};

use crate::inode_id::InodeId;

/// A kernel request that waits for its answer; the shell's number for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelTicket(pub u64);

/// A peer's request that waits for its answer; the shell's number for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerTicket(pub u64);

/// A request of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelRequest<'a> {
    /// The entry `name` of a directory.
    Lookup {
        /// The directory.
        parent: InodeId,
        /// The name, unchecked.
        name: &'a [u8],
    },
    /// Attributes of an inode.
    Attributes {
        /// The inode.
        inode: InodeId,
    },
    /// A symbolic link's target.
    Readlink {
        /// The inode.
        inode: InodeId,
    },
    /// A directory's listing.
    Directory {
        /// The inode.
        inode: InodeId,
    },
    /// Bytes of a file.
    Read {
        /// The inode.
        inode: InodeId,
        /// Which bytes; may reach past the end.
        extent: Extent,
    },
    /// Sizes of the file system an inode lies on.
    FileSystem {
        /// The inode.
        inode: InodeId,
    },
}

/// An inode as the kernel is told of it; counted as one lookup, to be forgotten later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number in this view.
    pub inode: InodeId,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A piece of a read's answer: bytes `offset_bytes..+len_bytes` of a chunk that may still be filling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part<B> {
    /// The chunk's bytes.
    pub body: B,
    /// Offset in the chunk.
    pub offset_bytes: usize,
    /// Length.
    pub len_bytes: usize,
}

/// An answer to the kernel.
#[derive(Clone, Debug)]
pub enum KernelAnswer<B> {
    /// The name exists.
    Entry(Entry),
    /// It does not, and the kernel may remember that.
    Absent,
    /// Attributes.
    Attributes(Attributes),
    /// A symbolic link's target.
    Target(Vec<u8>),
    /// A directory's listing, to be encoded from the position the kernel asked for.
    Directory(Listing),
    /// A file's bytes: the parts in order; none at or past the end.
    Read(Vec<Part<B>>),
    /// Sizes of a file system.
    FileSystem(FileSystem),
    /// An error.
    Failed(Errno),
}

/// An answer to a peer.
#[derive(Clone, Debug)]
pub enum PeerAnswer<B> {
    /// A complete listing.
    Listing(Listing),
    /// Records for the names asked for.
    Entries(Arc<[Option<EntryRecord>]>),
    /// A chunk, which may still be filling: forwarded while it arrives.
    Body(B),
    /// The result of each file of a bundle, in the order of its request. The bodies may still be filling; one that ends
    /// early is an error like the others.
    Bundle(Vec<Result<B, Errno>>),
    /// Sizes of a file system.
    FileSystem(FileSystem),
    /// An error.
    Failed(Errno),
    /// It has missed a refresh: this is the one to come to.
    Fenced(Epoch),
    /// This node has the bytes, or is getting them; `None`: nothing is here, though another node has said so.
    Referred(Option<NodeRank>),
}

/// A source's answer to a fetch, but for chunks (see `ReadPath::handle_body_started`).
#[derive(Clone, Debug)]
pub enum Answered {
    /// A complete listing, checked.
    Listing(Listing),
    /// Records for the names asked for.
    Entries(Vec<Option<EntryRecord>>),
    /// Sizes of a file system.
    FileSystem(FileSystem),
    /// An error of the backing file system. `Errno::WAY_LOST` is none: the answer was lost, and the source is there.
    Failed(Errno),
    /// The source cannot be reached.
    Lost,
    /// The shell waited for as long as the attempt had: that says nothing about the source.
    TimedOut,
    /// The source has come to this refresh, which this node has missed.
    Fenced(Epoch),
    /// The source names another node; `None`: it was named itself, and has nothing.
    Referred(Option<NodeRank>),
}

/// An inode that the kernel may hold stale attributes, entries or pages of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleInode {
    /// The inode.
    pub inode: InodeId,
    /// Its directory and its name there; `None` for the view's root and where the directory is forgotten already.
    pub entry: Option<(InodeId, Vec<u8>)>,
}

/// A step for the shell.
#[derive(Clone, Debug)]
pub enum Effect<B> {
    /// Ask `source`; bring the answer back under `attempt` before `deadline`.
    Fetch {
        /// The attempt.
        attempt: AttemptId,
        /// Whom to ask.
        source: Source,
        /// The request, with its priority at the backing file system and the epoch of this node.
        request: Request<ReadMessage>,
        /// When the answer is of no use any more.
        deadline: Time,
    },
    /// Ask a node for small files of one directory in one message; bring each attempt's answer back as if it were alone.
    FetchBundle {
        /// The attempts, in the order of the request's files.
        attempts: Vec<AttemptId>,
        /// Whom to ask.
        peer: NodeRank,
        /// The request: a `ReadMessage::Bundle`.
        request: Request<ReadMessage>,
        /// When none of the answers is of use any more.
        deadline: Time,
    },
    /// A program waits now for what was asked ahead of any.
    Promote {
        /// The attempt.
        attempt: AttemptId,
        /// The source of the attempt.
        source: Source,
    },
    /// An attempt's answer is not wanted any more; a body that it was filling ends by `Errno::WAY_LOST`.
    Cancel {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Ask a node whether it is there; tell `handle_ping` before `deadline`.
    Ping {
        /// Whom to ask.
        peer: NodeRank,
        /// Up to which refresh this node has forgotten, for the request.
        epoch: Epoch,
        /// When it counts as lost.
        deadline: Time,
    },
    /// Tell whoever reads the log that a node takes far longer than others for chunks: others are asked in its place.
    NoteSlow {
        /// The node.
        peer: NodeRank,
        /// For how long.
        time: Duration,
    },
    /// Answer the kernel.
    AnswerKernel {
        /// Which request.
        ticket: KernelTicket,
        /// The answer.
        answer: KernelAnswer<B>,
    },
    /// Tell the kernel that files may be others now. From a thread that no request waits for.
    Stale(Vec<StaleInode>),
    /// Take a whole parcel apart: `handle_parcel_opened`, the kernel's caches, then `handle_parcel_stored`; or
    /// `handle_parcel_spoilt`.
    OpenParcel {
        /// Its number.
        index: u32,
        /// Its bytes.
        body: B,
    },
    /// Answer a peer.
    AnswerPeer {
        /// Which request.
        ticket: PeerTicket,
        /// The answer.
        answer: PeerAnswer<B>,
    },
}
