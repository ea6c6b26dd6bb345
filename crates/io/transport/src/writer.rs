//! Writes frames to a connection: what waits is gathered and leaves in one vectored write, bodies uncopied, or, on a
//! sealed connection, copied once into the buffers in which they are encrypted.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_body::{Piece, Pool};
use forebay_types::Errno;
use forebay_wire::message::{Answer, Outcome, encode};
use forebay_wire::{Envelope, FrameHead, FrameKind};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::counts::Counts;
use crate::guard::{Guard, UsedUp};
use crate::stream::WriteHalf;

/// Bytes of bodies gathered into one write on a bulk connection: a cancel waits no longer than this.
const BULK_WRITE_BYTES: usize = 1 << 20;

/// Frames gathered into one write; each takes two of the 1,024 slices that `writev(2)` allows.
const WRITE_FRAMES_MAX: usize = 32;

/// How long a peer may take for one write of `BULK_WRITE_BYTES`: 300 kbit/s. A slower one counts as lost, so that bodies
/// are not held for it.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);

/// Memory for heads above which a batch gives it back after use: a page request of 128 KiB is rare.
const HEADS_KEPT_BYTES: usize = 16 << 10;

/// A frame on its way out.
pub(crate) struct Outgoing {
    head: FrameHead,
    message: Vec<u8>,
    body: Piece,
}

impl Outgoing {
    fn new(kind: FrameKind, stream: u32, message: Vec<u8>, body: Piece) -> Self {
        let head = FrameHead { kind, stream, head_bytes: message.len() as u32, body_bytes: body.len() as u32 };
        Self { head, message, body }
    }

    pub(crate) fn request(stream: u32, request: &Envelope) -> Self {
        Self::new(FrameKind::Request, stream, encode(request), Piece::default())
    }

    /// An answer with its whole body or the first piece of it.
    pub(crate) fn answer(stream: u32, outcome: Outcome, total_bytes: usize, first: Piece) -> Self {
        Self::new(FrameKind::Answer, stream, encode(&Answer { outcome, body_bytes: total_bytes as u32 }), first)
    }

    pub(crate) fn failed(stream: u32, errno: Errno) -> Self {
        Self::answer(stream, Outcome::Failed(errno), 0, Piece::default())
    }

    pub(crate) fn piece(stream: u32, piece: Piece) -> Self {
        Self::new(FrameKind::Body, stream, Vec::new(), piece)
    }

    pub(crate) fn abort(stream: u32, errno: Errno) -> Self {
        Self::new(FrameKind::Abort, stream, encode(&errno), Piece::default())
    }

    pub(crate) fn cancel(stream: u32) -> Self {
        Self::new(FrameKind::Cancel, stream, Vec::new(), Piece::default())
    }

    pub(crate) fn promote(stream: u32) -> Self {
        Self::new(FrameKind::Promote, stream, Vec::new(), Piece::default())
    }

    pub(crate) fn credit(stream: u32, granted_bytes: usize) -> Self {
        let mut frame = Self::new(FrameKind::Credit, stream, Vec::new(), Piece::default());
        frame.head.body_bytes = granted_bytes as u32;
        frame
    }

    /// A `Greeting` or a `Hello`.
    pub(crate) fn handshake(kind: FrameKind, message: Vec<u8>) -> Self {
        Self::new(kind, 0, message, Piece::default())
    }
}

enum Segment {
    /// So many bytes of `heads`.
    Heads(usize),
    Body(Bytes),
}

/// One connection's outgoing frames.
pub(crate) struct FrameWriter {
    stream: WriteHalf,
    guard: Guard,
    /// The guard protects no more frames, and one was to be sent.
    used_up: bool,
    /// Where buffers for sealed bodies come from.
    pool: Pool,
    heads: Vec<u8>,
    segments: Vec<Segment>,
    frames: usize,
    bytes: usize,
    counts: Arc<Counts>,
}

impl FrameWriter {
    pub(crate) fn new(stream: WriteHalf, pool: Pool, counts: Arc<Counts>) -> Self {
        let (heads, segments) = (Vec::new(), Vec::new());
        Self { stream, guard: Guard::default(), used_up: false, pool, heads, segments, frames: 0, bytes: 0, counts }
    }

    /// The guard that protects the next frames.
    pub(crate) fn guard(&mut self) -> &mut Guard {
        &mut self.guard
    }

