//! Records of a running job, so that a later command finds it, and can clean up after a crash.
//!
//! `job.json` is written by `up` on the host where it ran; `node-RANK.json` by each keeper on its own host, when it
//! has a daemon. Both are replaced whole, so that a reader never sees half of one.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use forebay_types::NodeRank;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::gathered::Slowest;
use crate::launchers::LauncherName;
use crate::{JobDirectory, LaunchError, NodeAddress, Process, ProcessSpace, Reach, RemoteCall};

/// A record, bytes: that of a job of 65,536 nodes has 16 MiB.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// How far `up` has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// Daemons are being started, by the process in the record.
    Starting,
    /// All have answered.
    Ready,
}

/// How the daemons were started, and so how they are reached without the overlay.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Launched {
    /// As children of `up`, on this machine.
    Local,
    /// On hosts.
    Hosts {
        /// By this launcher.
        by: LauncherName,
        /// How a program is run on one of them.
        reach: Reach,
        /// The commands of this host that stay until the daemons end.
        steps: Vec<Process>,
    },
}

/// Tells a start of a job from others of its name, on every host. Empty for a node that no `up` has started.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartId(String);

impl StartId {
    /// One that no other start has.
    ///
    /// # Errors
    /// The error of `getrandom(2)`.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 8];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self(format!("{:016x}", u64::from_ne_bytes(bytes))))
    }

    /// As it was printed.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for StartId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A job, as `up` started it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its name.
    pub job: String,
    /// Which of its starts.
    #[serde(default)]
    pub start_id: StartId,
    /// How far the start has come.
    pub progress: Progress,
    /// The `up` that started it.
    pub started_by: Process,
    /// Where that is.
    #[serde(default)]
    pub started_in: ProcessSpace,
    /// When, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How.
    pub launched: Launched,
    /// The program that was started.
    pub program: PathBuf,
    /// The nodes in the order of their ranks.
    pub nodes: Vec<NodeAddress>,
    /// The mount point of each, in the same order.
    pub views: Vec<PathBuf>,
    /// The nodes that it came up without, each with the reason.
    #[serde(default)]
    pub missing: BTreeMap<NodeRank, String>,
    /// How long its start took, once it is up.
    #[serde(default)]
    pub start: Option<StartTimes>,
    /// The settings that were given, as text.
    pub settings: serde_json::Value,
}

/// The phases of a start, as `up` measured them, microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StartTimes {
    /// Before anything was started.
    pub prepare_us: u64,
    /// Until all starters ran.
    pub launch_us: u64,
    /// From there until all nodes were known to be ready.
    pub gather_us: u64,
    /// The node that took longest.
    pub slowest: Option<Slowest>,
}

/// A node, as its keeper describes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its rank.
    pub rank: NodeRank,
    /// The start of the job that it belongs to.
    #[serde(default)]
    pub start_id: StartId,
    /// Its keeper.
    pub process: Process,
    /// Where the numbers of its processes count.
    #[serde(default)]
    pub space: ProcessSpace,
    /// The keeper's daemon, as far as is known.
    #[serde(default)]
    pub daemon: Option<Process>,
    /// Its mount point.
    pub view: PathBuf,
    /// Whether the keeper made that directory, so that it goes with it.
    pub view_created: bool,
    /// The directories that the keeper made for the burst mount, innermost first; they go with it.
    #[serde(default)]
    pub burst_created: Vec<PathBuf>,
    /// Whether it has a burst tier.
    #[serde(default)]
    pub has_burst: bool,
}

impl JobRecord {
    /// How programs are run on the job's hosts; `None` when all are this one.
    #[must_use]
    pub fn remote_call(&self) -> Option<RemoteCall> {
        match &self.launched {
            Launched::Local => None,
            Launched::Hosts { reach, .. } => Some(RemoteCall { reach: reach.clone(), program: self.program.clone() }),
        }
    }

    /// Notes the commands of this host that stay until the daemons end.
    pub fn set_steps(&mut self, running: &[Process]) {
        if let Launched::Hosts { steps, .. } = &mut self.launched {
            *steps = running.to_vec();
        }
    }

    /// Whether the `up` that is starting it runs; `None` when none is, or it cannot be seen from here.
    #[must_use]
    pub fn starter_is_alive(&self) -> Option<bool> {
        let is_seen = self.progress == Progress::Starting && self.started_in == ProcessSpace::of_this();
        is_seen.then(|| self.started_by.is_alive())
    }

    /// Whether its start will never come to an end: the `up` that began it is dead.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.starter_is_alive() == Some(false)
    }

    /// Writes it into the job's directory.
    ///
    /// # Errors
    /// `Io`; the record before stays.
    pub fn write(&self, directory: &JobDirectory) -> Result<(), LaunchError> {
        write(self, &directory.job_record())
    }

    /// Reads it; `None` when there is none.
    ///
    /// # Errors
    /// `Io`, and `Record` when it is something else.
    pub fn read(directory: &JobDirectory) -> Result<Option<Self>, LaunchError> {
        read(&directory.job_record())
    }
}

impl NodeRecord {
    /// Writes it into the job's directory.
    ///
    /// # Errors
    /// `Io`; the record before stays.
    pub fn write(&self, directory: &JobDirectory) -> Result<(), LaunchError> {
        write(self, &directory.node_record(self.rank))
    }

