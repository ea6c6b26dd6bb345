//! Settings as they are given: texts, their origins, and errors in them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The command line.
    Option,
    /// The environment.
    Environment {
        /// By which variable.
        variable: String,
        /// Whether its value is text; one that is not is refused where it is read.
        is_text: bool,
    },
    /// The configuration file.
    File {
        /// Which.
        path: PathBuf,
        /// Where in it.
        line: usize,
    },
    /// The job spec of `up`.
    JobSpec,
    /// No other source gave one.
    Default,
}

impl Origin {
    /// One word, for `--json`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Option => "option",
            Self::Environment { .. } => "environment",
            Self::File { .. } => "file",
            Self::JobSpec => "job spec",
            Self::Default => "default",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
            _ => f.write_str(self.word()),
        }
    }
}

/// Something was said wrongly, before anything was done: exit status 2.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The texts that the command line gave.
pub type Given = BTreeMap<&'static str, Vec<String>>;
