//! Failures of what a drain does on the backing file system.

use std::fmt::{Display, Formatter};

use forebay_types::Errno;

/// A failure, after which the drain tries again.
#[derive(Debug)]
pub struct Failure {
    what: String,
    errno: Option<Errno>,
}

impl Failure {
    /// A call on the backing file system in words, and its error.
    pub fn of(what: impl Into<String>, errno: Errno) -> Self {
        Self { what: what.into(), errno: Some(errno) }
    }

    /// Another failure than of the backing file system.
    pub fn because(why: String) -> Self {
        Self { what: why, errno: None }
    }

    /// Whether the backing file system had no room, as far as the tier's user may take any.
    pub fn is_for_room(&self) -> bool {
        matches!(self.errno, Some(Errno::ENOSPC | Errno::EDQUOT))
    }
}

impl Display for Failure {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        match self.errno {
            Some(errno) => write!(out, "{}: {errno}", self.what),
            None => write!(out, "{}", self.what),
        }
    }
}
