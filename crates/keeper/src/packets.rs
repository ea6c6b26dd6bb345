//! How a keeper talks with daemons and programs: a message is one packet of JSON over a socket of this machine, with
//! descriptors beside it where it hands any over.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::MESSAGE_BYTES_MAX;

/// Descriptors of one message.
const DESCRIPTORS_MAX: usize = 16;

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
    Ok(Some((read(&text[..len])?, descriptors)))
}

/// The message of a packet.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text)
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
