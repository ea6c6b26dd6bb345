//! Sends bodies: one task a peer, which takes a piece of each body in turn, as far as pieces and credit are there.
//!
//! The task alone owns what is being sent; others tell it through its inbox. A body that waits for its next piece wakes
//! the task itself, so a chunk goes on to a child in the moment its piece came from the parent.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use forebay_body::{Body, Piece};
use forebay_types::{Errno, PIECE_BYTES};
use forebay_wire::Outcome;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::limits;
use crate::writer::{FrameWriter, Outgoing};

/// Messages to the sending task.
pub(crate) enum ToBulk {
    Send(Sending),
    Credit {
        stream: u32,
        bytes: usize,
    },
    Cancel {
        stream: u32,
    },
    /// Told when no body is being sent any more.
    Flush(oneshot::Sender<()>),
}

/// A body on its way to the peer.
pub(crate) struct Sending {
    stream: u32,
    /// The answer that goes with the first piece; `None` once it is gone.
    outcome: Option<Outcome>,
    body: Arc<Body>,
    next_piece: usize,
    /// The rest of the piece before that.
    current: Piece,
    unsent_bytes: usize,
    credit_bytes: usize,
    /// When nobody can want it any more.
    deadline: Instant,
}

enum Step {
    Frame(Outgoing),
    /// The next piece or the credit for it is not there.
    Wait,
    /// The body will never be whole; this frame says so.
    Failed(Outgoing),
}

impl Sending {
    pub(crate) fn new(stream: u32, outcome: Outcome, body: Arc<Body>, deadline: Instant) -> Self {
        Self {
            stream,
            outcome: Some(outcome),
            next_piece: 0,
            current: Piece::default(),
            unsent_bytes: body.expected_bytes(),
            credit_bytes: limits::BODY_CREDIT_BYTES,
            deadline,
            body,
        }
    }

    fn next_frame(&mut self, context: &Context<'_>) -> Step {
        if self.current.is_empty() {
            match self.body.poll_checked(self.next_piece, context) {
                Poll::Pending => return Step::Wait,
                Poll::Ready(Ok(Some(piece))) => self.current = piece,
                Poll::Ready(Ok(None)) => return Step::Failed(self.failed(Errno::EIO)),
                Poll::Ready(Err(errno)) => return Step::Failed(self.failed(errno)),
            }
            self.next_piece += 1;
        }
        let len = self.current.len().min(PIECE_BYTES);
        if len > self.credit_bytes {
            return Step::Wait;
        }
        let piece = self.current.split_to(len);
        self.credit_bytes -= len;
        self.unsent_bytes -= len;
        Step::Frame(match self.outcome.take() {
            Some(outcome) => Outgoing::answer(self.stream, outcome, self.body.expected_bytes(), piece),
            None => Outgoing::piece(self.stream, piece),
        })
    }

    fn failed(&mut self, errno: Errno) -> Outgoing {
        match self.outcome.take() {
            Some(_) => Outgoing::failed(self.stream, errno),
            None => Outgoing::abort(self.stream, errno),
        }
    }
}

/// Sends bodies until the session is gone or the connection fails. `sent` is told each stream whose last frame is handed
/// to the writer, or whose body is let go because it was cancelled.
pub(crate) async fn send_bodies(
    sent: impl Fn(u32),
    mut inbox: mpsc::Receiver<ToBulk>,
    mut writer: FrameWriter,
) -> io::Result<()> {
    let mut bodies = Bodies { sent, sending: VecDeque::new(), flushing: Vec::new() };
    loop {
        let deadline = bodies.deadline();
        let gathered = std::future::poll_fn(|context| bodies.gather(context, &mut inbox, &mut writer));
        match timeout_at(deadline, gathered).await {
            Ok(true) => writer.write().await?,
            Ok(false) => return Ok(()),
            Err(_) => bodies.give_up(&mut writer),
        }
    }
}

struct Bodies<F> {
    sent: F,
    /// Whose turn it is comes first.
    sending: VecDeque<Sending>,
    flushing: Vec<oneshot::Sender<()>>,
}

impl<F: Fn(u32)> Bodies<F> {
    /// When the first body under way need not be sent any more; a day without one.
    fn deadline(&self) -> Instant {
        let first = self.sending.iter().map(|sending| sending.deadline).min();
        first.unwrap_or_else(|| Instant::now() + Duration::from_secs(24 * 60 * 60))
    }

    /// Lets go of bodies past their time: a peer that grants nothing and cancels nothing must not hold their bytes.
    fn give_up(&mut self, writer: &mut FrameWriter) {
        let now = Instant::now();
        let (late, sending) = std::mem::take(&mut self.sending).into_iter().partition(|body| body.deadline <= now);
        self.sending = sending;
        let late: VecDeque<Sending> = late;
        for mut body in late {
            writer.push(body.failed(Errno::ETIMEDOUT));
            (self.sent)(body.stream);
        }
    }

    /// Ready when `writer` holds something to write, or with `false` at the end.
    fn gather(
        &mut self,
        context: &mut Context<'_>,
        inbox: &mut mpsc::Receiver<ToBulk>,
        writer: &mut FrameWriter,
    ) -> Poll<bool> {
        while let Poll::Ready(told) = inbox.poll_recv(context) {
            match told {
                Some(told) => self.take(told),
                None => return Poll::Ready(false),
            }
        }
        self.fill(context, writer);
        if writer.is_empty() { Poll::Pending } else { Poll::Ready(true) }
    }

    fn take(&mut self, told: ToBulk) {
        match told {
            ToBulk::Send(sending) => self.sending.push_back(sending),
            ToBulk::Cancel { stream } => {
                self.sending.retain(|sending| sending.stream != stream);
                (self.sent)(stream);
            }
            ToBulk::Credit { stream, bytes } => {
                if let Some(sending) = self.sending.iter_mut().find(|sending| sending.stream == stream) {
                    sending.credit_bytes = sending.credit_bytes.saturating_add(bytes);
                }
            }
            ToBulk::Flush(done) => self.flushing.push(done),
        }
    }

    /// A piece of each body in turn, until the write is full or no body can go on.
    fn fill(&mut self, context: &Context<'_>, writer: &mut FrameWriter) {
        let mut waiting = 0;
        while waiting < self.sending.len() && !writer.is_full() {
            let Some(mut sending) = self.sending.pop_front() else {
                break;
            };
            match sending.next_frame(context) {
                Step::Wait => {
                    waiting += 1;
                    self.sending.push_back(sending);
                }
                Step::Frame(frame) => {
                    waiting = 0;
                    writer.push(frame);
                    if sending.unsent_bytes > 0 {
                        self.sending.push_back(sending);
                    } else {
                        (self.sent)(sending.stream);
                    }
                }
                Step::Failed(frame) => {
                    writer.push(frame);
                    (self.sent)(sending.stream);
                }
            }
        }
        if self.sending.is_empty() {
            self.flush(writer);
        }
    }

    /// The last frames are written before the task looks here again: only an empty writer has flushed.
    fn flush(&mut self, writer: &FrameWriter) {
        if writer.is_empty() {
            for done in self.flushing.drain(..) {
                // The requester may have stopped waiting.
                let _ = done.send(());
            }
        }
    }
}
