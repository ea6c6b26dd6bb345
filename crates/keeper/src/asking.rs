//! The keeper's own socket: who connects may ask for a new daemon, and is answered when it serves.
//!
//! A socket of the keeper and not of the daemon, because a daemon that hangs could not be replaced otherwise. One client
//! at a time; the keeper waits for nobody.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

/// A request, bytes.
const LINE_BYTES_MAX: usize = 256;

/// The socket, and who has connected.
#[derive(Debug)]
pub struct Asking {
    listener: UnixListener,
    client: Option<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    line: Vec<u8>,
    has_asked: bool,
}

impl Asking {
    /// Makes the socket; one that a dead keeper left is replaced.
    pub fn listen(path: &Path) -> anyhow::Result<Self> {
        let _ = std::fs::remove_file(path);
        let failed = || format!("cannot make the keeper's socket {}", path.display());
        let listener = UnixListener::bind(path).with_context(failed)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).with_context(failed)?;
        listener.set_nonblocking(true).with_context(failed)?;
        Ok(Self { listener, client: None })
    }

    /// The descriptors to poll: clients, and the request of the current one.
    pub fn waits_for(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let asks = self.client.iter().filter(|client| !client.has_asked).map(|client| client.stream.as_fd());
        std::iter::once(self.listener.as_fd()).chain(asks)
    }

    /// Takes what has come. `true` when a new daemon is asked for.
    pub fn take(&mut self) -> bool {
        let is_asked = self.hear();
        self.accept();
        is_asked
    }

    fn hear(&mut self) -> bool {
        let Some(client) = self.client.as_mut().filter(|client| !client.has_asked) else { return false };
        match client.read() {
            Ok(is_whole) => {
                client.has_asked = is_whole;
                is_whole && self.check()
            }
            Err(error) => {
                tracing::debug!(%error, "a client of the keeper's socket is lost");
                self.client = None;
                false
            }
        }
    }

    /// A new client takes the place of one that has not asked yet, which may never do so.
    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        let own = rustix::process::geteuid();
        let is_own =
            rustix::net::sockopt::socket_peercred(&stream).is_ok_and(|peer| peer.uid == own || peer.uid.is_root());
        if !is_own {
            tracing::warn!("another user's connection to the keeper's socket was refused");
        } else if self.client.as_ref().is_some_and(|client| client.has_asked) {
            answer(stream, &json!({"error": "another request for a new daemon is under way"}));
        } else if stream.set_nonblocking(true).is_ok() {
            self.client = Some(Client { stream, line: Vec::new(), has_asked: false });
        }
    }

    fn check(&mut self) -> bool {
        let line = self.client.as_ref().map(|client| client.line.as_slice()).unwrap_or_default();
        let is_known = serde_json::from_slice::<Value>(line).is_ok_and(|asked| asked["command"] == "replace");
        if !is_known {
            self.answer(&json!({"error": "the keeper has no such command"}));
        }
        is_known
    }

    /// Answers the client that has asked, if there is one.
    pub fn answer(&mut self, value: &Value) {
        if let Some(client) = self.client.take_if(|client| client.has_asked) {
            answer(client.stream, value);
        }
    }
}

impl Client {
    /// Reads what is there; `true` when the line is whole.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; LINE_BYTES_MAX];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) if self.line.len() + len > LINE_BYTES_MAX => Err(io::ErrorKind::FileTooLarge.into()),
            Ok(len) => {
                self.line.extend_from_slice(&buffer[..len]);
                Ok(self.line.ends_with(b"\n"))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A client that does not take its answer does without.
fn answer(mut stream: UnixStream, value: &Value) {
    if let Err(error) = stream.write_all(format!("{value}\n").as_bytes()) {
        tracing::debug!(%error, "a client of the keeper's socket did not take its answer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_asks_nothing_keeps_nobody_from_asking() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let mut asking = Asking::listen(&path).unwrap();
        let _silent = UnixStream::connect(&path).unwrap();
        assert!(!asking.take());
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"{\"command\": \"replace\"}\n").unwrap();
        let _late = asking.take() || asking.take();
        assert!(asking.client.as_ref().unwrap().has_asked);
        let mut other = UnixStream::connect(&path).unwrap();
        assert!(!asking.take());
        asking.answer(&json!({"ok": 1}));
        let answers = [&mut client, &mut other].map(|stream| {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        assert_eq!(answers[0], "{\"ok\":1}\n");
        assert!(answers[1].contains("another request for a new daemon is under way"), "{answers:?}");
    }
}