    /// Adds a frame to the next write.
    pub(crate) fn push(&mut self, frame: Outgoing) {
        self.frames += 1;
        if self.add(frame).is_err() {
            self.used_up = true;
        }
    }

    fn add(&mut self, Outgoing { head, message, body }: Outgoing) -> Result<(), UsedUp> {
        let start = self.heads.len();
        self.heads.extend_from_slice(&head.encode());
        self.heads.extend_from_slice(&message);
        if !body.is_empty() {
            self.heads.extend_from_slice(&body.checksum().to_le_bytes());
        }
        self.guard.protect(&mut self.heads, start)?;
        self.heads_grew(start);
        if body.is_empty() {
            return Ok(());
        }
        self.bytes += body.len();
        if !self.guard.seals() {
            self.segments.push(Segment::Body(body.bytes().clone()));
            return Ok(());
        }
        let mut buffer = self.pool.take(body.len());
        buffer.copy_from_slice(body.bytes());
        let tag = self.guard.seal_body(&mut buffer)?;
        self.segments.push(Segment::Body(buffer.freeze(body.len())));
        let start = self.heads.len();
        self.heads.extend_from_slice(tag.as_ref().map_or(&[], AsRef::as_ref));
        self.heads_grew(start);
        Ok(())
    }

    fn heads_grew(&mut self, start: usize) {
        let added = self.heads.len() - start;
        self.bytes += added;
        match self.segments.last_mut() {
            Some(Segment::Heads(len)) => *len += added,
            _ => self.segments.push(Segment::Heads(added)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Whether another frame should wait for the next write.
    pub(crate) fn is_full(&self) -> bool {
        self.frames >= WRITE_FRAMES_MAX || self.bytes >= BULK_WRITE_BYTES
    }

    /// Writes what was added, within `WRITE_DEADLINE`.
    pub(crate) async fn write(&mut self) -> io::Result<()> {
        if self.used_up {
            return Err(io::Error::other("the connection's key has protected as many frames as it may"));
        }
        timeout(WRITE_DEADLINE, self.write_all()).await.map_err(|_| io::ErrorKind::TimedOut)??;
        self.counts.sent(self.bytes);
        self.segments.clear();
        self.heads.clear();
        if self.heads.capacity() > HEADS_KEPT_BYTES {
            self.heads = Vec::new();
        }
        (self.frames, self.bytes) = (0, 0);
        Ok(())
    }

    async fn write_all(&mut self) -> io::Result<()> {
        if let [Segment::Heads(_)] = self.segments[..] {
            self.stream.write_all(&self.heads).await?;
        } else {
            self.write_segments().await?;
        }
        Ok(())
    }

    async fn write_segments(&mut self) -> io::Result<()> {
        let mut slices = Vec::with_capacity(self.segments.len());
        let mut heads = &self.heads[..];
        for segment in &self.segments {
            let slice = match segment {
                Segment::Heads(len) => heads.split_off(..*len).unwrap_or_default(),
                Segment::Body(body) => &body[..],
            };
            slices.push(IoSlice::new(slice));
        }
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let written = self.stream.write_vectored(rest).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }
}

/// Items that wait for a control connection's writer.
pub(crate) enum Item {
    Frame(Outgoing),
    /// Told when everything before it has been written.
    Flush(oneshot::Sender<()>),
}

/// Writes a control connection until the last sender is gone or the connection fails.
pub(crate) async fn write_frames(mut inbox: mpsc::Receiver<Item>, mut writer: FrameWriter) -> io::Result<()> {
    let mut items = Vec::new();
    let mut flushed = Vec::new();
    while inbox.recv_many(&mut items, WRITE_FRAMES_MAX).await > 0 {
        for item in items.drain(..) {
            match item {
                Item::Frame(frame) => writer.push(frame),
                Item::Flush(done) => flushed.push(done),
            }
        }
        if !writer.is_empty() {
            writer.write().await?;
        }
        for done in flushed.drain(..) {
            // The requester may have stopped waiting.
            let _ = done.send(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Under a clock of its own, so that it takes no time.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (near, _far) = tokio::io::duplex(1024);
        let mut writer = FrameWriter::new(Box::new(near), Pool::new(1), Arc::default());
        writer.push(Outgoing::piece(1, Piece::new(vec![7; 4096].into())));
        let began = tokio::time::Instant::now();
        assert_eq!(writer.write().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), WRITE_DEADLINE);
    }
}
