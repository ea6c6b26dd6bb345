//! A request as it travels: one envelope for every path, with a path's own message inside.
//!
//! The envelope carries the values that every node treats alike: the time that the asking node still waits, the priority, and
//! its last refresh. The request proper is a message of one path; another path adds a message of its own and one line here.

use forebay_types::{Epoch, Priority, Referral};
use serde::{Deserialize, Serialize};

use crate::job::JobMessage;
use crate::message::Checked;
use crate::query::QueryMessage;
use crate::read::ReadMessage;
use crate::write_message::WriteMessage;

/// A request with the time it may still take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Envelope {
    /// Milliseconds the asking node still waits; clocks of nodes need not agree.
    pub remaining_ms: u32,
    /// The request.
    pub request: Request,
}

/// A node's request to another: the message, its priority, and the asking node's knowledge of refreshes. `M` is the message
/// of one path, or of any.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Request<M = Message> {
    /// Up to which refresh the asking node has forgotten. Compared only where the message is about names
    /// (`Message::is_fenced`).
    pub epoch: Epoch,
    /// Its priority at the backing file system. A `Promote` of its stream may raise it.
    pub priority: Priority,
    /// Whether the asked node may name another one that has it, or is getting it.
    pub referral: Referral,
    /// The message.
    pub message: M,
}

/// A message, by the path that it belongs to.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Message {
    /// The read path: names, attributes, bytes.
    Read(ReadMessage),
    /// The job itself: who is there, what is refreshed, how far it has started.
    Job(JobMessage),
    /// The write path: a burst tree, and the logs that hold its contents.
    Write(WriteMessage),
    /// Queries: the pass over bytes that a node holds.
    Query(QueryMessage),
}

impl<M> Request<M> {
    /// A program's request, of a node that has met no refresh.
    #[must_use]
    pub fn new(message: M) -> Self {
        Self { epoch: Epoch::START, priority: Priority::Demand, referral: Referral::Refused, message }
    }

    /// The same request, asked by a node that has forgotten up to this refresh.
    #[must_use]
    pub fn in_epoch(self, epoch: Epoch) -> Self {
        Self { epoch, ..self }
    }

    /// The same request, with this priority.
    #[must_use]
    pub fn at(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// The same request, whose answer may name another node.
    #[must_use]
    pub fn referring(self, referral: Referral) -> Self {
        Self { referral, ..self }
    }

    /// The same request with another message.
    #[must_use]
    pub fn with<N>(self, message: N) -> Request<N> {
        Request { epoch: self.epoch, priority: self.priority, referral: self.referral, message }
    }
}

impl Message {
    /// Whether an answer may be another one after a refresh, so that nodes must have met the same refreshes.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        match self {
            Self::Read(message) => message.is_fenced(),
            Self::Job(message) => matches!(message, JobMessage::Ping),
            // A query names the version that it is about.
            Self::Write(_) | Self::Query(_) => false,
        }
    }

    /// A short word for logs and counters.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Read(message) => message.word(),
            Self::Job(message) => message.word(),
            Self::Write(message) => message.word(),
            Self::Query(message) => message.word(),
        }
    }
}

impl From<ReadMessage> for Message {
    fn from(message: ReadMessage) -> Self {
        Self::Read(message)
    }
}

impl From<JobMessage> for Message {
    fn from(message: JobMessage) -> Self {
        Self::Job(message)
    }
}

impl From<WriteMessage> for Message {
    fn from(message: WriteMessage) -> Self {
        Self::Write(message)
    }
}

impl From<WriteMessage> for Request {
    fn from(message: WriteMessage) -> Self {
        Self::new(message.into())
    }
}

impl From<QueryMessage> for Message {
    fn from(message: QueryMessage) -> Self {
        Self::Query(message)
    }
}

impl From<QueryMessage> for Request {
    fn from(message: QueryMessage) -> Self {
        Self::new(message.into())
    }
}

impl From<ReadMessage> for Request {
    fn from(message: ReadMessage) -> Self {
        Self::new(message.into())
    }
}

impl From<JobMessage> for Request {
    fn from(message: JobMessage) -> Self {
        Self::new(message.into())
    }
}

