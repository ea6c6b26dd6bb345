//! Reads frames from a connection: heads and messages through a small buffer, bodies past it into pooled memory.
//!
//! No memory is allocated on a peer's word before `FrameHead::decode` has held it against the limits, and no message is
//! decoded before the guard has found it to be the peer's. A body is not looked at here: whoever takes it checks its
//! checksum.

use std::io;
use std::sync::Arc;

use std::ops::Range;

use forebay_body::{Piece, Pool};
use forebay_types::limits;
use forebay_wire::message::{Checked, decode};
use forebay_wire::{CHECKSUM_BYTES, FRAME_HEAD_BYTES, FrameHead, TAG_BYTES, WireError};
use tokio::io::AsyncReadExt;

use crate::counts::Counts;
use crate::guard::Guard;
use crate::stream::ReadHalf;

/// A connection's read buffer, bytes: dozens of requests in one read, and idle connections stay light (a root with 1,024
/// children holds 8 MiB of them). Bodies are read past it, into their own buffers.
const READ_BUFFER_BYTES: usize = 8 << 10;

/// Why reading ended.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The connection ended, with or without an error.
    Lost(io::Error),
    /// The peer sent what cannot be.
    Corrupt(WireError),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl From<WireError> for ReadError {
    fn from(error: WireError) -> Self {
        Self::Corrupt(error)
    }
}

/// One connection's incoming frames. A caller reads a head, which brings its message, then the body it announces.
pub(crate) struct FrameReader {
    stream: ReadHalf,
    guard: Guard,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Where in the buffer the last message lies; what does not fit there is in `long`.
    message: Range<usize>,
    long: Vec<u8>,
    checksum: u32,
    counts: Arc<Counts>,
}

impl FrameReader {
    pub(crate) fn new(stream: ReadHalf, counts: Arc<Counts>) -> Self {
        let buffer = vec![0; READ_BUFFER_BYTES].into();
        let guard = Guard::default();
        Self { stream, guard, buffer, start: 0, end: 0, message: 0..0, long: Vec::new(), checksum: 0, counts }
    }

    /// The guard that opens the next frames.
    pub(crate) fn guard(&mut self) -> &mut Guard {
        &mut self.guard
    }

    /// The next frame's head. Its message has come and is authentic, as far as the connection is.
    pub(crate) async fn head(&mut self) -> Result<FrameHead, ReadError> {
        self.head_within(limits::HEAD_BYTES_MAX).await
    }

    /// The same from somebody whose message may have `message_bytes_max`.
    pub(crate) async fn head_within(&mut self, message_bytes_max: usize) -> Result<FrameHead, ReadError> {
        self.fill(FRAME_HEAD_BYTES).await?;
        let mut bytes = [0; FRAME_HEAD_BYTES];
        bytes.copy_from_slice(&self.buffer[self.start..self.start + FRAME_HEAD_BYTES]);
        let head = FrameHead::decode(&bytes)?;
        if head.head_bytes as usize > message_bytes_max {
            return Err(WireError::Frame("message longer than its limit").into());
        }
        let len = head.plain_bytes() + self.guard.tag_bytes();
        let frame = if len <= self.buffer.len() {
            self.fill(len).await?;
            let start = self.start;
            self.start += len;
            self.message = start + FRAME_HEAD_BYTES..start + FRAME_HEAD_BYTES + head.head_bytes as usize;
            self.long = Vec::new();
            &mut self.buffer[start..start + len]
        } else {
            let mut long = vec![0; len];
            self.read_exact(&mut long).await?;
            self.message = FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + head.head_bytes as usize;
            self.long = long;
            &mut self.long
        };
        self.guard.open(frame)?;
        if let Some(checksum) = frame[..head.plain_bytes()].last_chunk::<CHECKSUM_BYTES>() {
            self.checksum = u32::from_le_bytes(*checksum);
        }
        Ok(head)
    }

    /// The message of the frame whose head was read last.
    pub(crate) fn message<T>(&self) -> Result<T, WireError>
    where
        T: for<'de> serde::Deserialize<'de> + Checked,
    {
        decode(self.message_bytes())
    }

    /// The same, not decoded.
    pub(crate) fn message_bytes(&self) -> &[u8] {
        let frame = if self.long.is_empty() { &self.buffer } else { &self.long[..] };
        &frame[self.message.clone()]
    }

    /// The body of the frame whose head was read last, with the checksum that came with it, not yet compared.
    pub(crate) async fn body(&mut self, head: FrameHead, pool: &Pool) -> Result<Piece, ReadError> {
        let len = head.body_on_connection();
        if len == 0 {
            return Ok(Piece::default());
        }
        let mut buffer = pool.take(len);
        self.read_exact(&mut buffer).await?;
        if self.guard.seals() {
            // Through the small buffer, which the next frame's head comes into by the same read.
            self.fill(TAG_BYTES).await?;
            let tag = &self.buffer[self.start..self.start + TAG_BYTES];
            self.guard.open_body(&mut buffer, tag)?;
            self.start += TAG_BYTES;
        }
        Ok(Piece::with_checksum(buffer.freeze(len), self.checksum))
    }

