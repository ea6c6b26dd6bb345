//! Opening a store: whose it is is checked before anything in it is read or changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forebay_types::NodeRank;
use forebay_wire::log_record::LogIdentity;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::directory::{CHECKPOINT, Directory, HEAD};
use crate::head::{HEAD_BYTES_MAX, HeadError, StoreHead, VERSION};
use crate::{StoreError, limits};

/// The node that opens a store, and its job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The job. A store is never shared by two.
    pub job: String,
    /// Which of its nodes. One node's log is of no use to another.
    pub node: NodeRank,
    /// How many it has.
    pub nodes: u32,
    /// The directory of the backing file system that the store lands in.
    pub landing: PathBuf,
    /// Of the machine since it was started: tells whether what was written and not synced can have been lost. `boot_identity`
    /// has it.
    pub boot: [u8; 16],
}

#[cfg(test)]
impl Owner {
    /// One in this run of the machine.
    pub(crate) fn of_test(boot: u8) -> Self {
        Self { job: "1".into(), node: NodeRank(0), nodes: 1, landing: "/lustre".into(), boot: [boot; 16] }
    }
}

/// How a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The room that it may take on its disk.
    pub capacity: Capacity,
    /// Bytes of a segment, for a new store. A store that is there keeps its own.
    pub segment_bytes: u32,
    /// Whether it may lie on a network file system.
    pub is_forced: bool,
}

/// The room that a store may take on its disk; whole segments are used. A checkpoint comes on top.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// So many bytes.
    Bytes(u64),
    /// As much as it takes: it is to be emptied.
    AsFound,
}

impl Settings {
    /// A store of so many bytes.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        Self::of(Capacity::Bytes(capacity_bytes))
    }

    /// A store of such a capacity.
    #[must_use]
    pub fn of(capacity: Capacity) -> Self {
        Self { capacity, segment_bytes: limits::SEGMENT_BYTES, is_forced: false }
    }
}

/// The identity of the machine's present run (`random(4)`, `/proc/sys/kernel/random/boot_id`).
///
/// # Errors
/// When /proc does not tell.
pub fn boot_identity() -> io::Result<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits = text.trim().replace('-', "");
    let number = u128::from_str_radix(&digits, 16).map_err(|_| io::Error::other("boot_id is no identity"))?;
    Ok(number.to_be_bytes())
}

/// A store that is this job's, and locked.
pub(crate) struct Store {
    pub directory: Directory,
    pub head: StoreHead,
    /// Of the machine now.
    pub boot: [u8; 16],
    /// Room for whole segments.
    pub capacity_bytes: u64,
    /// Whether the machine runs since before the store was opened last: then nothing that was written is lost.
    pub is_same_boot: bool,
    /// Numbers of segments, ascending.
    pub segments: Vec<u64>,
}

impl Store {
    pub fn open(path: &Path, owner: &Owner, settings: &Settings) -> Result<Self, StoreError> {
        if owner.job.len() > limits::JOB_BYTES_MAX {
            return Err(StoreError::JobName { bytes: owner.job.len() });
        }
        if owner.landing.as_os_str().len() > limits::LANDING_BYTES_MAX {
            return Err(StoreError::LandingPath { path: owner.landing.clone() });
        }
        let directory = Directory::open(path, settings.is_forced)?;
        let mut contents = directory.contents()?;
        if contents.is_wiped {
            directory.clear()?;
            contents = directory.contents()?;
        }
        let (head, is_same_boot) = if contents.has_head {
            let mut head = StoreHead { nodes: owner.nodes, ..read_own_head(&directory, owner)? };
            let is_same_boot = head.boot == owner.boot;
            if contents.segments.is_empty() {
                // Its first one never got a name, or they were removed: none of their numbers is given again.
                if contents.has_checkpoint {
                    let problem = "the segments that it belongs to are missing";
                    return Err(StoreError::Broken { path: path.to_owned(), file: CHECKPOINT, problem });
                }
                head.identity = new_head(path, owner, settings)?.identity;
            }
            (head, is_same_boot)
        } else {
            if let Some(name) = contents.strange {
                return Err(StoreError::NotStore { path: path.to_owned(), name });
            }
            if !contents.segments.is_empty() {
                return Err(StoreError::Broken { path: path.to_owned(), file: HEAD, problem: "it is missing" });
            }
            (new_head(path, owner, settings)?, true)
        };
        let capacity_bytes = match settings.capacity {
            Capacity::AsFound => {
                (contents.segments.len() as u64).max(limits::SEGMENTS_MIN) * u64::from(head.segment_bytes)
            }
            Capacity::Bytes(bytes) => capacity(path, bytes, head.segment_bytes)?,
        };
        Ok(Self { directory, head, boot: owner.boot, capacity_bytes, is_same_boot, segments: contents.segments })
    }

