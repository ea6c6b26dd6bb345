//! The job's starter, as a keeper sees it: the reader of its standard output, who leaves when the job is up.
//!
//! A `forebay up` that is killed cannot take back its start. If the reader is gone, the keeper looks at the job's
//! record on this host. If the start has not ended and `up` does not run any more, the node ends. On other hosts there
//! is no record: if the node does not hear within a while from the others that the job is up, it ends, too.

use std::io::{ErrorKind, Write};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use forebay_launch::{JobDirectory, JobRecord, Progress};
use serde_json::{Value, json};

use crate::options::KeeperOptions;

/// How long after a look that showed `up` alive the next one comes: it writes its record right after it stops reading,
/// and a process that is killed lives a moment longer than its descriptors.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// When a node whose starter is gone ends, if nobody has told it that the job is up: the others do so at once, where they can.
pub const UP_TOLD_WITHIN: Duration = Duration::from_secs(30);

/// Tells the node's starter. If no process reads, the node must clean up all the same.
pub fn tell(message: &Value) {
    match writeln!(std::io::stdout(), "{message}") {
        Ok(()) => {}
        // A start that is over has no reader: what becomes of the node then is up to `Starter`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => tracing::info!(%message, "no starter reads any more"),
        Err(error) => tracing::warn!(%error, %message, "the messages of the node cannot be passed on"),
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
    /// It reads no more.
    Gone {
        /// Since when.
        since: Instant,
        /// When it is looked up why.
        look_at: Instant,
    },
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
        let now = Instant::now();
        *self = Self::Gone { since: now, look_at: now };
    }

    /// When there is something to look up.
    pub fn due(&self) -> Option<Instant> {
        if let Self::Gone { look_at, .. } = self { Some(*look_at) } else { None }
    }

    /// Looks, if it is time to. Whether it has died without an end to what it began.
    pub fn has_died(&mut self, directory: &JobDirectory, job_is_up: bool, now: Instant) -> bool {
        let Self::Gone { since, look_at } = *self else { return false };
        if look_at > now {
            return false;
        }
        let seen = if job_is_up { Seen::Up } else { look_twice(|| Seen::of(directory)) };
        let has_died = match seen {
            Seen::Alive => false,
            Seen::Nothing => now.duration_since(since) >= UP_TOLD_WITHIN,
            Seen::Dead => true,
            Seen::Up => {
                *self = Self::Over;
                return false;
            }
        };
        *self = if has_died { Self::Over } else { Self::Gone { since, look_at: now + LOOK_INTERVAL } };
        has_died
    }
}

/// The part of the start that is seen from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    /// `up` goes on with it.
    Alive,
    /// `up` has died in the middle.
    Dead,
    /// It has come to its end.
    Up,
    /// It cannot be told: `up` runs on another host.
    Nothing,
}

impl Seen {
    fn of(directory: &JobDirectory) -> Self {
        let Some(record) = JobRecord::read(directory).ok().flatten() else { return Self::Nothing };
        match (record.progress, record.starter_is_alive()) {
            (Progress::Ready, _) => Self::Up,
            (Progress::Starting, Some(true)) => Self::Alive,
            (Progress::Starting, Some(false)) => Self::Dead,
            (Progress::Starting, None) => Self::Nothing,
        }
    }
}

/// The outcome of looks that read the record and then look for its process. The process may have written its last word and ended between these two; but
/// once it is dead it writes no more, so a second look has the last word.
fn look_twice(mut look: impl FnMut() -> Seen) -> Seen {
    match look() {
        Seen::Dead => look(),
        first => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_end_during_a_look_have_not_died() {
        let after = |looks: &[Seen]| {
            let mut looks = looks.iter().copied();
            look_twice(|| looks.next().unwrap())
        };
        assert_eq!(after(&[Seen::Dead, Seen::Up]), Seen::Up, "the start was over when it was looked again");
        assert_eq!(after(&[Seen::Dead, Seen::Dead]), Seen::Dead);
        assert_eq!(after(&[Seen::Alive]), Seen::Alive);
        assert_eq!(after(&[Seen::Nothing]), Seen::Nothing);
    }

    #[test]
    fn a_node_that_nobody_tells_that_the_job_is_up_ends() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&temporary.path().join("jobs"), "job").unwrap().unwrap();
        let gone = || {
            let mut starter = Starter::new(true);
            starter.reads_no_more();
            starter
        };
        let (began, mut starter) = (Instant::now(), gone());
        let late = began + UP_TOLD_WITHIN + Duration::from_secs(1);
        assert!(!starter.has_died(&directory, false, began + UP_TOLD_WITHIN / 2), "it may still be told");
        assert!(starter.has_died(&directory, false, late));
        let mut told = gone();
        assert!(!told.has_died(&directory, true, late) && told.due().is_none(), "it has been");
    }
}
