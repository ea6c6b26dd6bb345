//! Mounting by the setuid program fusermount3, for users who may not call `mount(2)`.
//!
//! The program gets one end of a socket pair (its number in `_FUSE_COMMFD`), mounts, and sends the descriptor of
//! `/dev/fuse` back over it. Every failure here is a sentence for the user: what fusermount3 itself said, or why it
//! could not be asked.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg, socketpair,
};

use crate::options::MountOptions;

const PROGRAM: &str = "fusermount3";

/// Mounts on `dir` and returns the connection.
pub(crate) fn mount(dir: &Path, options: &MountOptions) -> Result<Arc<OwnedFd>, String> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| format!("no socket pair for {PROGRAM}: {error}"))?;
    let mut command = Command::new(PROGRAM);
    command.args(["-o", &option_text(options), "--"]).arg(dir);
    // As its standard input: the one descriptor that a child gets by number without a step between fork and exec.
    run(command.env("_FUSE_COMMFD", "0").stdin(theirs))?;
    // Our copy of its end goes with the command, so that receiving ends when nothing was sent.
    drop(command);
    receive_descriptor(ours.as_fd()).map(Arc::new).map_err(|error| format!("{PROGRAM} sent no descriptor: {error}"))
}

/// Unmounts `dir` lazily.
pub(crate) fn unmount(dir: &Path) -> Result<(), String> {
    run(Command::new(PROGRAM).args(["-u", "-z", "--"]).arg(dir).stdin(Stdio::null()))
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

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{PROGRAM} is not installed; install the package fuse3, or run inside a user namespace (unshare -Ur)"
        ),
        _ => format!("{PROGRAM} could not be started: {error}"),
    })?;
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
