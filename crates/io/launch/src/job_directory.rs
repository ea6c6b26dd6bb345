//! Where a job keeps its sockets, logs and records on a host: one private directory, gone when the job is down.
//!
//! The directory lies in a place that others can write to (`/tmp`), so nothing in it is trusted before it is known to
//! be a real directory of this user that nobody else may enter: a control socket or a mount point that somebody else
//! prepared would hand the job to them.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_types::NodeRank;

use crate::private::{check_private, make_private, uid};
use crate::removal::{gone, ignore_missing, remove_burst, remove_mount_points};
use crate::{LaunchError, SharedPlace, base};

/// A job's name, bytes: it is part of a path that must fit into a Unix socket's address.
const JOB_NAME_BYTES_MAX: usize = 48;

/// A Unix socket's path, bytes (`sun_path` of `unix(7)` less its NUL).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The place of this user's jobs below `$XDG_RUNTIME_DIR`, where that is ours. A job of several hosts does not use it, since
/// a login session's directory ends with the session.
#[must_use]
pub fn session_base(runtime_directory: Option<&Path>) -> Option<PathBuf> {
    let ours = |path: &&Path| path.is_absolute() && fs::metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == uid());
    runtime_directory.filter(ours).map(|path| path.join("forebay"))
}

/// Whether `name` can name a job: it becomes a directory and a word on command lines.
///
/// # Errors
/// `JobName` with what is wrong.
pub fn check_job_name(name: &str) -> Result<(), LaunchError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let problem = match name.as_bytes() {
        [] => "it is empty".to_owned(),
        [b'.' | b'-', ..] => "it begins with '.' or '-'".to_owned(),
        bytes if bytes.len() > JOB_NAME_BYTES_MAX => format!("it is longer than {JOB_NAME_BYTES_MAX} bytes"),
        bytes if !bytes.iter().all(|byte| allowed(*byte)) => {
            "only letters, digits, '.', '-' and '_' are allowed".to_owned()
        }
        _ => return Ok(()),
    };
    Err(LaunchError::JobName { name: name.to_owned(), problem })
}

/// The private directory of one job on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobDirectory {
    path: PathBuf,
}

