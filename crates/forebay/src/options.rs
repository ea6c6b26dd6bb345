//! What a daemon is told when it starts: everything is decided, nothing is looked up any more.

use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use forebay_launch::NodeAddress;
use forebay_transport::Security;
use forebay_types::NodeRank;

/// The options of one daemon.
#[derive(Debug)]
pub struct DaemonOptions {
    /// The job's name; peers of another are refused.
    pub job: String,
    /// The index of this node in `nodes`.
    pub rank: NodeRank,
    /// All nodes of the job.
    pub nodes: Vec<NodeAddress>,
    /// The socket to serve peers on, when the launcher bound it; else the node's port on `bind`.
    pub listener: Option<TcpListener>,
    /// How connections to other nodes are protected.
    pub security: Security,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The mount point: an existing, empty directory.
    pub view: PathBuf,
    /// What the view shows: absolute paths of existing directories.
    pub exports: Vec<PathBuf>,
    /// Children a node has in the tree.
    pub fan_out: u32,
    /// Memory for the caches, bytes.
    pub budget_bytes: u64,
    /// Files above this size are read by the node itself, bytes.
    pub direct_above_bytes: Option<u64>,
    /// Whether the reader of the backing file system asks early for what programs usually want next.
    pub anticipate: bool,
    /// Entries up to which a listing carries attributes.
    pub listing_entries_full: usize,
    /// How old a name that is shown may be; for ever if not given.
    pub revalidate: Option<Duration>,
    /// How long a request may take.
    pub deadline: Duration,
    /// Threads that read the kernel's requests.
    pub readers: usize,
    /// Processors to run on; empty for all.
    pub cores: Vec<usize>,
    /// Requests at the backing file system at once.
    pub backing_concurrency: usize,
    /// Where the control socket goes.
    pub job_directory: PathBuf,
    /// Where metrics are appended, a JSON object a line.
    pub metrics_file: Option<PathBuf>,
    /// How often.
    pub metrics_interval: Duration,
    /// Whether other users may enter the view.
    pub allow_other: bool,
    /// How far the kernel may read ahead, bytes.
    pub read_ahead_bytes: u32,
}