    /// Waits for the end of a connection on which nothing may come, and holds no buffer meanwhile.
    pub(crate) async fn end(mut self) -> ReadError {
        self.buffer = Box::default();
        let came = match self.start < self.end {
            true => Ok(1),
            false => self.stream.read(&mut [0]).await,
        };
        match came {
            Ok(0) => ReadError::Lost(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => ReadError::Corrupt(WireError::Frame("a frame that does not belong here")),
            Err(error) => ReadError::Lost(error),
        }
    }

    async fn read_exact(&mut self, target: &mut [u8]) -> io::Result<()> {
        let buffered = target.len().min(self.end - self.start);
        target[..buffered].copy_from_slice(&self.buffer[self.start..self.start + buffered]);
        self.start += buffered;
        let rest = &mut target[buffered..];
        if !rest.is_empty() {
            let len = rest.len();
            self.stream.read_exact(rest).await?;
            self.counts.received(len);
        }
        Ok(())
    }

    /// Reads until `len_bytes` lie in the buffer, which must be large enough for them.
    async fn fill(&mut self, len_bytes: usize) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start + len_bytes > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < len_bytes {
            let read = self.stream.read(&mut self.buffer[self.end..]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.end += read;
            self.counts.received(read);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{Greetings, Role, guards};
    use crate::writer::{FrameWriter, Outgoing};
    use forebay_secret::JobKey;
    use forebay_types::{Errno, PIECE_BYTES};
    use forebay_wire::{Answer, Envelope, FrameKind, Level, Outcome, ReadMessage};
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
    }

    /// A reader at the end of a pipe that holds `pipe_bytes`, and so cuts frames at any place.
    fn pipe(pipe_bytes: usize) -> (tokio::io::DuplexStream, FrameReader) {
        let (near, far) = tokio::io::duplex(pipe_bytes);
        (near, FrameReader::new(Box::new(far), Arc::default()))
    }

    /// The guards of what one side sends and the other receives.
    fn direction(level: Level) -> (Guard, Guard) {
        if level == Level::Off {
            return (Guard::default(), Guard::default());
        }
        let key = JobKey::from_bytes([3; 32]);
        let greetings = Greetings { asking: b"a", answering: b"b", place: crate::stream::NO_PLACE };
        let (mut sends, _) = guards(&key, Role::Asking, greetings);
        let (_, mut receives) = guards(&key, Role::Answering, greetings);
        sends.set_level(level);
        receives.set_level(level);
        (sends, receives)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn frames_come_out_as_they_went_in(
            bodies in proptest::collection::vec(0..=PIECE_BYTES, 1..6),
            pipe_bytes in 1usize..20_000,
            level in prop::sample::select(vec![Level::Off, Level::Auth, Level::Seal]),
        ) {
            let (near, mut reader) = pipe(pipe_bytes);
            let (sends, receives) = direction(level);
            *reader.guard() = receives;
            let sizes = bodies.clone();
            block_on(async move {
                let send = async move {
                    let mut writer = FrameWriter::new(Box::new(near), Pool::new(4), Arc::default());
                    *writer.guard() = sends;
                    for (stream, len) in (0..).zip(sizes) {
                        writer.push(Outgoing::answer(stream, Outcome::Body, len, Piece::new(vec![stream as u8; len].into())));
                        writer.push(Outgoing::credit(stream, len));
                        writer.push(Outgoing::abort(stream, Errno::EIO));
                    }
                    writer.write().await.unwrap();
                };
                let receive = async move {
                    for (stream, len) in (0..).zip(bodies) {
                        let head = reader.head().await.unwrap();
                        assert_eq!((head.kind, head.stream), (FrameKind::Answer, stream));
                        let answer: Answer = reader.message().unwrap();
                        assert_eq!(answer.body_bytes as usize, len);
                        let body = reader.body(head, &Pool::new(1)).await.unwrap();
                        assert!(body.is_sound());
                        assert_eq!(&body.bytes()[..], vec![stream as u8; len]);
                        let head = reader.head().await.unwrap();
                        assert_eq!((head.kind, head.body_bytes as usize), (FrameKind::Credit, len));
                        reader.head().await.unwrap();
                        assert_eq!(reader.message::<Errno>().unwrap(), Errno::EIO);
                    }
                    assert!(matches!(reader.head().await, Err(ReadError::Lost(_))), "and nothing is left over");
                };
                tokio::join!(send, receive);
            });
        }

        #[test]
        fn any_bytes_end_in_an_error_and_no_more_is_taken_than_came(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            kind in 1u8..=9,
        ) {
            let (mut near, mut reader) = pipe(1024);
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            let len = bytes.len();
            let taken = block_on(async move {
                near.write_all(&bytes).await.unwrap();
                drop(near);
                let pool = Pool::new(1);
                while let Ok(head) = reader.head().await {
                    let read = reader.message::<Envelope>().is_ok();
                    if !read || reader.body(head, &pool).await.is_err() {
                        break;
                    }
                }
                reader.counts.read(0).bytes_received
            });
            prop_assert!(taken as usize <= len);
        }
    }

    #[test]
    fn a_message_longer_than_the_buffer_is_read_whole() {
        let names = vec![forebay_types::Name::new(&[b'n'; limits::NAME_BYTES_MAX]).unwrap(); 200];
        let dir = forebay_types::ViewPath::root();
        let request = ReadMessage::Page { dir, listing: Default::default(), page: 3, names };
        let timed = Envelope { remaining_ms: 5, request: request.into() };
        let (near, mut reader) = pipe(64 << 10);
        let received = block_on(async {
            let mut writer = FrameWriter::new(Box::new(near), Pool::new(1), Arc::default());
            writer.push(Outgoing::request(1, &timed));
            writer.push(Outgoing::cancel(1));
            let receive = async {
                let head = reader.head().await.unwrap();
                assert!(head.head_bytes as usize > READ_BUFFER_BYTES);
                let received: Envelope = reader.message().unwrap();
                assert_eq!(reader.head().await.unwrap().kind, FrameKind::Cancel);
                received
            };
            tokio::join!(writer.write(), receive).1
        });
        assert_eq!(received, timed);
    }
}