impl JobDirectory {
    /// Makes the directory of `job` below `base`; `None` when it is there already (and safe).
    ///
    /// # Errors
    /// `JobName`, `Unsafe` and `Io`; a base that was created stays, empty.
    pub fn create(base: &Path, job: &str) -> Result<Option<Self>, LaunchError> {
        check_job_name(job)?;
        let path = base.join(job);
        check_path(&path)?;
        // A base that was made for jobs goes with the last one, so another job's end may take it from under us, once.
        for _ in 0..3 {
            match base::make(base) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(LaunchError::io("create the directory", base, error));
                }
                _ => {}
            }
            check_private(base)?;
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Some(Self { path })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return check_private(&path).map(|()| None);
                }
                Err(error) => return Err(LaunchError::io("create the directory", &path, error)),
            }
        }
        Err(LaunchError::io("create the directory", &path, io::ErrorKind::NotFound))
    }

    /// The directory of `job` below one of `bases`; `None` when the job has none.
    ///
    /// # Errors
    /// `JobName`, and `Unsafe` when it is there but not to be trusted.
    pub fn find(bases: &[PathBuf], job: &str) -> Result<Option<Self>, LaunchError> {
        check_job_name(job)?;
        let mut unsafe_one = None;
        for base in bases {
            let path = base.join(job);
            if path.symlink_metadata().is_ok() {
                match check_private(base).and_then(|()| check_private(&path)) {
                    Ok(()) => return Ok(Some(Self { path })),
                    Err(error) => unsafe_one = unsafe_one.or(Some(error)),
                }
            }
        }
        unsafe_one.map_or(Ok(None), Err)
    }

    /// The directory at `path`, made if it is not there; in a stand-in where another user has the name of its base.
    ///
    /// # Errors
    /// As `create`.
    pub fn at(path: &Path) -> Result<Self, LaunchError> {
        let (base, job) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
        let (Some(base), Some(job)) = (base, job) else {
            return Err(LaunchError::Unsafe { path: path.to_owned(), problem: "it has no parent".to_owned() });
        };
        let place = SharedPlace::of_this_user();
        if let Some(found) = Self::find(&place.instead_of(base), job)? {
            return Ok(found);
        }
        let base = place.free(base)?;
        Ok(Self::create(&base, job)?.unwrap_or_else(|| Self { path: base.join(job) }))
    }

    /// Whether those of `bases` that are there may be used.
    ///
    /// # Errors
    /// `Unsafe` for the first that may not.
    pub fn check_bases(bases: &[PathBuf]) -> Result<(), LaunchError> {
        bases.iter().filter(|base| base.symlink_metadata().is_ok()).try_for_each(|base| check_private(base))
    }

    /// The names of all jobs below `bases`; unsafe directories have none, and are none unless nodes have left records there.
    #[must_use]
    pub fn jobs(bases: &[PathBuf]) -> Vec<String> {
        let jobs = named_like_jobs(bases).filter(|path| no_job(path).is_none());
        let mut jobs: Vec<String> = jobs.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect();
        jobs.sort();
        jobs.dedup();
        jobs
    }

    /// The reason why an entry below `bases` that has a job's name is no job, for each such entry.
    #[must_use]
    pub fn no_jobs(bases: &[PathBuf]) -> Vec<LaunchError> {
        named_like_jobs(bases).filter_map(|path| no_job(&path)).collect()
    }

    /// The jobs of other users in their usual places on this host, each with its owner, for root. A directory that its owner alone
    /// may enter is theirs.
    #[must_use]
    pub fn of_other_users() -> Vec<(Self, u32)> {
        if uid() != 0 {
            return vec![];
        }
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        let shared = entries(Path::new("/tmp")).filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let owner = name.strip_prefix("forebay-")?.split('.').next()?.parse().ok()?;
            Some((entry.path(), owner))
        });
        let of_sessions = entries(Path::new("/run/user")).filter_map(|entry| {
            let owner = entry.file_name().to_str()?.parse().ok()?;
            Some((entry.path().join("forebay"), owner))
        });
        let bases = shared.chain(of_sessions).filter(|(base, owner)| *owner != 0 && is_private_to(base, *owner));
        let jobs = bases.flat_map(|(base, owner)| entries(&base).map(move |entry| (entry.path(), owner)));
        let mut jobs: Vec<_> = jobs
            .filter(|(path, owner)| is_private_to(path, *owner))
            .filter(|(path, _)| {
                path.file_name().and_then(OsStr::to_str).is_some_and(|name| check_job_name(name).is_ok())
            })
            .map(|(path, owner)| (Self { path }, owner))
            .collect();
        jobs.sort_by(|(one, _), (other, _)| one.path.cmp(&other.path));
        jobs
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that holds the jobs.
    #[must_use]
    pub fn base(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// The job's name.
    #[must_use]
    pub fn job(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The control socket of a daemon.
    #[must_use]
    pub fn socket(&self, rank: NodeRank) -> PathBuf {
        Self::socket_in(&self.path, rank)
    }

    /// The same in the directory of a job.
    #[must_use]
    pub fn socket_in(directory: &Path, rank: NodeRank) -> PathBuf {
        directory.join(format!("node-{rank}.sock"))
    }

    /// The socket of a keeper.
    #[must_use]
    pub fn keeper_socket(&self, rank: NodeRank) -> PathBuf {
        self.path.join(format!("keeper-{rank}.sock"))
    }

    /// The socket by which programs enter the namespace that a keeper holds.
    #[must_use]
    pub fn entrance(&self, rank: NodeRank) -> PathBuf {
        self.path.join(format!("enter-{rank}.sock"))
    }

    /// A file about the metrics of a node, in the job's directory: labels, socket, token and address of the port, history.
    #[must_use]
    pub fn metrics_place(directory: &Path, rank: NodeRank, end: &str) -> PathBuf {
        directory.join(format!("metrics-{rank}.{end}"))
    }

    /// The file of a node's last status.
    #[must_use]
    pub fn last_status(directory: &Path, rank: NodeRank) -> PathBuf {
        directory.join(format!("node-{rank}.status"))
    }

    /// The ranks whose last statuses are here, lowest first.
    #[must_use]
    pub fn last_status_ranks(&self) -> Vec<NodeRank> {
        self.ranks_of(".status")
    }

    /// Removes the last statuses of all nodes.
    pub fn remove_last_statuses(&self) {
        for rank in self.last_status_ranks().into_iter().chain(self.ranks_of(".status.new")) {
            let path = Self::last_status(&self.path, rank);
            ignore_missing(fs::remove_file(path.with_extension("status.new")));
            ignore_missing(fs::remove_file(path));
        }
    }

    /// The file that a process locks while it makes such a namespace.
    #[must_use]
    pub fn entrance_lock(&self, rank: NodeRank) -> PathBuf {
        self.path.join(format!("enter-{rank}.lock"))
    }

    /// The directory that holds the mount points of images. Mounts there are seen in namespaces for programs only.
    #[must_use]
    pub fn images(&self) -> PathBuf {
        self.path.join("images")
    }

    /// The log of a daemon.
    #[must_use]
    pub fn log(&self, rank: NodeRank) -> PathBuf {
        self.logs().join(format!("node-{rank}.log"))
    }

    /// The standard error of the command that starts `rank`.
    #[must_use]
    pub fn launch_log(&self, rank: NodeRank) -> PathBuf {
        self.logs().join(format!("launch-{rank}.log"))
    }

    /// The directory of the logs.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// Where burst mounts are, unless the user names another place.
    #[must_use]
    pub fn burst(&self) -> PathBuf {
        self.path.join("burst")
    }

    /// The directory of the default views.
    #[must_use]
    pub fn view(&self) -> PathBuf {
        self.path.join("view")
    }

    /// The file by which `up` gives the job spec to the daemons that it starts.
    #[must_use]
    pub fn job_spec(&self) -> PathBuf {
        self.path.join("job-spec.json")
    }

    /// The record of the job, written by `up`.
    #[must_use]
    pub fn job_record(&self) -> PathBuf {
        self.path.join("job.json")
    }

    /// The record of a daemon, written by itself.
    #[must_use]
    pub fn node_record(&self, rank: NodeRank) -> PathBuf {
        self.path.join(format!("node-{rank}.json"))
    }

    /// The ranks whose control sockets are here, lowest first.
    #[must_use]
    pub fn socket_ranks(&self) -> Vec<NodeRank> {
        self.ranks_of(".sock")
    }

    /// The ranks whose records are here, lowest first.
    #[must_use]
    pub fn record_ranks(&self) -> Vec<NodeRank> {
        self.ranks_of(".json")
    }

    fn ranks_of(&self, suffix: &str) -> Vec<NodeRank> {
        let rank = |name: &str| name.strip_prefix("node-")?.strip_suffix(suffix)?.parse().ok().map(NodeRank);
        let mut ranks: Vec<NodeRank> = fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .filter_map(|entry| rank(entry.ok()?.file_name().to_str()?))
            .collect();
        ranks.sort();
        ranks
    }

    /// Makes the directory of the logs, if it is not there.
    ///
    /// # Errors
    /// `Io`.
    pub fn make_logs(&self) -> Result<(), LaunchError> {
        make_private(&self.logs())
    }

    /// Makes a directory that several nodes of the job share outside of this one, writable by nobody else, if it is not
    /// there, and remembers to remove it with the job.
    ///
    /// # Errors
    /// `Io`.
    pub fn make_shared(&self, path: &Path) -> Result<(), LaunchError> {
        match DirBuilder::new().mode(0o755).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(LaunchError::io("create the directory", path, error)),
        }
        let made = self.made();
        let name = path.as_os_str().as_encoded_bytes();
        let remembered = OpenOptions::new().create(true).append(true).open(&made);
        remembered
            .and_then(|mut file| file.write_all(&[name, b"\0"].concat()))
            .map_err(|error| LaunchError::io("write", &made, error))
    }

    /// Removes the directories that `make_shared` made, if they are empty.
    pub fn remove_shared(&self) {
        let paths = fs::read(self.made()).unwrap_or_default();
        for path in paths.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            ignore_missing(fs::remove_dir(Path::new(OsStr::from_bytes(path))));
        }
        ignore_missing(fs::remove_file(self.made()));
    }

    /// The directories that are removed with the job, each ended by a NUL byte.
    fn made(&self) -> PathBuf {
        self.path.join("made")
    }

    /// Removes what one node left here: its sockets and its record. Its log stays until the job's last node on this host ends.
    pub fn remove_node(&self, rank: NodeRank) {
        let sockets = [self.socket(rank), self.keeper_socket(rank), self.entrance(rank)];
        let files = [self.entrance_lock(rank), self.node_record(rank)];
        let metrics = ["labels", "sock", "token", "address", "history", "history.new"]
            .map(|end| Self::metrics_place(&self.path, rank, end));
        for path in sockets.into_iter().chain(files).chain(metrics) {
            ignore_missing(fs::remove_file(path));
        }
    }

    /// Removes what `up` has left here, while nodes of another start of the job stay.
    pub fn remove_job(&self) {
        for file in [self.job_record(), self.job_spec()] {
            ignore_missing(fs::remove_file(file));
        }
    }

    /// Removes the logs of all nodes.
    pub fn remove_logs(&self) {
        ignore_missing(fs::remove_dir_all(self.logs()));
    }

    /// Removes the directories that are empty now, the job's own and its base among them.
    pub fn remove_if_empty(&self) {
        ignore_missing(remove_mount_points(&self.images()));
        for path in [self.logs(), self.view(), self.burst(), self.path.clone()] {
            ignore_missing(fs::remove_dir(path));
        }
        self.path.parent().into_iter().for_each(base::remove_with_last_job);
    }

    /// The places of files that programs wrote beside burst mounts of jobs of this name.
    #[must_use]
    pub fn strays(&self) -> Vec<PathBuf> {
        let start = self.strays_start();
        let entries = fs::read_dir(self.base()).into_iter().flatten().flatten();
        let is_one = |name: &OsStr| {
            name.as_bytes().strip_prefix(start.as_bytes()).is_some_and(|end| end.iter().all(u8::is_ascii_digit))
        };
        entries.filter(|entry| is_one(&entry.file_name())).map(|entry| entry.path()).collect()
    }

    fn strays_start(&self) -> String {
        format!(".beside-burst-of-{}-", self.job())
    }

    /// Moves the directory of burst mounts out of the job's, with files that are not of the job. No job has such a name.
    fn set_strays_aside(&self) -> io::Result<()> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        fs::rename(self.burst(), self.base().join(format!("{}{}", self.strays_start(), since.as_millis())))
    }

    /// Removes everything. Views are removed as empty directories only, never followed: a mount that is still there
    /// must fail this, and must not be walked. Files beside burst mounts are moved out (`strays`).
    ///
    /// # Errors
    /// `Io` for the first thing that stays.
    pub fn remove(&self) -> Result<(), LaunchError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries.filter_map(Result::ok),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(LaunchError::io("read the directory", &self.path, error)),
        };
        // Records last: by them the next one who cleans up finds the processes and mounts that this one has not seen.
        let (records, others): (Vec<_>, Vec<_>) =
            entries.partition(|entry| entry.path().extension().is_some_and(|extension| extension == "json"));
        for entry in others.into_iter().chain(records) {
            let path = entry.path();
            let removed = if path == self.view() || path == self.images() {
                remove_mount_points(&path)
            } else if path == self.burst() {
                remove_burst(&path).or_else(|error| match error.kind() {
                    io::ErrorKind::DirectoryNotEmpty => self.set_strays_aside(),
                    _ => Err(error),
                })
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            gone(removed).map_err(|error| LaunchError::io("remove", &path, error))?;
        }
        gone(fs::remove_dir(&self.path)).map_err(|error| LaunchError::io("remove", &self.path, error))?;
        self.path.parent().into_iter().for_each(base::remove_with_last_job);
        Ok(())
    }
}

