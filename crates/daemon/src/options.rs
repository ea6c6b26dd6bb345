//! A daemon's options when it starts: everything is decided, nothing is looked up any more.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use forebay_fuse::MountedAt;
use forebay_keeper::Kept;
use forebay_launch::{NodeAddress, Ports};
use forebay_profile::{ProfileDirectory, ProfileError, ProfileFiles, ProfileKey};
use forebay_read::Links;
use forebay_secret::JobKey;
use forebay_transport::{Security, Subnet};
use forebay_types::{CHUNK_BYTES, NodeRank, ViewPath};
use forebay_wire::Level;
use serde::{Deserialize, Serialize};

/// Everything that is decided about a daemon before it starts; the same for each of a node's.
#[derive(Serialize, Deserialize, Debug)]
pub struct Plan {
    /// Its options.
    pub options: DaemonOptions,
    /// Where its log goes; standard error if nowhere else.
    pub log_file: Option<PathBuf>,
    /// The filter of the log.
    pub log_filter: String,
}

/// The options of one daemon.
#[derive(Serialize, Deserialize, Debug)]
pub struct DaemonOptions {
    /// The job's name; peers of another are refused.
    pub job: String,
    /// The index of this node in `nodes`.
    pub rank: NodeRank,
    /// All nodes of the job.
    pub nodes: Vec<NodeAddress>,
    /// Where those of them listen that name no port of their own.
    #[serde(default)]
    pub ports: Ports,
    /// The networks in which nodes with several addresses are looked for.
    #[serde(default)]
    pub peer_subnets: Vec<Subnet>,
    /// How connections to other nodes are protected.
    pub level: Level,
    /// The job's key, which its keeper hands to a daemon beside these options.
    #[serde(skip)]
    pub key: Option<JobKey>,
    /// The mount point: an existing, empty directory.
    pub view: PathBuf,
    /// The paths that the view shows: absolute paths of existing directories.
    pub exports: Vec<PathBuf>,
    /// Nodes that read the backing file system for others.
    pub roots: u32,
    /// Children a node has in a tree of directories.
    pub fan_out: u32,
    /// Children a node has in a tree of large files.
    pub stripe_fan_out: u32,
    /// Whether every node is home of a share of the large files.
    pub has_homes: bool,
    /// Whether other users than the job's enter the view.
    pub allow_other: bool,
    /// Memory for the caches, bytes.
    pub budget_bytes: u64,
    /// Files above this size are read by the node itself, bytes.
    pub direct_above_bytes: Option<u64>,
    /// Bytes that a read of the backing file system asks for; as that tells if not given.
    pub backing_read_bytes: Option<u64>,
    /// Whether the reader of the backing file system asks early for what programs usually want next.
    pub prefetch: bool,
    /// Where the start-up is recorded and what it is prefilled from; nothing is if not given.
    pub profile: Option<ProfileOptions>,
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
    /// Where metrics are served by HTTP, beside the socket in the job's directory.
    #[serde(default)]
    pub metrics_listen: Option<SocketAddr>,
    /// The labels of metrics.
    #[serde(default)]
    pub labels: JobLabels,
    /// How far the kernel may read ahead, bytes.
    pub read_ahead_bytes: u32,
    /// Which symbolic links are shown as links inside the view; all as they are if not given.
    #[serde(default)]
    pub links: Option<ShownLinks>,
    /// Its reports at the start of its job; `None` when no command waits for that.
    #[serde(default)]
    pub report: Option<ReportOptions>,
    /// Its part of the burst tier, if the job has one.
    #[serde(default)]
    pub burst: Option<BurstOptions>,
    /// Where chunks of large files stay for the next job, if anywhere.
    #[serde(default)]
    pub cache_store: Option<CacheStoreOptions>,
    /// The directory of its own that it answers queries over, if it is a device.
    #[serde(default)]
    pub data: Option<PathBuf>,
    /// Its standing with its keeper.
    #[serde(skip)]
    pub kept: Kept,
}

/// The labels that all metrics of a job have.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct JobLabels {
    /// Its name.
    pub job: String,
    /// The name of its user.
    pub user: String,
    /// The scheduler's number of it; empty outside one.
    pub allocation: String,
}

/// The burst tier on one node.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct BurstOptions {
    /// Where programs see it: under `forebay run` this path itself.
    pub dir: PathBuf,
    /// The directory of the backing file system that it lands in.
    pub backing: PathBuf,
    /// The node's own directory for what has not landed.
    pub store: PathBuf,
    /// The capacity of the store, bytes.
    pub capacity_bytes: u64,
    /// When what is in it lands.
    #[serde(default)]
    pub drain: DrainPolicy,
    /// How much of it a second at most, bytes.
    #[serde(default)]
    pub drain_bytes_per_s: Option<u64>,
    /// How many calls of landing a second at most.
    #[serde(default)]
    pub drain_operations_per_s: Option<u64>,
    /// When all has to have landed, milliseconds since 1970.
    #[serde(default)]
    pub ends_at_ms: Option<u64>,
    /// The part of a node's writes that its partner copies.
    #[serde(default)]
    pub copied: Copied,
    /// The switches that the job's nodes are on, by numbers; empty where that is not known.
    #[serde(default)]
    pub switches: Vec<u32>,
}