impl From<Request<ReadMessage>> for Request {
    fn from(request: Request<ReadMessage>) -> Self {
        Self {
            epoch: request.epoch,
            priority: request.priority,
            referral: request.referral,
            message: request.message.into(),
        }
    }
}

impl Checked for Envelope {
    fn is_within_limits(&self) -> bool {
        match &self.request.message {
            Message::Read(message) => message.is_within_limits(),
            Message::Job(message) => message.is_within_limits(),
            Message::Write(message) => message.is_within_limits(),
            Message::Query(message) => message.is_within_limits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{decode, encode};
    use crate::{Answer, Greeting, Hello, ListingVersion, WireError};
    use forebay_types::{ChunkIndex, Generation, Name, ViewPath, limits};
    use proptest::prelude::*;

    #[test]
    fn a_request_comes_back_as_it_was_sent() {
        let chunk = ReadMessage::Chunk {
            file: ViewPath::new(b"a/\xff\n").unwrap(),
            generation: Generation::default(),
            index: ChunkIndex(7),
        };
        let request = Request::from(chunk).at(Priority::Prefetch).in_epoch(Epoch(9));
        let envelope = Envelope { remaining_ms: 30_000, request };
        assert_eq!(decode::<Envelope>(&encode(&envelope)), Ok(envelope));
    }

    #[test]
    fn a_path_that_leads_outside_is_refused_in_decoding() {
        let mut bad = encode(&timed(ReadMessage::Listing { dir: ViewPath::new(b"aa/b").unwrap() }));
        let at = bad.windows(4).position(|window| window == b"aa/b").unwrap();
        assert!(decode::<Envelope>(&bad).is_ok());
        bad[at..at + 4].copy_from_slice(b"../b");
        assert_eq!(decode::<Envelope>(&bad), Err(WireError::Message));
    }

    /// One that has hardly any time left.
    fn timed(message: impl Into<Message>) -> Envelope {
        Envelope { remaining_ms: 1, request: Request::new(message.into()) }
    }

    #[test]
    fn bytes_left_over_are_refused() {
        let mut bytes = encode(&timed(JobMessage::Status));
        bytes.push(0);
        assert_eq!(decode::<Envelope>(&bytes), Err(WireError::Message));
    }

    #[test]
    fn a_page_with_the_longest_names_fits_a_frame() {
        let page = ReadMessage::Page {
            dir: ViewPath::new(["a"; 2048].join("/").as_bytes()).unwrap(),
            listing: ListingVersion { names_hash: u64::MAX, ..ListingVersion::default() },
            page: u32::MAX,
            names: vec![Name::new(&[0xff; limits::NAME_BYTES_MAX]).unwrap(); limits::ATTRIBUTES_PAGE_NAMES],
        };
        let request = Request::from(page).in_epoch(Epoch(u64::MAX));
        assert!(encode(&Envelope { remaining_ms: u32::MAX, request }).len() <= limits::HEAD_BYTES_MAX);
    }

    #[test]
    fn a_bundle_keeps_to_its_limits() {
        let file = |size_bytes| (Name::new(b"a").unwrap(), Generation { size_bytes, ..Generation::default() });
        let bundle = |files: Vec<(Name, Generation)>| {
            let request = ReadMessage::Bundle { dir: ViewPath::root(), files };
            decode::<Envelope>(&encode(&timed(request)))
        };
        assert!(bundle(vec![file(1); limits::BUNDLE_FILES_MAX]).is_ok());
        assert!(bundle(vec![file(limits::BUNDLE_FILE_BYTES_MAX); 4]).is_ok());
        let bad = [
            vec![],
            vec![file(0)],
            vec![file(limits::BUNDLE_FILE_BYTES_MAX + 1)],
            vec![file(limits::BUNDLE_FILE_BYTES_MAX); 5],
            vec![file(1); limits::BUNDLE_FILES_MAX + 1],
        ];
        for files in bad {
            assert_eq!(bundle(files), Err(WireError::Message));
        }
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode::<Greeting>(&bytes);
            let _ = decode::<Hello>(&bytes);
            let _ = decode::<Envelope>(&bytes);
            let _ = decode::<Answer>(&bytes);
        }
    }
}
