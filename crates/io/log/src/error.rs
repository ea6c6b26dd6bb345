//! Errors of stores and of logs.

use std::io;
use std::path::{Path, PathBuf};

use forebay_types::{Errno, LogPosition, NodeRank};
use thiserror::Error;

/// Why a store is not opened. The one that is there, if any, is as it was, unless the variant says otherwise.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A daemon has it.
    #[error("store {} is in use by another daemon: give each job and each node a directory of its own", .path.display())]
    Busy {
        /// The store.
        path: PathBuf,
    },
    /// Another job wrote it.
    #[error("store {} belongs to job {found}, not to {job}, and holds up to {} that have not landed. Land them: forebay salvage --burst-store {}. Deleting it loses them", .path.display(), mib(*bytes), .path.display())]
    OtherJob {
        /// The store.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// The job that asked.
        job: String,
        /// The size of its files.
        bytes: u64,
    },
    /// Another node of the job wrote it.
    #[error("store {} belongs to node {found} of the job, not to node {node}: start the job with its nodes in the same order, or land what the stores hold (forebay salvage)", .path.display())]
    OtherNode {
        /// The store.
        path: PathBuf,
        /// Whose it is.
        found: NodeRank,
        /// The node that asked.
        node: NodeRank,
    },
    /// Where it was to be carried is a store of another run of its job.
    #[error("store {} stays where it is: {} is the store of another run of the job, or an older copy of this one; land that one first (forebay salvage {}), or move it away", .path.display(), .there.display(), .there.display())]
    OtherLog {
        /// The store.
        path: PathBuf,
        /// The other one.
        there: PathBuf,
    },
    /// It lands elsewhere.
    #[error("store {} lands in {}, not in {}: name that directory, or land what the store holds (forebay salvage)", .path.display(), .found.display(), .landing.display())]
    OtherLanding {
        /// The store.
        path: PathBuf,
        /// Where it lands.
        found: PathBuf,
        /// Where it was to land.
        landing: PathBuf,
    },
    /// A path that does not fit.
    #[error("{} is too long for the directory that a store lands in; at most {} bytes are possible", .path.display(), crate::limits::LANDING_BYTES_MAX)]
    LandingPath {
        /// The directory.
        path: PathBuf,
    },
    /// Another user wrote it.
    #[error("store {} belongs to user {found}, not to you (user {uid}): give a directory of your own", .path.display())]
    OtherUser {
        /// The store.
        path: PathBuf,
        /// Whose it is.
        found: u32,
        /// The user who asked.
        uid: u32,
    },
    /// Others could read or change it.
    #[error("store {} is open to others (mode {mode:04o}): only its owner may have access; chmod 700 it", .path.display())]
    OpenToOthers {
        /// The store.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Another program wrote it.
    #[error(
        "store {} has version {found} of its layout; this program reads version {known}: what it holds lands by `forebay salvage` \
         of the forebay that wrote it", .path.display()
    )]
    Version {
        /// The store.
        path: PathBuf,
        /// The version in its head.
        found: u16,
        /// The version that this program reads.
        known: u16,
    },
    /// There are other files in the directory.
    #[error("{} is not a store and not empty ({name} is in it): give an empty or a new directory", .path.display())]
    NotStore {
        /// The directory.
        path: PathBuf,
        /// Something in it.
        name: String,
    },
    /// Its head or its checkpoint is spoiled.
    #[error("store {} cannot be read: {file}: {problem}", .path.display())]
    Broken {
        /// The store.
        path: PathBuf,
        /// Which file.
        file: &'static str,
        /// The defect.
        problem: &'static str,
    },
    /// There is too little room for a log.
    #[error("store {} is too small: {}; {} is the least (--burst-capacity)", .path.display(), mib(*capacity_bytes), mib(*min_bytes))]
    TooSmall {
        /// The store.
        path: PathBuf,
        /// The room that it may take.
        capacity_bytes: u64,
        /// The least that a log needs.
        min_bytes: u64,
    },
    /// Other nodes can write to it, or what is synced is not on this node.
    #[error("store {} lies on a network file system ({file_system}): give a directory on the node's own disk", .path.display())]
    NetworkFileSystem {
        /// The store.
        path: PathBuf,
        /// Which.
        file_system: &'static str,
    },
    /// The name of a job that does not fit.
    #[error("the name of the job has {bytes} bytes; at most {} are possible", crate::limits::JOB_BYTES_MAX)]
    JobName {
        /// Its length.
        bytes: usize,
    },
    /// The operating system refused something. A store that was being created may be there in part.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The verb: `create`, `read`.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A size as people write it: `192 MiB`, rounded up; less than one in bytes.
fn mib(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        0..MIB => format!("{bytes} bytes"),
        bytes => format!("{} MiB", bytes.div_ceil(MIB)),
    }
}

impl StoreError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { doing, path: path.to_owned(), source: source.into() }
    }
}

/// Why something cannot be done with a log that is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum LogError {
    /// There is no room, and no record was written. A release may make room.
    #[error("the store is full")]
    Full,
    /// The device failed, now or before. The log takes nothing more; whether the last records are durable is not known.
    #[error("the store failed: {0}")]
    Failed(Errno),
    /// The contents are above the limit, and no record was written.
    #[error("{bytes} bytes are too long for one record; at most {max_bytes} fit")]
    TooLong {
        /// How long.
        bytes: usize,
        /// The limit.
        max_bytes: u32,
    },
    /// There is no such record: it was never written, or was freed.
    #[error("no record lies at offset {} of segment {}", .0.offset, .0.segment)]
    Absent(LogPosition),
    /// The record has changed since it was written.
    #[error("the record at offset {} of segment {} has a wrong checksum", .0.offset, .0.segment)]
    Damaged(LogPosition),
    /// More was released than is live, or of a segment that is not there. The log is unchanged.
    #[error("released at offset {} of segment {} what is not live", .0.offset, .0.segment)]
    NotLive(LogPosition),
    /// There is a checkpoint of more records. None was written.
    #[error("a later checkpoint is there already")]
    Outdated,
    /// The record cannot be read. The log goes on.
    #[error("the store cannot be read: {0}")]
    Read(Errno),
}

impl LogError {
    /// The error for a program.
    #[must_use]
    pub fn errno(self) -> Errno {
        match self {
            Self::Full => Errno::ENOSPC,
            Self::TooLong { .. } | Self::Outdated => Errno::EINVAL,
            Self::Failed(_) | Self::Absent(_) | Self::Damaged(_) | Self::NotLive(_) | Self::Read(_) => Errno::EIO,
        }
    }
}