/// The entries of those of `bases` that may be used whose names a job could have.
fn named_like_jobs(bases: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let entries = bases.iter().filter(|base| check_private(base).is_ok()).filter_map(|base| fs::read_dir(base).ok());
    let paths = entries.flatten().filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.file_name().and_then(OsStr::to_str).is_some_and(|name| check_job_name(name).is_ok()))
}

/// The reason why an entry is no job. One that others may enter is: it may have been opened later, and is refused by name.
fn no_job(path: &Path) -> Option<LaunchError> {
    let unsafe_because = check_private(path).err()?;
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let has_records = is_directory && !JobDirectory { path: path.to_owned() }.record_ranks().is_empty();
    (!has_records).then_some(unsafe_because)
}

/// Whether it is a real directory that its owner alone may enter.
fn is_private_to(path: &Path, owner: u32) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == owner && found.mode() & 0o077 == 0)
}

fn check_path(directory: &Path) -> Result<(), LaunchError> {
    if directory.to_str().is_none() {
        let problem = "its path is not UTF-8; choose another with --directory".to_owned();
        return Err(LaunchError::Unsafe { path: directory.to_owned(), problem });
    }
    let longest = JobDirectory::metrics_place(directory, NodeRank(forebay_types::limits::NODES_MAX as u32), "sock");
    let len = longest.as_os_str().len();
    if len <= SOCKET_PATH_BYTES_MAX {
        return Ok(());
    }
    let problem = format!(
        "a socket in it would have a path of {len} bytes, and at most {SOCKET_PATH_BYTES_MAX} are possible; choose a \
                           shorter one with --directory, or a shorter --job"
    );
    Err(LaunchError::Unsafe { path: directory.to_owned(), problem })
}

#[cfg(test)]
#[path = "job_directory_tests.rs"]
mod tests;
