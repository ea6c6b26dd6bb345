//! How a connection begins: two greetings, then each side proves who it is, the one that connected first.
//!
//! A greeting says which protocol and level are spoken here and adds a random number; nothing in it is about the job.
//! From the job's key and both greetings, byte for byte as they went over the network, both sides derive the keys of
//! this connection, one a direction. The hellos that follow are sealed with them: who can open one and seal the other
//! holds the job's key and saw the same greetings. So nothing recorded elsewhere, nothing sent back to its sender and no
//! altered greeting passes; and ranks, class and session, which the hellos name, are bound to the keys that all later
//! frames are protected by. The address and the port that the connection was made to go into the keys too: another user
//! who has taken one of a node's ports, or its port at another address of its host, cannot stand between it and its peers.
//! A peer that fails is told only the version and the level, which it may ask for.
//!
//! With level `Off` the hellos are readable, and prove nothing.

use std::io;
use std::sync::Arc;

use forebay_body::Pool;
use forebay_types::NodeRank;
use forebay_wire::message::{MAGIC, PROTOCOL_VERSION, decode, encode};
use forebay_wire::{Class, FrameKind, Greeting, Hello, NONCE_BYTES, WireError};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::counts::Counts;
use crate::error::Refusal;
use crate::guard::{Greetings, Role, guards};
use crate::limits;
use crate::options::Security;
use crate::reader::{FrameReader, ReadError};
use crate::stream::Stream;
use crate::writer::{FrameWriter, Outgoing};

/// This node's identity in handshakes.
pub(crate) struct Identity {
    pub(crate) job: String,
    pub(crate) rank: NodeRank,
    /// Number of nodes in the job.
    pub(crate) nodes: usize,
    pub(crate) security: Security,
}

/// A connection that shook hands.
pub(crate) struct Greeted {
    pub(crate) reader: FrameReader,
    pub(crate) writer: FrameWriter,
}

/// Shakes hands on a connection that this node opened to `to`.
pub(crate) async fn greet(
    stream: Stream,
    identity: &Identity,
    (to, class, session): (NodeRank, Class, u64),
    pool: &Pool,
    counts: &Arc<Counts>,
) -> Result<Greeted, Refusal> {
    let place = stream.place;
    let mut connection = Greeted::new(stream, pool, counts);
    let ours = greeting(identity)?;
    connection.say(FrameKind::Greeting, ours.clone()).await?;
    let theirs = connection.hear_greeting(identity).await?;
    connection.use_key(&identity.security, Role::Asking, Greetings { asking: &ours, answering: &theirs, place });
    connection.say_hello(identity, to, class, session).await?;
    let theirs = connection.hear_hello().await?;
    check(identity, &theirs)?;
    if theirs.from != to {
        return Err(Refusal::Rank { from: theirs.from, to: theirs.to });
    }
    if (theirs.class, theirs.session) != (class, session) {
        return Err(Refusal::Session);
    }
    Ok(connection.at_level_of(identity))
}

/// Shakes hands on a connection that somebody opened to this node.
pub(crate) async fn welcome(
    stream: Stream,
    identity: &Identity,
    pool: &Pool,
    counts: &Arc<Counts>,
) -> Result<(Hello, Greeted), Refusal> {
    let place = stream.place;
    let mut connection = Greeted::new(stream, pool, counts);
    let ours = greeting(identity)?;
    let theirs = match connection.hear_greeting(identity).await {
        Ok(theirs) => theirs,
        Err(refusal @ (Refusal::Version { .. } | Refusal::Level { .. })) => {
            connection.say(FrameKind::Greeting, ours).await?;
            return Err(refusal);
        }
        Err(refusal) => return Err(refusal),
    };
    connection.say(FrameKind::Greeting, ours.clone()).await?;
    connection.use_key(&identity.security, Role::Answering, Greetings { asking: &theirs, answering: &ours, place });
    let theirs = connection.hear_hello().await?;
    // Said before it is checked: a daemon with the key but with another list of nodes can say what is wrong.
    connection.say_hello(identity, theirs.from, theirs.class, theirs.session).await?;
    check(identity, &theirs)?;
    Ok((theirs, connection.at_level_of(identity)))
}

impl Greeted {
    fn new(stream: Stream, pool: &Pool, counts: &Arc<Counts>) -> Self {
        let reader = FrameReader::new(stream.reader, Arc::clone(counts));
        Self { reader, writer: FrameWriter::new(stream.writer, pool.clone(), Arc::clone(counts)) }
    }

