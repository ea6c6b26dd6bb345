//! What a keeper and its daemon tell each other, over a pair of sockets that only they have.
//!
//! A message is one packet of JSON, with descriptors beside it where it hands any over. The other side's end of file is a
//! message too: it has died. Keeper and daemon may be of different builds after an upgrade, so fields are added, never
//! changed; what a side cannot read is an error, and the side that was there first stays.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The layout of all that outlives a daemon: these messages, the ledger, the requests in flight. Another number after
/// every change that a daemon of the build before does not understand.
pub const LAYOUT: u32 = 4;

/// How a daemon ends that has handed over: its exit status.
pub const HANDED_OVER: u8 = 10;

/// A message, bytes: two paths as long as they can be, with room.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Descriptors of one message.
const DESCRIPTORS_MAX: usize = 8;

/// What the keeper tells a daemon.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum ToDaemon {
    /// The first message: what to be. With it the plan, as a file.
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
    },
    /// Serve from now on. With it, in this order: the FUSE connection, the listener for peers, that of the control
    /// socket, the ledger of the inodes, the memory of requests in flight if the kernel sends none again.
    Begin(Begin),
    /// Take no more requests, answer what is in flight, and end; another daemon goes on.
    HandOver,
    /// The job is over: unmount and end.
    End,
}

/// What a daemon must know of the mount that it serves.
#[derive(Serialize, Deserialize, Debug)]
pub struct Begin {
    /// Where, as an absolute path without links.
    pub view: PathBuf,
    /// Its device number.
    pub device: Option<(u32, u32)>,
    /// How it was made.
    pub how: String,
    /// What was agreed with the kernel.
    pub session: Agreed,
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

/// What a daemon tells its keeper.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum ToKeeper {
    /// Everything is prepared that can be without the mount.
    StandingBy,
    /// The view answers.
    Ready,
    /// It still does; said every `limits::DAEMON_WORD_INTERVAL`.
    Alive,
    /// For whoever started the job: how far it is, as one JSON object.
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

/// The two ends of a link.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message with descriptors.
pub fn send<T: Serialize>(link: BorrowedFd<'_>, message: &T, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(link, message, descriptors, SendFlags::NOSIGNAL)
}

/// Sends a message if the other side has room for it.
pub fn send_if_room<T: Serialize>(link: BorrowedFd<'_>, message: &T, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(link, message, descriptors, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with<T: Serialize>(
    link: BorrowedFd<'_>,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        match sendmsg(link, &[IoSlice::new(&text)], &mut ancillary, flags) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Waits for a message and its descriptors; `None` when the other side has ended.
pub fn receive<T: DeserializeOwned>(link: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut text = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let len = loop {
        match recvmsg(link, &mut [IoSliceMut::new(&mut text)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => break 0,
            Err(errno) => return Err(errno.into()),
        }
    };
    if len == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(handed) = part {
            descriptors.extend(handed);
        }
    }
    Ok(Some((serde_json::from_slice(&text[..len])?, descriptors)))
}

/// A file in memory with `text` in it, to be handed over.
pub fn file_of(text: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("forebay-plan", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut written = 0;
    while written < text.len() {
        written += rustix::io::pwrite(&file, &text[written..], written as u64)?;
    }
    Ok(file)
}

/// The contents of such a file. It may be read by several, so its position is left alone.
pub fn text_of(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let len = forebay_fuse::shared_memory_bytes(file.as_fd())?;
    let mut text = vec![0; len];
    let mut read = 0;
    while read < len {
        match rustix::io::pread(file, &mut text[read..], read as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_with_their_descriptors() {
        let (ours, theirs) = pair().unwrap();
        let plan = file_of(b"the plan").unwrap();
        send(
            ours.as_fd(),
            &ToDaemon::Plan { keeper_pid: 4, restarts: 2, replaced: 0, layout: LAYOUT, job_is_up: false },
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
