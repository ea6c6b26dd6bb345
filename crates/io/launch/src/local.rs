//! Nodes on this machine: listeners bound here, daemons as children.
//!
//! The launcher binds the listeners, so that every daemon knows all ports before any of them runs and no port can be
//! taken in between. A node gets what it is handed over a socket that is its standard input: that is inherited without unsafe code
//! on either side, and by nobody else.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_types::NodeRank;

use crate::{LaunchError, NodeAddress, Starter};

/// Listeners for `count` nodes on the loopback interface, with their addresses.
///
/// # Errors
/// `Io` when the machine gives no more ports or descriptors.
pub fn bind_listeners(count: usize) -> Result<Vec<(TcpListener, NodeAddress)>, LaunchError> {
    (0..count)
        .map(|_| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            Ok((listener, NodeAddress { host: Ipv4Addr::LOCALHOST.to_string(), port }))
        })
        .collect::<std::io::Result<_>>()
        .map_err(|source| LaunchError::Io { doing: "listen on", object: format!("{count} ports"), source })
}

/// The command that runs the daemon of `rank` as a child of this process, its standard error in `log`.
///
/// # Errors
/// `Io` when the log cannot be written.
pub fn local_starter(
    program: &Path,
    arguments: Vec<OsString>,
    rank: NodeRank,
    stdin: OwnedFd,
    log: PathBuf,
) -> Result<Starter, LaunchError> {
    let stderr = append_to(&log)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(stdin)).stderr(stderr);
    // A daemon must not keep the user's directory in use.
    command.current_dir("/");
    Ok(Starter { name: "its daemon".to_owned(), ranks: vec![rank], command, stderr: log, leaves: false, trial: None })
}

/// A log, opened so that several writers do not overwrite each other.
pub(crate) fn append_to(log: &Path) -> Result<std::fs::File, LaunchError> {
    OpenOptions::new().create(true).append(true).open(log).map_err(|error| LaunchError::io("write", log, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_a_port_of_its_own() {
        let bound = bind_listeners(8).unwrap();
        let ports: std::collections::BTreeSet<u16> = bound.iter().map(|(_, address)| address.port).collect();
        assert_eq!(ports.len(), 8);
        assert!(bound.iter().all(|(listener, address)| listener.local_addr().unwrap().port() == address.port));
    }
}