    /// Whether its processes can be seen and ended from here. Those of another container on the host cannot.
    #[must_use]
    pub fn is_seen(&self) -> bool {
        [ProcessSpace::of_this(), ProcessSpace::default()].contains(&self.space)
    }

    /// Whether it runs: of one that is not seen from here, whether its keeper listens.
    #[must_use]
    pub fn is_alive(&self, directory: &JobDirectory) -> bool {
        match self.is_seen() {
            true => self.processes().any(Process::is_alive),
            false => listens(&directory.keeper_socket(self.rank)),
        }
    }

    /// Its processes: the keeper first.
    pub fn processes(&self) -> impl Iterator<Item = Process> {
        [Some(self.process), self.daemon].into_iter().flatten()
    }

    /// The records of all daemons of the job on this host; those that cannot be read are passed over.
    #[must_use]
    pub fn read_all(directory: &JobDirectory) -> Vec<Self> {
        let paths = directory.record_ranks().into_iter().map(|rank| directory.node_record(rank));
        paths.filter_map(|path| read(&path).ok().flatten()).collect()
    }
}

/// Whether a process of this host listens there; a queue that is full is one's, too.
fn listens(socket: &Path) -> bool {
    let connect = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::connect(&stream, &SocketAddrUnix::new(socket)?)
    };
    matches!(connect(), Ok(()) | Err(Errno::AGAIN))
}

pub(crate) fn write<T: Serialize>(record: &T, path: &Path) -> Result<(), LaunchError> {
    let new = path.with_extension("new");
    let mut text = serde_json::to_vec_pretty(record)
        .map_err(|error| LaunchError::Record { path: path.to_owned(), problem: error.to_string() })?;
    text.push(b'\n');
    fs::File::create(&new)
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| fs::rename(&new, path))
        .map_err(|error| LaunchError::io("write", path, error))
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LaunchError> {
    let text = match read_plain(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LaunchError::io("read", path, error)),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| LaunchError::Record { path: path.to_owned(), problem: error.to_string() })
}

/// A plain file, by no link and within the limit: root reads records in directories of other users.
fn read_plain(path: &Path) -> std::io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let mut text = vec![];
    let is_plain = file.metadata()?.is_file();
    if !is_plain || file.take(RECORD_BYTES_MAX + 1).read_to_end(&mut text)? as u64 > RECORD_BYTES_MAX {
        return Err(std::io::Error::other("it is no plain file, or too long"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_and_no_pipe_is_a_record() {
        let temporary = tempfile::tempdir().unwrap();
        let path = |name: &str| temporary.path().join(name);
        fs::write(path("plain"), "7").unwrap();
        std::os::unix::fs::symlink("plain", path("link")).unwrap();
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), pipe, Mode::RUSR, 0).unwrap();
        assert_eq!(read::<u32>(&path("plain")).unwrap(), Some(7));
        assert_eq!(read::<u32>(&path("absent")).unwrap(), None);
        assert!(read::<u32>(&path("link")).is_err() && read::<u32>(&path("pipe")).is_err());
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&temporary.path().join("base"), "job").unwrap().unwrap();
        assert_eq!(JobRecord::read(&directory).unwrap(), None);
        let record = JobRecord {
            job: "job".into(),
            start_id: StartId::random().unwrap(),
            progress: Progress::Ready,
            started_by: Process::this(),
            started_in: ProcessSpace::of_this(),
            started_unix_ms: 5,
            launched: Launched::Hosts { by: LauncherName::Ssh, reach: Reach::by_shell(&[]), steps: vec![] },
            program: "/bin/forebay".into(),
            nodes: vec![NodeAddress { host: "a".into(), port: 1 }],
            views: vec!["/v".into()],
            missing: BTreeMap::from([(NodeRank(5), "no route".into())]),
            start: Some(StartTimes { prepare_us: 7, launch_us: 8, gather_us: 9, slowest: None }),
            settings: serde_json::json!({"fanout": ["4"]}),
        };
        record.write(&directory).unwrap();
        assert_eq!(JobRecord::read(&directory).unwrap().as_ref(), Some(&record));
        let abandoned = |progress, start_ticks, started_in: &ProcessSpace| {
            let started_by = Process { start_ticks, ..Process::this() };
            JobRecord { progress, started_by, started_in: started_in.clone(), ..record.clone() }.is_abandoned()
        };
        let (own, other) = (ProcessSpace::of_this(), ProcessSpace::default());
        assert!(abandoned(Progress::Starting, 0, &own));
        assert!(!abandoned(Progress::Ready, 0, &own));
        assert!(!abandoned(Progress::Starting, Process::this().start_ticks, &own));
        assert!(!abandoned(Progress::Starting, 0, &other), "on another host it may be alive");

        let node = NodeRecord {
            rank: NodeRank(3),
            start_id: StartId::default(),
            process: Process::this(),
            space: ProcessSpace::of_this(),
            daemon: None,
            view: "/v".into(),
            view_created: true,
            burst_created: vec![],
            has_burst: false,
        };
        node.write(&directory).unwrap();
        fs::write(directory.node_record(NodeRank(4)), "{").unwrap();
        assert_eq!(NodeRecord::read_all(&directory), [node]);
        fs::write(directory.job_record(), "[]").unwrap();
        assert!(matches!(JobRecord::read(&directory), Err(LaunchError::Record { .. })));
    }
}
