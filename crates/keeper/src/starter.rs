//! The job's starter, as a keeper sees it: the reader of its standard output, who leaves when the job is up.
//!
//! A `forebay up` that is killed cannot take back its start. If the reader is gone, the keeper looks at the job's
//! record on this host. If the start has not ended and `up` does not run any more, the node ends. On other hosts there
//! is no record, and the node goes on.

use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use forebay_launch::{JobDirectory, JobRecord};
use serde_json::{Value, json};

use crate::options::KeeperOptions;

/// How long after a look that showed `up` alive the next one comes: it writes its record right after it stops reading,
/// and a process that is killed lives a moment longer than its descriptors.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Tells the node's starter. If no process reads, the node must clean up all the same.
pub fn tell(message: &Value) {
    if let Err(error) = writeln!(std::io::stdout(), "{message}") {
        tracing::warn!(%error, %message, "the messages of the node cannot be passed on");
    }
}

/// The message to the node's starter when its view answers.
pub fn ready_line(options: &KeeperOptions, port: u16) -> Value {
    json!({"ready": {
        "rank": options.rank.0, "pid": std::process::id(), "view": options.view.to_string_lossy(),
        "host": options.address.host, "port": port,
    }})
}

/// The state of the job's starter.
#[derive(Debug)]
pub enum Starter {
    /// It reads.
    Reads,
    /// It reads no more; why not is looked up then.
    Gone(Instant),
    /// It does not matter any more.
    Over,
}

impl Starter {
    /// Whether the start is waited for.
    pub fn new(is_waited_for: bool) -> Self {
        if is_waited_for { Self::Reads } else { Self::Over }
    }

    /// The descriptor to poll, without any event asked for: the end of its reader comes unasked.
    pub fn waits_for(&self) -> Option<BorrowedFd<'static>> {
        matches!(self, Self::Reads).then(rustix::stdio::stdout)
    }

    /// The reader has gone.
    pub fn reads_no_more(&mut self) {
        *self = Self::Gone(Instant::now());
    }

    /// When there is something to look up.
    pub fn due(&self) -> Option<Instant> {
        if let Self::Gone(at) = self { Some(*at) } else { None }
    }

    /// Looks, if it is time to. Whether it has died without an end to what it began.
    pub fn has_died(&mut self, directory: &JobDirectory, now: Instant) -> bool {
        if self.due().is_none_or(|at| at > now) {
            return false;
        }
        let is_alive = look_twice(|| JobRecord::read(directory).ok().flatten()?.starter_is_alive());
        *self = if is_alive == Some(true) { Self::Gone(now + LOOK_INTERVAL) } else { Self::Over };
        is_alive == Some(false)
    }
}

/// Whether it is alive, by looks that read the record and then look for its process. It may have written its last word and
/// ended between these two; but once it is dead it writes no more, so a second look has the last word.
fn look_twice(mut look: impl FnMut() -> Option<bool>) -> Option<bool> {
    match look() {
        Some(false) => look(),
        first => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_end_during_a_look_have_not_died() {
        let after = |looks: &[Option<bool>]| {
            let mut looks = looks.iter().copied();
            look_twice(|| looks.next().unwrap_or(None))
        };
        assert_eq!(after(&[Some(false), None]), None, "the start was over when it was looked again");
        assert_eq!(after(&[Some(false), Some(false)]), Some(false));
        assert_eq!(after(&[Some(true)]), Some(true));
        assert_eq!(after(&[None, Some(false)]), None);
    }
}
