//! The packets between a daemon and its process that writes notifications: notifications after a number, each as `/dev/fuse` takes it, and
//! the kernel's answer after the same number.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg};

/// Bytes of notifications in a packet: some hundred of one inode and its name each, beside which the packet costs nothing.
pub const NOTIFICATIONS_BYTES_MAX: usize = 32 << 10;

/// Bytes of a number.
const NUMBER_BYTES: usize = size_of::<u64>();

/// Sends what follows a number.
pub fn send(link: BorrowedFd<'_>, number: u64, rest: &[u8], flags: SendFlags) -> io::Result<()> {
    let (number, mut ancillary) = (number.to_ne_bytes(), SendAncillaryBuffer::default());
    let packet = [IoSlice::new(&number), IoSlice::new(rest)];
    retry_on_intr(|| sendmsg(link, &packet, &mut ancillary, flags | SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Waits for a packet: its number, and how much of `rest` follows it. `None` when the other side has ended.
pub fn receive(link: BorrowedFd<'_>, rest: &mut [u8]) -> io::Result<Option<(u64, usize)>> {
    let mut number = [0; NUMBER_BYTES];
    let received = retry_on_intr(|| {
        let mut packet = [IoSliceMut::new(&mut number), IoSliceMut::new(rest)];
        recvmsg(link, &mut packet, &mut RecvAncillaryBuffer::default(), RecvFlags::empty())
    })?;
    match received.bytes.checked_sub(NUMBER_BYTES) {
        Some(len) => Ok(Some((u64::from_ne_bytes(number), len))),
        None if received.bytes == 0 => Ok(None),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}
