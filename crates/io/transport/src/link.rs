//! The asking end of the two connections to one peer: sends requests, promotions, credit and cancellations, receives
//! answers.
//!
//! A link lives until one of its connections ends or carries what cannot be; then both are closed, every call under way
//! fails, and the next call makes a new link. Four tasks: control's reader and writer, bulk's reader, the deadlines.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_body::{Piece, Pool};
use forebay_types::{Errno, NodeRank, Priority};
use forebay_wire::{Answer, Envelope, FrameKind, Request, WireError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::calls::{Calls, End, Place, Reply, Tell, Waiter};
use crate::counts::Counts;
use crate::error::CallError;
use crate::handshake::Greeted;
use crate::limits;
use crate::lock::lock;
use crate::reader::{FrameReader, ReadError};
use crate::tasks::Tasks;
use crate::writer::{FrameWriter, Item, Outgoing, write_frames};

/// The connections to one peer.
pub(crate) struct Link {
    to: NodeRank,
    calls: Calls,
    places: Arc<Semaphore>,
    /// Of these, those for what is asked ahead.
    places_ahead: Arc<Semaphore>,
    outbox: mpsc::Sender<Item>,
    counts: Arc<Counts>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Link {
    /// Takes over two connections that shook hands with `to`, and starts their tasks.
    pub(crate) fn start(
        to: NodeRank,
        (control, bulk): (Greeted, Greeted),
        pool: Pool,
        counts: Arc<Counts>,
        tasks: &Tasks,
    ) -> Arc<Self> {
        let (outbox, inbox) = mpsc::channel(limits::OUTBOX_FRAMES_MAX);
        let places = Arc::new(Semaphore::new(limits::PEER_REQUESTS_MAX));
        let places_ahead = Arc::new(Semaphore::new(limits::PEER_REQUESTS_AHEAD_MAX));
        let calls = Calls::default();
        let link = Arc::new(Self { to, calls, places, places_ahead, outbox, counts, tasks: Mutex::default() });
        let handles = [
            tasks.spawn(Arc::clone(&link).write(inbox, control.writer)),
            tasks.spawn(Arc::clone(&link).read(control.reader, None, pool.clone())),
            tasks.spawn(Arc::clone(&link).read(bulk.reader, Some(bulk.writer), pool)),
            tasks.spawn(Arc::clone(&link).watch_deadlines()),
        ];
        if handles.iter().any(Option::is_none) {
            link.close(End::ShutDown);
        }
        lock(&link.tasks).extend(handles.into_iter().flatten());
        if link.has_ended() {
            link.abort_tasks();
        }
        link
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.calls.has_ended()
    }

    /// Asks. `Err` when the link had ended before: nothing was sent.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        request: &Request,
        deadline: Instant,
        after: Duration,
    ) -> Result<Asked, CallError> {
        let place = self.place(request.priority, deadline, after).await?;
        let (stream, waiter) = self.calls.open(deadline, place).map_err(|end| self.error(end, after))?;
        let asked = Asked { link: Arc::clone(self), stream, waiter, after };
        let remaining = deadline.saturating_duration_since(Instant::now());
        let remaining_ms = u32::try_from(remaining.as_millis()).unwrap_or(u32::MAX).max(1);
        self.send(Outgoing::request(stream, &Envelope { remaining_ms, request: request.clone() }));
        self.counts.request_sent();
        Ok(asked)
    }

    async fn place(&self, priority: Priority, deadline: Instant, after: Duration) -> Result<Place, CallError> {
        let ahead = match priority {
            Priority::Prefetch => Some(self.place_of(&self.places_ahead, deadline, after).await?),
            Priority::Demand => None,
        };
        Ok(Place { _any: self.place_of(&self.places, deadline, after).await?, _ahead: ahead })
    }

    async fn place_of(
        &self,
        places: &Arc<Semaphore>,
        deadline: Instant,
        after: Duration,
    ) -> Result<OwnedSemaphorePermit, CallError> {
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Ok(place);
        }
        match timeout_at(deadline, Arc::clone(places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            // Closed with the link.
            Ok(Err(_)) => Err(CallError::ConnectionLost { to: self.to }),
            Err(_) => Err(CallError::TimedOut { to: self.to, after }),
        }
    }

    /// Closes both connections and fails what is under way.
    pub(crate) fn close(&self, end: End) {
        if self.calls.end(end) {
            if let End::Corrupt(error) = end {
                self.counts.corrupt_frame();
                tracing::warn!(node = %self.to, %error, "a peer that was asked sent corrupt bytes; connection closed");
            }
            self.places.close();
            self.places_ahead.close();
            self.abort_tasks();
        }
    }

    fn abort_tasks(&self) {
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
    }

    /// A full outbox means that the peer stopped reading.
    fn send(&self, frame: Outgoing) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.outbox.try_send(Item::Frame(frame)) {
            self.close(End::Lost);
        }
    }

    async fn write(self: Arc<Self>, inbox: mpsc::Receiver<Item>, writer: FrameWriter) {
        if let Err(error) = write_frames(inbox, writer).await {
            tracing::debug!(node = %self.to, %error, "writing to a peer failed");
        }
        self.close(End::Lost);
    }

    /// `kept`: the other half of the connection; dropping it would tell the peer that this end is gone.
    async fn read(self: Arc<Self>, mut reader: FrameReader, kept: Option<FrameWriter>, pool: Pool) {
        let is_bulk = kept.is_some();
        let error = loop {
            if let Err(error) = self.read_frame(&mut reader, is_bulk, &pool).await {
                break error;
            }
        };
        match error {
            ReadError::Corrupt(error) => self.close(End::Corrupt(error)),
            ReadError::Lost(error) => {
                tracing::debug!(node = %self.to, %error, "the connection to a peer ended");
                self.close(End::Lost);
            }
        }
    }

    async fn read_frame(&self, reader: &mut FrameReader, is_bulk: bool, pool: &Pool) -> Result<(), ReadError> {
        let head = reader.head().await?;
        let tell = match head.kind {
            FrameKind::Answer => {
                let answer: Answer = reader.message()?;
                if !is_bulk && answer.body_bytes != head.body_bytes {
                    return Err(WireError::Frame("part of a body on the control connection").into());
                }
                let first = reader.body(head, pool).await?;
                match self.is_sound(&first) {
                    true => self.calls.answered(head.stream, answer, &first)?,
                    false => self.calls.spoiled(head.stream),
                }
            }
            FrameKind::Body if is_bulk && head.head_bytes == 0 => {
                let piece = reader.body(head, pool).await?;
                match self.is_sound(&piece) {
                    true => self.calls.piece(head.stream, &piece)?,
                    false => self.calls.spoiled(head.stream),
                }
            }
            FrameKind::Abort if is_bulk && head.body_bytes == 0 => {
                let errno: Errno = reader.message()?;
                self.calls.aborted(head.stream, errno)?;
                Tell::Nothing
            }
            _ => return Err(WireError::Frame("a frame that does not belong here").into()),
        };
        match tell {
            Tell::Nothing => {}
            Tell::Cancel => self.send(Outgoing::cancel(head.stream)),
            Tell::Credit(bytes) => self.send(Outgoing::credit(head.stream, bytes)),
        }
        Ok(())
    }

    /// Whether the bytes have their checksum. One call's bytes that do not are no reason to end the others.
    fn is_sound(&self, piece: &Piece) -> bool {
        let is_sound = piece.is_sound();
        if !is_sound && self.counts.checksum_failure() {
            tracing::warn!(node = %self.to, "bytes came without their checksum; further ones are counted, not reported");
        }
        is_sound
    }

    async fn watch_deadlines(self: Arc<Self>) {
        loop {
            for stream in self.calls.expired().await {
                self.send(Outgoing::cancel(stream));
            }
        }
    }

    fn error(&self, end: End, after: Duration) -> CallError {
        let to = self.to;
        match end {
            End::Lost => CallError::ConnectionLost { to },
            End::Corrupt(source) => CallError::Corrupt { to, source },
            End::BadChecksum => CallError::BadChecksum { to },
            End::ShutDown => CallError::ShutDown,
            End::TimedOut => CallError::TimedOut { to, after },
        }
    }
}

/// The result that a call's waiter gets.
type Answered = Result<Result<Reply, End>, oneshot::error::RecvError>;

/// A call that was sent. Dropping it cancels.
pub(crate) struct Asked {
    link: Arc<Link>,
    stream: u32,
    waiter: Waiter,
    after: Duration,
}

impl Asked {
    /// The answer. The peer is told if `promoted` ends before it is here.
    pub(crate) async fn reply_or_promote(mut self, promoted: impl Future<Output = ()>) -> Result<Reply, CallError> {
        tokio::select! {
            biased;
            answer = &mut self.waiter => return self.replied(answer),
            () = promoted => self.link.send(Outgoing::promote(self.stream)),
        }
        self.reply().await
    }

    pub(crate) async fn reply(mut self) -> Result<Reply, CallError> {
        let answer = (&mut self.waiter).await;
        self.replied(answer)
    }

    fn replied(&self, answer: Answered) -> Result<Reply, CallError> {
        match answer {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(end)) => Err(self.link.error(end, self.after)),
            // Only a link that is being torn down drops a call without a word.
            Err(_) => Err(CallError::ConnectionLost { to: self.link.to }),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.link.calls.abandon(self.stream) {
            self.link.send(Outgoing::cancel(self.stream));
        }
    }
}
