//! How a connection begins: each side says who it is and whom it means, and either may leave.
//!
//! The side that connects speaks first, so a stranger that only listens learns nothing. A daemon of another version, job
//! or rank is answered before the connection is closed, so that both sides can say what is wrong; anything else is
//! closed without a word. `Hello::authentication` stays empty: a job key, once there is one, proves itself there, and
//! both checks below are the places that must refuse a peer without the proof.

use std::io;
use std::sync::Arc;

use forebay_types::{NodeRank, limits};
use forebay_wire::message::{MAGIC, PROTOCOL_VERSION, decode, encode};
use forebay_wire::{Class, FrameKind, Hello};

use crate::counts::Counts;
use crate::error::Refusal;
use crate::reader::{FrameReader, ReadError};
use crate::stream::Stream;
use crate::writer::{FrameWriter, Outgoing};

/// Who this node is, as far as handshakes are concerned.
pub(crate) struct Identity {
    pub(crate) job: String,
    pub(crate) rank: NodeRank,
    /// Number of nodes in the job.
    pub(crate) nodes: usize,
}

/// A connection that shook hands.
pub(crate) struct Greeted {
    pub(crate) reader: FrameReader,
    pub(crate) writer: FrameWriter,
}

impl Greeted {
    fn new(stream: Stream, counts: &Arc<Counts>) -> Self {
        let reader = FrameReader::new(stream.reader, Arc::clone(counts));
        Self { reader, writer: FrameWriter::new(stream.writer, Arc::clone(counts)) }
    }

    async fn say(&mut self, hello: &Hello) -> Result<(), Refusal> {
        self.writer.push(Outgoing::hello(encode(hello)));
        self.writer.write().await.map_err(closed)
    }

    async fn hear(&mut self) -> Result<Hello, Refusal> {
        let head = self.reader.head().await.map_err(|error| match error {
            ReadError::Lost(error) => closed(error),
            ReadError::Corrupt(_) => Refusal::Stranger,
        })?;
        let len = head.head_bytes as usize;
        let is_hello = head.kind == FrameKind::Hello && head.stream == 0 && head.body_bytes == 0;
        if !is_hello || len > limits::HELLO_BYTES_MAX {
            return Err(Refusal::Stranger);
        }
        let message = self.reader.long_message(len).await.map_err(closed)?;
        match decode::<Hello>(&message) {
            Ok(hello) if hello.magic != MAGIC => Err(Refusal::Stranger),
            Ok(hello) if hello.version != PROTOCOL_VERSION => Err(Refusal::Version { theirs: hello.version }),
            Ok(hello) => Ok(hello),
            Err(_) => Err(other_version(&message)),
        }
    }
}

/// Shakes hands on a connection that this node opened to `to`.
pub(crate) async fn greet(
    stream: Stream,
    identity: &Identity,
    (to, class, session): (NodeRank, Class, u64),
    counts: &Arc<Counts>,
) -> Result<Greeted, Refusal> {
    let mut connection = Greeted::new(stream, counts);
    connection.say(&hello(identity, to, class, session)).await?;
    let theirs = connection.hear().await?;
    check(identity, &theirs)?;
    if theirs.from != to {
        return Err(Refusal::Rank { from: theirs.from, to: theirs.to });
    }
    if (theirs.class, theirs.session) != (class, session) {
        return Err(Refusal::Session);
    }
    Ok(connection)
}

/// Shakes hands on a connection that somebody opened to this node.
pub(crate) async fn welcome(
    stream: Stream,
    identity: &Identity,
    counts: &Arc<Counts>,
) -> Result<(Hello, Greeted), Refusal> {
    let mut connection = Greeted::new(stream, counts);
    let theirs = match connection.hear().await {
        Ok(theirs) => theirs,
        Err(refusal @ Refusal::Version { .. }) => {
            connection.say(&hello(identity, NodeRank(0), Class::Control, 0)).await?;
            return Err(refusal);
        }
        Err(refusal) => return Err(refusal),
    };
    connection.say(&hello(identity, theirs.from, theirs.class, theirs.session)).await?;
    check(identity, &theirs)?;
    Ok((theirs, connection))
}

fn hello(identity: &Identity, to: NodeRank, class: Class, session: u64) -> Hello {
    Hello {
        magic: MAGIC,
        version: PROTOCOL_VERSION,
        job: identity.job.clone(),
        from: identity.rank,
        to,
        class,
        session,
        authentication: Vec::new(),
    }
}

fn check(identity: &Identity, theirs: &Hello) -> Result<(), Refusal> {
    if theirs.job != identity.job {
        return Err(Refusal::Job { theirs: theirs.job.clone(), ours: identity.job.clone() });
    }
    if theirs.to != identity.rank || theirs.from.0 as usize >= identity.nodes {
        return Err(Refusal::Rank { from: theirs.from, to: theirs.to });
    }
    Ok(())
}

/// What is wrong with a message that is no `Hello` of this version. The magic and the version come first in every
/// version: 8 bytes, then the number in groups of seven bits, lowest first.
fn other_version(message: &[u8]) -> Refusal {
    let Some(rest) = message.strip_prefix(&MAGIC) else {
        return Refusal::Stranger;
    };
    let mut version = 0u32;
    for (index, byte) in rest.iter().take(3).enumerate() {
        version |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let theirs = u16::try_from(version).unwrap_or(u16::MAX);
            return if theirs == PROTOCOL_VERSION { Refusal::Stranger } else { Refusal::Version { theirs } };
        }
    }
    Refusal::Stranger
}

/// A peer that refuses closes the connection, which the system reports in one of three ways.
fn closed(error: io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Refusal::Closed,
        _ => Refusal::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_a_hello_of_any_version() {
        let hello = |version| {
            let class = Class::Control;
            let (job, from, to) = (String::new(), NodeRank(0), NodeRank(0));
            Hello { magic: MAGIC, version, job, from, to, class, session: 0, authentication: vec![] }
        };
        for version in [0, 2, 127, 128, 300, u16::MAX] {
            let mut message = encode(&hello(version));
            message.push(1);
            assert!(matches!(other_version(&message), Refusal::Version { theirs } if theirs == version));
        }
        let mut same = encode(&hello(PROTOCOL_VERSION));
        same.push(1);
        for stranger in [&same[..], b"", b"GET / HTTP", &MAGIC, &[&MAGIC[..], &[0xff; 9]].concat()] {
            assert!(matches!(other_version(stranger), Refusal::Stranger), "{stranger:?}");
        }
    }
}
