//! The messages of a keeper and its daemon, over a pair of sockets that only they have.
//!
//! The other side's end of file is a message too: it has died. After an upgrade, keeper and daemon may be of different builds, so fields
//! are added, never changed. An unreadable message is an error, and the side that was there first stays.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::death::Death;

/// The layout of all that outlives a daemon: these messages, the ledger, the requests in flight. Another number after
/// every change that a daemon of the build before does not understand.
pub const LAYOUT: u32 = 10;

/// How a daemon ends that has handed over: its exit status.
pub const HANDED_OVER: u8 = 10;

/// A message from the keeper to a daemon.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum ToDaemon {
    /// The first message: what to be. With it the plan, as a file, and the job's key, as another, if there is one.
    Plan {
        /// The keeper's process.
        keeper_pid: u32,
        /// How many daemons died before this one.
        restarts: u32,
        /// How many were replaced in order.
        replaced: u32,
        /// `LAYOUT` of the keeper.
        layout: u32,
        /// Whether the job has been up already.
        #[serde(default)]
        job_is_up: bool,
        /// The last death, if there was one.
        #[serde(default)]
        last_death: Option<Death>,
    },
    /// Serve from now on. With it, in this order: the listener for peers, that of the control socket, the ledger of the
    /// inodes, the end of the kernel's leases; then for each mount the FUSE connection, and the memory of requests in flight if it is kept.
    Begin(Box<Begin>),
    /// Take no more requests, answer what is in flight, and end; another daemon goes on.
    HandOver,
    /// The job is over: unmount and end.
    End,
}

/// The mounts that a daemon is to serve.
#[derive(Serialize, Deserialize, Debug)]
pub struct Begin {
    /// The view.
    pub view: BegunMount,
    /// The burst mount.
    pub burst: Option<BegunMount>,
}

/// One of them.
#[derive(Serialize, Deserialize, Debug)]
pub struct BegunMount {
    /// Where, as an absolute path without links.
    pub path: PathBuf,
    /// Its device number.
    pub device: Option<(u32, u32)>,
    /// How it was made.
    pub how: String,
    /// When, milliseconds since 1970: tells it from the mounts before it.
    pub made_at_ms: u64,
    /// The session agreed with the kernel.
    pub session: Agreed,
    /// Whether requests in flight are kept in memory, since the kernel does not send them again.
    pub keeps_requests: bool,
}

/// `forebay_fuse::Negotiated`, as it travels.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct Agreed {
    minor: u32,
    flags: u64,
    offered: u64,
    max_background: u16,
    request_bytes_max: u32,
}

/// A message from a daemon to its keeper.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum ToKeeper {
    /// Everything is prepared that can be without the mount.
    StandingBy,
    /// The view answers.
    Ready,
    /// It still does; said every `limits::DAEMON_WORD_INTERVAL`.
    Alive,
    /// For the job's starter: how far it is, as one JSON object.
    Gathered(serde_json::Value),
    /// The job is up.
    JobIsUp,
    /// Its view is gone, and nothing of it matters any more.
    Leaves,
    /// It will not come to that.
    Failed {
        /// Why.
        message: String,
    },
}

impl From<forebay_fuse::Negotiated> for Agreed {
    fn from(from: forebay_fuse::Negotiated) -> Self {
        let forebay_fuse::Negotiated { minor, flags, offered, max_background, request_bytes_max } = from;
        Self { minor, flags, offered, max_background, request_bytes_max }
    }
}

impl From<Agreed> for forebay_fuse::Negotiated {
    fn from(from: Agreed) -> Self {
        let Agreed { minor, flags, offered, max_background, request_bytes_max } = from;
        Self { minor, flags, offered, max_background, request_bytes_max }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::fd::AsFd;

    use super::*;
    use crate::packets::{file_of, pair, receive, send, text_of};

    #[test]
    fn messages_arrive_whole_with_their_descriptors() {
        let (ours, theirs) = pair().unwrap();
        let plan = file_of(b"the plan").unwrap();
        send(
            ours.as_fd(),
            &ToDaemon::Plan {
                keeper_pid: 4,
                restarts: 2,
                replaced: 0,
                layout: LAYOUT,
                job_is_up: false,
                last_death: None,
            },
            &[plan.as_fd()],
        )
        .unwrap();
        send(ours.as_fd(), &ToDaemon::End, &[]).unwrap();
        drop((ours, plan));
        let (message, descriptors) = receive::<ToDaemon>(theirs.as_fd()).unwrap().unwrap();
        assert!(matches!(message, ToDaemon::Plan { keeper_pid: 4, restarts: 2, .. }));
        assert_eq!(text_of(&descriptors[0]).unwrap(), b"the plan");
        assert!(matches!(receive(theirs.as_fd()).unwrap(), Some((ToDaemon::End, none)) if none.is_empty()));
        assert!(receive::<ToDaemon>(theirs.as_fd()).unwrap().is_none());
    }

    #[test]
    fn a_message_of_another_build_is_an_error() {
        let (ours, theirs) = pair().unwrap();
        send(ours.as_fd(), &serde_json::json!({"dance": 1}), &[]).unwrap();
        assert_eq!(receive::<ToDaemon>(theirs.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
