//! A keeper's knowledge of its node. Its daemons' plan is theirs, and only passes through it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_fuse::{Access, SessionOptions};
use forebay_launch::NodeAddress;
use forebay_types::{NodeRank, threads};

use crate::watched::Watched;

/// The options of one node's keeper.
#[derive(Debug)]
pub struct KeeperOptions {
    /// The job's name.
    pub job: String,
    /// The node's rank.
    pub rank: NodeRank,
    /// Where its peers reach it.
    pub address: NodeAddress,
    /// The address to listen on, unless the launcher did.
    pub bind: IpAddr,
    /// The ports to listen on: the first that is free.
    pub ports: Vec<u16>,
    /// The mount point: an existing, empty directory.
    pub view: PathBuf,
    /// The exports: absolute paths of existing directories.
    pub exports: Vec<PathBuf>,
    /// The burst mount, if there is to be one.
    pub burst: Option<BurstPaths>,
    /// Whether links are shown as links inside the view.
    pub links_lead_into_view: bool,
    /// Where the sockets go.
    pub job_directory: PathBuf,
    /// How long a request may take.
    pub deadline: Duration,
    /// Whether other users may enter the view.
    pub allow_other: bool,
    /// How far the kernel may read ahead, bytes.
    pub read_ahead_bytes: u32,
    /// Threads that read the kernel's requests.
    pub readers: usize,
    /// Whether the kernel is asked for the requests in flight when a daemon goes on where another died; else they are
    /// kept in memory.
    pub resend: bool,
    /// Whether a line says that the node is ready: its starter waits for this node alone, or starts others then.
    pub says_ready: bool,
    /// Whether its starter waits for the whole job.
    pub reports: bool,
    /// The processes with which the node or the job ends.
    pub watched: Vec<Watched>,
}

/// Where a burst tier is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BurstPaths {
    /// The mount point: an existing, empty directory.
    pub mount: PathBuf,
    /// Where programs of `forebay run` see it.
    pub dir: PathBuf,
    /// The directory of the backing file system that it lands in; they see it there, too.
    pub backing: PathBuf,
    /// Whether the job has other nodes.
    pub is_shared: bool,
    /// The directories that were made for it, itself among them: files there never land, so nobody writes there while it is mounted.
    pub closed: Vec<PathBuf>,
}

/// How sessions of a node's view run: of the keeper that agrees with the kernel, and of each daemon.
#[must_use]
pub fn session_options(readers: usize, read_ahead_bytes: u32) -> SessionOptions {
    SessionOptions { readers, read_ahead_bytes, ..SessionOptions::default() }
}

/// How sessions of a node's burst mount run.
#[must_use]
pub fn burst_session_options(readers: usize) -> SessionOptions {
    let readers = readers.max(threads::BURST_READERS);
    SessionOptions { readers, access: Access::ReadWrite, no_open: false, ..SessionOptions::default() }
}