    async fn say(&mut self, kind: FrameKind, message: Vec<u8>) -> Result<(), Refusal> {
        self.writer.push(Outgoing::handshake(kind, message));
        self.writer.write().await.map_err(closed)
    }

    async fn hear(&mut self, kind: FrameKind) -> Result<(), Refusal> {
        let head = self.reader.head_within(limits::HELLO_BYTES_MAX).await.map_err(|error| match error {
            ReadError::Lost(error) => closed(error),
            ReadError::Corrupt(WireError::Forged) => Refusal::Key,
            ReadError::Corrupt(_) => Refusal::NoDaemon,
        })?;
        let fits = head.kind == kind && head.stream == 0 && head.body_bytes == 0;
        if fits { Ok(()) } else { Err(Refusal::NoDaemon) }
    }

    /// The other side's greeting as it was sent.
    async fn hear_greeting(&mut self, identity: &Identity) -> Result<Vec<u8>, Refusal> {
        self.hear(FrameKind::Greeting).await?;
        let message = self.reader.message_bytes().to_vec();
        let ours = identity.security.level();
        match decode::<Greeting>(&message) {
            Ok(theirs) if theirs.magic != MAGIC => Err(Refusal::NoDaemon),
            Ok(theirs) if theirs.version != PROTOCOL_VERSION => Err(Refusal::Version { theirs: theirs.version }),
            Ok(theirs) if theirs.level != ours => Err(Refusal::Level { theirs: theirs.level, ours }),
            Ok(_) => Ok(message),
            Err(_) => Err(other_version(&message)),
        }
    }

    fn use_key(&mut self, security: &Security, role: Role, greetings: Greetings<'_>) {
        if let Some(key) = security.key() {
            (*self.writer.guard(), *self.reader.guard()) = guards(key, role, greetings);
        }
    }

    async fn say_hello(
        &mut self,
        identity: &Identity,
        to: NodeRank,
        class: Class,
        session: u64,
    ) -> Result<(), Refusal> {
        let hello = Hello { job: identity.job.clone(), from: identity.rank, to, class, session };
        self.say(FrameKind::Hello, encode(&hello)).await
    }

    async fn hear_hello(&mut self) -> Result<Hello, Refusal> {
        self.hear(FrameKind::Hello).await?;
        self.reader.message().map_err(|_| Refusal::NoDaemon)
    }

    fn at_level_of(mut self, identity: &Identity) -> Self {
        let level = identity.security.level();
        self.writer.guard().set_level(level);
        self.reader.guard().set_level(level);
        self
    }
}

fn greeting(identity: &Identity) -> Result<Vec<u8>, Refusal> {
    let mut nonce = [0; NONCE_BYTES];
    // Of this length the system gives all or fails.
    getrandom(&mut nonce, GetRandomFlags::empty()).map_err(|errno| Refusal::Io(errno.into()))?;
    let level = identity.security.level();
    Ok(encode(&Greeting { magic: MAGIC, version: PROTOCOL_VERSION, level, nonce }))
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

/// The error in a message that is no `Greeting` of this version. The magic and the version come first in every
/// version: 8 bytes, then the number in groups of seven bits, lowest first.
fn other_version(message: &[u8]) -> Refusal {
    let Some(rest) = message.strip_prefix(&MAGIC) else {
        return Refusal::NoDaemon;
    };
    let mut version = 0u32;
    for (index, byte) in rest.iter().take(3).enumerate() {
        version |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let theirs = u16::try_from(version).unwrap_or(u16::MAX);
            return if theirs == PROTOCOL_VERSION { Refusal::NoDaemon } else { Refusal::Version { theirs } };
        }
    }
    Refusal::NoDaemon
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
    use forebay_wire::Level;

    #[test]
    fn the_version_is_read_from_a_greeting_of_any_version() {
        let greeting =
            |version| encode(&Greeting { magic: MAGIC, version, level: Level::Auth, nonce: [7; NONCE_BYTES] });
        for version in [0, 1, 127, 128, 300, u16::MAX] {
            let mut message = greeting(version);
            message.push(1);
            assert!(matches!(other_version(&message), Refusal::Version { theirs } if theirs == version));
        }
        let mut same = greeting(PROTOCOL_VERSION);
        same.push(1);
        for other in [&same[..], b"", b"GET / HTTP", &MAGIC, &[&MAGIC[..], &[0xff; 9]].concat()] {
            assert!(matches!(other_version(other), Refusal::NoDaemon), "{other:?}");
        }
    }
}