/// The cache store of one node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct CacheStoreOptions {
    /// Its directory, on the node's own disk.
    pub directory: PathBuf,
    /// The room that it may take, bytes.
    pub capacity_bytes: u64,
    /// Files that have not changed for so long are kept.
    pub settled_after: Duration,
}

/// The part of a node's writes that its partner copies.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Copied {
    /// None: it has no partner.
    #[default]
    Nothing,
    /// All.
    All,
    /// Writes to files below these directories of the burst tier.
    Below(Vec<ViewPath>),
}

/// When what programs write to the burst tier lands.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum DrainPolicy {
    /// When it is closed; what open files have goes to their drafts as soon as a store fills.
    #[default]
    Auto,
    /// When it is closed.
    Close,
    /// At `down`, or when somebody drains.
    End,
    /// When somebody drains.
    Manual,
}

impl DrainPolicy {
    /// Whether everything waits until somebody drains.
    #[must_use]
    pub fn waits_for_drain(self) -> bool {
        matches!(self, Self::End | Self::Manual)
    }
}

impl DaemonOptions {
    /// How connections are protected, with the key.
    ///
    /// # Errors
    /// When the level takes a key and there is none.
    pub fn security(&self) -> anyhow::Result<Security> {
        Security::new(self.level, self.key.clone()).context("the keeper passed no key")
    }

    /// Chunks of a large file in a row that one node reads: as many as a site has it read at once.
    pub fn row_chunks(&self) -> u64 {
        self.backing_read_bytes.map_or(1, |bytes| (bytes / CHUNK_BYTES).max(1))
    }

    /// Bytes that a read of the backing file system asks for; `None` as that tells, where no other node reads the chunks that follow.
    pub fn store_read_bytes(&self) -> Option<u64> {
        let is_alone = self.nodes.len() == 1 || self.roots == 1 && !self.has_homes;
        self.backing_read_bytes.or((!is_alone).then_some(CHUNK_BYTES))
    }
}

/// The rule whether a symbolic link leads into the view, as it was when the node started.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ShownLinks {
    /// The paths that the view shows, without links.
    pub exports: Vec<ViewPath>,
    /// The paths among those that it does not show.
    pub except: Vec<ViewPath>,
}

impl ShownLinks {
    /// Of the mounts as they are now.
    ///
    /// # Errors
    /// When an export or the table of mounts cannot be read.
    pub fn now(exports: &[PathBuf], own_places: &[&Path]) -> anyhow::Result<Self> {
        let path = |path: &Path| ViewPath::from_absolute(path.as_os_str().as_bytes()).ok();
        let resolve = |export: &PathBuf| {
            export
                .canonicalize()
                .with_context(|| format!("cannot export {}", export.display()))
                .map(|found| path(&found))
        };
        let exports: Vec<Option<ViewPath>> = exports.iter().map(resolve).collect::<anyhow::Result<_>>()?;
        let mounts = MountedAt::all().context("the table of mounts cannot be read")?;
        let hidden = mounts.iter().filter(|mount| forebay_store::is_never_served(&mount.file_system));
        let except = hidden.map(|mount| mount.dir.as_path()).chain(own_places.iter().copied()).filter_map(path);
        Ok(Self { exports: exports.into_iter().flatten().collect(), except: except.collect() })
    }

    /// The rules for a node whose view is at `view`.
    pub fn rules(&self, view: &Path) -> Links {
        let Self { exports, except } = self.clone();
        Links { view: view.as_os_str().as_bytes().to_vec(), exports, except }
    }
}

/// The profile of a job.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct ProfileOptions {
    /// Its place.
    pub place: ProfilePlace,
    /// The command that it belongs to.
    pub command: String,
    /// The exports, as a profile names them.
    pub exports: Vec<ViewPath>,
    /// The space that all profiles of its directory, or it and its pack, may have, bytes.
    pub budget_bytes: u64,
    /// Whether its contents are kept and used as a pack.
    pub pack: bool,
}

/// Where a profile lies.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub enum ProfilePlace {
    /// By its key in a directory of profiles.
    Directory(PathBuf),
    /// In a file that the user named.
    File(PathBuf),
}

impl ProfileOptions {
    /// Its files.
    ///
    /// # Errors
    /// Where they cannot be.
    pub fn files(&self) -> Result<ProfileFiles, ProfileError> {
        match &self.place {
            ProfilePlace::File(path) => ProfileFiles::at(path, self.budget_bytes),
            ProfilePlace::Directory(path) => {
                let key = ProfileKey::of(&self.command, &self.exports);
                Ok(ProfileDirectory::open(path, self.budget_bytes)?.files(key))
            }
        }
    }
}

/// How a node takes part in the start of its job.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct ReportOptions {
    /// When the node began, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// After which time the job is up without those that are missing.
    pub settle_after: Option<Duration>,
}
