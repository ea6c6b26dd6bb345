//! The descriptors that a starter hands to a node on its own machine: the socket to listen on and the job's key. They
//! travel in one message over a pair of sockets, so no other child of the starter inherits either of them.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::packets;

/// The descriptors that a keeper has from its starter. It passes the key on to each of its daemons and never reads it.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Where peers connect.
    pub listener: Option<TcpListener>,
    /// The memory file with the job's key.
    pub key: Option<OwnedFd>,
}

/// The message beside these descriptors.
#[derive(Serialize, Deserialize)]
pub struct HandedNames {
    has_key: bool,
}

impl Replayed {
    /// A standard input for the node of this machine that shall have them. This process keeps neither end of it.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn over(listener: &TcpListener, key: Option<BorrowedFd<'_>>) -> std::io::Result<OwnedFd> {
        let (ours, theirs) = packets::pair()?;
        let names = HandedNames { has_key: key.is_some() };
        let descriptors: Vec<BorrowedFd<'_>> = [Some(listener.as_fd()), key].into_iter().flatten().collect();
        packets::send(ours.as_fd(), &names, &descriptors)?;
        Ok(theirs)
    }

    /// Takes them from standard input.
    ///
    /// # Errors
    /// When standard input is something else.
    pub fn from_stdin() -> anyhow::Result<Self> {
        let link = take_stdin().context("cannot take over what the node is handed")?;
        let handed = packets::receive::<HandedNames>(link.as_fd()).context("what the node is handed cannot be read")?;
        let (names, descriptors) = handed.context("the node was handed nothing")?;
        let mut descriptors = descriptors.into_iter();
        let listener = descriptors.next().context("the node was handed no listening socket")?;
        let key = descriptors.next();
        ensure!(names.has_key == key.is_some(), "too few open files are allowed here to take over the key (ulimit -n)");
        Ok(Self { listener: Some(listener.into()), key })
    }
}

/// Standard input, which then belongs to nobody.
///
/// # Errors
/// When the system has no more descriptors.
pub fn take_stdin() -> std::io::Result<OwnedFd> {
    let taken = std::io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(taken)
}
