//! Contents of other nodes' logs, which they send.

use std::time::Duration;

use bytes::Bytes;
use forebay_types::{Errno, NodeRank};
use forebay_wire::Outcome;
use forebay_wire::write_message::WriteMessage;

use super::peers::copy;
use super::remote::asking::To;
use super::remote::{Nodes, TIMEOUT};

/// How long a node is asked where somebody else has what is asked for.
const COPIED_TIMEOUT: Duration = Duration::from_secs(4);

impl Nodes {
    /// Fills `into` with what `message` asks for.
    ///
    /// # Errors
    /// As `read_parts`.
    pub async fn read(&self, from: NodeRank, message: &WriteMessage, into: &mut [u8]) -> Result<(), Errno> {
        self.read_parts(from, message, into.len()).await.map(|parts| copy(&parts, into))
    }

    /// The `len` bytes that `message` asks for.
    ///
    /// # Errors
    /// The other node's error; EIO when it says nothing.
    pub async fn read_parts(&self, from: NodeRank, message: &WriteMessage, len: usize) -> Result<Vec<Bytes>, Errno> {
        self.read_within(from, message, len, if self.has_partners() { COPIED_TIMEOUT } else { TIMEOUT }).await
    }

    /// The same, asked for `timeout` at most.
    ///
    /// # Errors
    /// As `read_parts`.
    pub async fn read_within(
        &self,
        from: NodeRank,
        message: &WriteMessage,
        len: usize,
        timeout: Duration,
    ) -> Result<Vec<Bytes>, Errno> {
        let (_, answered) = self.call(To::Node(from), message, timeout).await?;
        match answered {
            (Outcome::Body, parts) if parts.iter().map(Bytes::len).sum::<usize>() == len => Ok(parts),
            (Outcome::Bundle(errors), _) => Err(errors.into_iter().flatten().next().unwrap_or(Errno::EIO)),
            _ => Err(Errno::EPROTO),
        }
    }
}
