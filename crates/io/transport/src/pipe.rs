//! One direction of a connection within the process: bytes in the order they were written, each piece due when its route
//! says so.
//!
//! A pipe holds so many bytes, under way and unread together; then its writer waits. Dropping the writer closes the
//! connection: the reader hears of it after the last byte. Dropping the reader ends the peer, which the other side hears on
//! its own reader only; until then its bytes vanish.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::faults::Route;
use crate::lock::lock;

struct Pipe {
    route: Route,
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// When the last of all that was written is due: nothing overtakes it.
    last_due: Option<Instant>,
    /// When the reader hears that the writer is gone.
    end: Option<Instant>,
    reader_is_gone: bool,
    /// Of a reader that waits for something to be written, and of a writer that waits for room.
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The ends of a new pipe.
pub(crate) fn pipe(route: Route, bytes_max: usize) -> (PipeReader, PipeWriter) {
    let pipe = Arc::new(Pipe { route, bytes_max, state: Mutex::default() });
    (PipeReader { pipe: Arc::clone(&pipe), timer: None }, PipeWriter(pipe))
}

impl State {
    /// When what was written first, or the end, is due.
    fn next_due(&self) -> Option<Instant> {
        self.pieces.front().map(|(due, _)| *due).or(self.end)
    }

    fn due_after_all(&mut self, due: Instant) -> Instant {
        let due = self.last_due.map_or(due, |last| last.max(due));
        self.last_due = Some(due);
        due
    }
}

/// The end that is read from.
pub(crate) struct PipeReader {
    pipe: Arc<Pipe>,
    /// Until the next piece is due.
    timer: Option<Pin<Box<Sleep>>>,
}

impl PipeReader {
    /// Ready when something has arrived, or the end.
    fn poll_arrived(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = {
            let mut state = lock(&self.pipe.state);
            let Some(due) = state.next_due() else {
                state.reader = Some(context.waker().clone());
                return Poll::Pending;
            };
            due
        };
        if due > Instant::now() {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() != due {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(context));
        }
        self.pipe.route.poll_open(due, context)
    }
}

impl AsyncRead for PipeReader {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let budget = ready!(poll_proceed(context));
        ready!(self.poll_arrived(context));
        budget.made_progress();
        let arrived_until = self.pipe.route.arrived_until();
        let mut state = lock(&self.pipe.state);
        while into.remaining() > 0 {
            let Some((_, piece)) = state.pieces.front_mut().filter(|(due, _)| *due <= arrived_until) else {
                break;
            };
            let len = piece.len().min(into.remaining());
            into.put_slice(&piece[..len]);
            piece.advance(len);
            if piece.is_empty() {
                state.pieces.pop_front();
            }
            state.bytes -= len;
        }
        let writer = state.writer.take();
        drop(state);
        writer.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        let mut state = lock(&self.pipe.state);
        state.reader_is_gone = true;
        let pieces = std::mem::take(&mut state.pieces);
        let writer = state.writer.take();
        drop(state);
        drop(pieces);
        writer.into_iter().for_each(Waker::wake);
    }
}

/// The end that is written to.
pub(crate) struct PipeWriter(Arc<Pipe>);

impl PipeWriter {
    fn close(&self) {
        let due = self.0.route.due();
        let mut state = lock(&self.0.state);
        if state.end.is_none() {
            state.end = Some(state.due_after_all(due));
        }
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }
}

impl AsyncWrite for PipeWriter {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let budget = ready!(poll_proceed(context));
        let wanted = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let mut state = lock(&self.0.state);
        if state.end.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if state.reader_is_gone || wanted == 0 {
            budget.made_progress();
            return Poll::Ready(Ok(wanted));
        }
        let len = wanted.min(self.0.bytes_max - state.bytes);
        if len == 0 {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        budget.made_progress();
        let due = state.due_after_all(self.0.route.due());
        state.pieces.push_back((due, gathered(slices, len)));
        state.bytes += len;
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(len))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close();
        Poll::Ready(Ok(()))
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.close();
    }
}

/// The first `len` bytes of `slices`.
fn gathered(slices: &[IoSlice<'_>], len: usize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(len);
    for slice in slices {
        let rest = len - bytes.len();
        bytes.extend_from_slice(&slice[..slice.len().min(rest)]);
    }
    bytes.freeze()
}