    /// Writes the head, which says that the store was opened in the machine's present run.
    pub fn write_head(&self) -> Result<(), StoreError> {
        let head = StoreHead { boot: self.boot, ..self.head.clone() };
        let written = self.directory.replace(HEAD, &[&head.encode()]);
        written.map_err(|error| StoreError::io("write the head of", self.directory.path(), error))
    }
}

fn read_head(directory: &Directory) -> Result<StoreHead, StoreError> {
    let path = directory.path().to_owned();
    let bytes = directory.read(HEAD, HEAD_BYTES_MAX as u64);
    let bytes = bytes.map_err(|error| StoreError::io("read the head of", &path, error))?.unwrap_or_default();
    let head = match StoreHead::decode(&bytes) {
        Ok(head) => head,
        Err(HeadError::Version(found)) => return Err(StoreError::Version { path, found, known: VERSION }),
        Err(HeadError::Broken(problem)) => return Err(StoreError::Broken { path, file: HEAD, problem }),
    };
    let uid = geteuid().as_raw();
    if head.uid != uid {
        return Err(StoreError::OtherUser { path, found: head.uid, uid });
    }
    Ok(head)
}

fn read_own_head(directory: &Directory, owner: &Owner) -> Result<StoreHead, StoreError> {
    let (head, path) = (read_head(directory)?, directory.path().to_owned());
    if head.job != owner.job {
        let bytes = directory.bytes();
        return Err(StoreError::OtherJob { path, found: head.job, job: owner.job.clone(), bytes });
    }
    if head.node != owner.node {
        return Err(StoreError::OtherNode { path, found: head.node, node: owner.node });
    }
    if head.landing != owner.landing {
        return Err(StoreError::OtherLanding { path, found: head.landing, landing: owner.landing.clone() });
    }
    Ok(head)
}

/// The owner of the store at `path`, as its head says; `None` where there is none. No other process has it open then.
///
/// # Errors
/// As `Recovery::open`, but for what it asks of the job.
pub fn whose(path: &Path) -> Result<Option<Owner>, StoreError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("look at", path, error)),
        Ok(found) if !found.is_dir() => return Ok(None),
        Ok(_) => {}
    }
    if !fs::exists(path.join(HEAD)).map_err(|error| StoreError::io("look at", path, error))? {
        return Ok(None);
    }
    let directory = Directory::open(path, true)?;
    if directory.contents()?.is_wiped {
        return Ok(None);
    }
    let StoreHead { job, node, nodes, landing, boot, .. } = read_head(&directory)?;
    Ok(Some(Owner { job, node, nodes, landing, boot }))
}

fn new_head(path: &Path, owner: &Owner, settings: &Settings) -> Result<StoreHead, StoreError> {
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty()).map_err(|errno| StoreError::io("create", path, errno))?;
    Ok(StoreHead {
        job: owner.job.clone(),
        node: owner.node,
        nodes: owner.nodes,
        landing: owner.landing.clone(),
        uid: geteuid().as_raw(),
        boot: owner.boot,
        identity: LogIdentity(u64::from_le_bytes(random)),
        segment_bytes: settings.segment_bytes.max(limits::SEGMENT_BYTES_MIN).next_multiple_of(8),
    })
}

fn capacity(path: &Path, capacity_bytes: u64, segment_bytes: u32) -> Result<u64, StoreError> {
    let segments = capacity_bytes / u64::from(segment_bytes);
    if segments < limits::SEGMENTS_MIN {
        let min_bytes = limits::SEGMENTS_MIN * u64::from(segment_bytes);
        return Err(StoreError::TooSmall { path: path.to_owned(), capacity_bytes, min_bytes });
    }
    Ok(segments * u64::from(segment_bytes))
}
