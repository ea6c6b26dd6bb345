//! Errors before a daemon runs. No variant leaves a state change behind, except where it says so.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// Why a job could not be laid out or its directory not be used.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// A list such as `n[1-4,7]` does not say which hosts.
    #[error("the host list '{list}' cannot be read: {problem}")]
    HostList {
        /// The list as given.
        list: String,
        /// The error in it, and where.
        problem: String,
    },
    /// A line of a host file.
    #[error("{file}, line {line}: {problem}")]
    HostFile {
        /// The file's name, as given.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The error in it.
        problem: String,
    },
    /// A file that describes the network.
    #[error("{file}{at}: {problem}", at = if *line == 0 { String::new() } else { format!(", line {line}") })]
    Topology {
        /// The file's name, as given.
        file: String,
        /// The line, counted from 1; 0 when it is the whole file's matter.
        line: usize,
        /// The error in it, and what to do.
        problem: String,
    },
    /// A name of a host.
    #[error("'{host}' is not a host name: {problem}")]
    Host {
        /// The name as given.
        host: String,
        /// The error in it.
        problem: &'static str,
    },
    /// The end of a job.
    #[error("cannot determine when the scheduler ends this job: {0}")]
    JobEnd(String),
    /// There are no hosts.
    #[error("{0} names no hosts")]
    NoHosts(String),
    /// A job's name.
    #[error("'{name}' cannot be a job's name: {problem}")]
    JobName {
        /// The name as given.
        name: String,
        /// The error in it.
        problem: String,
    },
    /// A directory that others could have prepared is not used.
    #[error("the directory {path} is not safe to use: {problem}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// The error in it, and what to do.
        problem: String,
    },
    /// A key file that others may know, or that holds no key.
    #[error("the key in {path} is not safe to use: {problem}")]
    Key {
        /// The file.
        path: PathBuf,
        /// The error in it, and what to do.
        problem: String,
    },
    /// MUNGE does not do what is asked of it.
    #[error("cannot {doing} the job's key by MUNGE")]
    Munge {
        /// The verb: `seal`, `open`.
        doing: &'static str,
        /// Why.
        source: MungeProblem,
    },
    /// A record of a job is not one.
    #[error("{path} is not a record of a job: {problem}")]
    Record {
        /// The file.
        path: PathBuf,
        /// The error in it.
        problem: String,
    },
    /// The environment of a scheduler contradicts itself, or a launcher cannot start these nodes.
    #[error("{0}")]
    Allocation(String),
    /// The operating system refused something.
    #[error("cannot {doing} {object}")]
    Io {
        /// The verb: `create`, `read`.
        doing: &'static str,
        /// On what.
        object: String,
        /// Why.
        source: io::Error,
    },
}

impl LaunchError {
    /// An error of the operating system about a path.
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { doing, object: path.display().to_string(), source: source.into() }
    }
}

/// Why MUNGE did not do it.
#[derive(Debug, Error)]
pub enum MungeProblem {
    /// There is no such program.
    #[error("the program {0} is not installed")]
    NotInstalled(&'static str),
    /// The program cannot be run or spoken with.
    #[error("the program {0} cannot be run")]
    NotRun(&'static str, #[source] std::io::Error),
    /// It has been ended.
    #[error("{0} did not end within {1:?}; does munged hang?")]
    Silent(&'static str, Duration),
    /// The program says why.
    #[error("{0}")]
    Refused(String),
    /// Another user has made it.
    #[error("it was sealed by user {found}, not by you (user {own})")]
    Foreign {
        /// The user who made it.
        found: String,
        /// The user of this process.
        own: u32,
    },
    /// It is something else.
    #[error("{0}")]
    NotAKey(&'static str),
}
