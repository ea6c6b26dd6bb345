//! Mounting by the setuid program fusermount3, for users who may not call `mount(2)`.
//!
//! The program gets one end of a socket pair (its number in `_FUSE_COMMFD`), mounts, and sends the descriptor of
//! `/dev/fuse` back over it. Every failure here is a sentence for the user: what fusermount3 itself said, or why it
//! could not be asked.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::io::FdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg, socketpair,
};

use crate::mount::MountOptions;

const PROGRAM: &str = "fusermount3";

/// Mounts on `dir` and returns the connection.
pub(crate) fn mount(dir: &Path, options: &MountOptions) -> Result<Arc<OwnedFd>, String> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| format!("no socket pair for {PROGRAM}: {error}"))?;
    let mut command = Command::new(PROGRAM);
    command.args(["-o", &option_text(options), "--"]).arg(dir);
    command.env("_FUSE_COMMFD", theirs.as_raw_fd().to_string());
    inherit(&mut command, theirs.as_fd());
    let output = run(&mut command);
    drop(theirs);
    output?;
    receive_descriptor(ours.as_fd()).map(Arc::new).map_err(|error| format!("{PROGRAM} sent no descriptor: {error}"))
}

/// Unmounts `dir` lazily.
pub(crate) fn unmount(dir: &Path) -> Result<(), String> {
    run(Command::new(PROGRAM).args(["-u", "-z", "--"]).arg(dir))
}

/// The options as one text; a comma within the source must not end it.
fn option_text(options: &MountOptions) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace(',', "\\,");
    let mut text = format!("nosuid,nodev,fsname={},subtype={}", escaped(&options.source), escaped(&options.subtype));
    let words = [
        (options.read_only, ",ro"),
        (options.allow_other, ",allow_other"),
        (options.default_permissions, ",default_permissions"),
    ];
    for (_, word) in words.into_iter().filter(|(wanted, _)| *wanted) {
        text.push_str(word);
    }
    text
}

/// Lets the child keep `descriptor` over its exec.
fn inherit(command: &mut Command, descriptor: BorrowedFd<'_>) {
    let number = descriptor.as_raw_fd();
    let keep = move || {
        // SAFETY: the closure runs in the child between fork and exec, where the parent's descriptors are still open
        // under their numbers; the parent keeps this one open until the child has ended.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_setfd(descriptor, FdFlags::empty()).map_err(io::Error::from)
    };
    // SAFETY: the closure makes one system call and neither allocates nor locks, so it is sound after a fork of a
    // process with threads.
    unsafe { command.pre_exec(keep) };
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output().map_err(
        |error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{PROGRAM} is not installed; install the package fuse3, or run inside a user namespace (unshare -Ur)"
            ),
            _ => format!("{PROGRAM} could not be started: {error}"),
        },
    )?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("fusermount3: ");
    Err(format!("{PROGRAM} refused ({}): {}", output.status, if said.is_empty() { "no reason given" } else { said }))
}

fn receive_descriptor(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut messages = ancillary.drain();
    let found = messages.find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    found.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_the_source_stays_in_the_source() {
        let options = MountOptions { source: "a,allow_other".into(), ..MountOptions::default() };
        assert_eq!(option_text(&options), "nosuid,nodev,fsname=a\\,allow_other,subtype=forebay,ro,default_permissions");
    }
}
