//! The answering end of the two connections from one peer: hands its requests to the service, sends the answers.
//!
//! A request is under way until its last frame is handed to a writer. A small answer goes out on the control connection
//! as soon as its body is whole; a larger one on the bulk connection while it grows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_body::{Body, Piece};
use forebay_types::{Errno, NodeRank, limits};
use forebay_wire::{Envelope, FrameKind, Outcome, WireError};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::bulk::{Sending, ToBulk, send_bodies};
use crate::counts::Counts;
use crate::handshake::Greeted;
use crate::lock::lock;
use crate::reader::{FrameReader, ReadError};
use crate::replier::{Answering, Callback, IncomingCall, Replier, Service};
use crate::tasks::Tasks;
use crate::window::{Waiting, Window, body_bytes};
use crate::writer::{FrameWriter, Item, Outgoing, write_frames};

/// The connections from one peer.
pub(crate) struct Session {
    from: NodeRank,
    outbox: mpsc::Sender<Item>,
    bodies: mpsc::Sender<ToBulk>,
    under_way: Mutex<BTreeMap<u32, UnderWay>>,
    window: Mutex<Window<IncomingCall>>,
    /// Told when the window may have room, or something to hand on.
    to_hand_on: Notify,
    /// Told when a request has ended.
    room: Notify,
    ended: AtomicBool,
    counts: Arc<Counts>,
    tasks: Mutex<Vec<AbortHandle>>,
}

enum UnderWay {
    /// Not answered.
    Asked(Told),
    /// Answered with a small body that is not whole yet.
    Filling(Outcome, Arc<Body>),
    /// Answered; the sending task has it.
    Sending,
}

/// Whom to tell what the peer says of a request that is not answered.
#[derive(Default)]
struct Told {
    cancelled: Option<Callback>,
    promoted: Option<Callback>,
}

impl Session {
    /// Takes over two connections that `from` opened, and starts their tasks.
    pub(crate) fn start(
        (from, window): (NodeRank, Window<IncomingCall>),
        (control, bulk): (Greeted, Greeted),
        service: Arc<dyn Service>,
        counts: Arc<Counts>,
        tasks: &Tasks,
    ) -> Arc<Self> {
        let (outbox, to_write) = mpsc::channel(crate::limits::OUTBOX_FRAMES_MAX);
        let (bodies, to_send) = mpsc::channel(crate::limits::OUTBOX_FRAMES_MAX);
        let session = Arc::new(Self {
            from,
            outbox,
            bodies,
            under_way: Mutex::default(),
            window: Mutex::new(window),
            to_hand_on: Notify::new(),
            room: Notify::new(),
            ended: AtomicBool::new(false),
            counts,
            tasks: Mutex::default(),
        });
        let handles = [
            tasks.spawn(Arc::clone(&session).serve(control.reader, Arc::clone(&service))),
            tasks.spawn(Arc::clone(&session).hand_on(service)),
            tasks.spawn(Arc::clone(&session).write(to_write, control.writer)),
            tasks.spawn(Arc::clone(&session).send(to_send, bulk.writer)),
            tasks.spawn(Arc::clone(&session).watch(bulk.reader)),
        ];
        if handles.iter().any(Option::is_none) {
            session.close();
        }
        lock(&session.tasks).extend(handles.into_iter().flatten());
        if session.has_ended() {
            session.abort_tasks();
        }
        session
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Closes both connections; whoever works on an answer is told.
    pub(crate) fn close(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let under_way = std::mem::take(&mut *lock(&self.under_way));
        let window = std::mem::replace(&mut *lock(&self.window), Window::new(0));
        drop(window);
        for request in under_way.into_values() {
            if let UnderWay::Asked(Told { cancelled: Some(callback), .. }) = request {
                callback();
            }
        }
        self.abort_tasks();
    }

    fn abort_tasks(&self) {
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
    }

    /// Waits until the answers given so far have been written.
    pub(crate) async fn flush(&self) {
        let (sent, all_sent) = oneshot::channel();
        let (written, all_written) = oneshot::channel();
        if self.bodies.send(ToBulk::Flush(sent)).await.is_ok() {
            // An error means that the connection ended: nothing will be written any more.
            let _ = all_sent.await;
        }
        if self.outbox.send(Item::Flush(written)).await.is_ok() {
            let _ = all_written.await;
        }
    }

    fn answer_whole(&self, stream: u32, outcome: Outcome, whole: Piece) {
        if self.remove(stream).is_some() {
            self.put(Outgoing::answer(stream, outcome, whole.len(), whole));
            self.room.notify_one();
        }
    }

    fn answer_on_bulk(&self, stream: u32, outcome: Outcome, body: Arc<Body>, deadline: Instant) {
        if self.replace(stream, UnderWay::Sending).is_none() {
            return;
        }
        let sending = ToBulk::Send(Sending::new(stream, outcome, body, deadline + crate::limits::ANSWER_GRACE));
        if let Err(mpsc::error::TrySendError::Full(_)) = self.bodies.try_send(sending) {
            self.close();
        }
    }

    /// The table holds the body meanwhile, the body holds the session: a cancel lets go of both.
    fn answer_when_whole(self: &Arc<Self>, stream: u32, outcome: Outcome, body: Arc<Body>) {
        if self.replace(stream, UnderWay::Filling(outcome, Arc::clone(&body))).is_none() {
            return;
        }
        let session = Arc::clone(self);
        body.when_filled(body.expected_bytes(), move |filled| session.filled(stream, filled));
    }

    fn filled(&self, stream: u32, filled: Result<(), Errno>) {
        let Some(UnderWay::Filling(outcome, body)) = self.remove(stream) else {
            return;
        };
        let answer = match (filled, body.contiguous_piece()) {
            (Ok(()), Some(whole)) => Outgoing::answer(stream, outcome, whole.len(), whole),
            (Ok(()), None) => Outgoing::failed(stream, Errno::EIO),
            (Err(errno), _) => Outgoing::failed(stream, errno),
        };
        self.put(answer);
        self.room.notify_one();
    }

    /// The sending task has handed a body's last frame to its writer.
    fn sent(&self, stream: u32) {
        self.remove(stream);
        self.room.notify_one();
    }

    /// The caller drops the request, without the lock: a callback may hold anything.
    fn remove(&self, stream: u32) -> Option<UnderWay> {
        let removed = lock(&self.under_way).remove(&stream);
        self.make_room(stream);
        removed
    }

    /// Frees the room of a request.
    fn make_room(&self, stream: u32) {
        let waited = lock(&self.window).end(stream);
        drop(waited);
        self.to_hand_on.notify_one();
    }

    /// The same for what takes its place; `None`, and nothing is placed, when the stream has ended.
    fn replace(&self, stream: u32, request: UnderWay) -> Option<UnderWay> {
        lock(&self.under_way).get_mut(&stream).map(|place| std::mem::replace(place, request))
    }

    /// A full outbox means that the peer stopped reading.
    fn put(&self, frame: Outgoing) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.outbox.try_send(Item::Frame(frame)) {
            self.close();
        }
    }

    async fn serve(self: Arc<Self>, mut reader: FrameReader, service: Arc<dyn Service>) {
        let error = loop {
            if let Err(error) = self.serve_frame(&mut reader, &*service).await {
                break error;
            }
        };
        self.end(error);
    }

    async fn serve_frame(self: &Arc<Self>, reader: &mut FrameReader, service: &dyn Service) -> Result<(), ReadError> {
        let head = reader.head().await?;
        let stream = head.stream;
        match head.kind {
            FrameKind::Request if head.body_bytes == 0 => {
                let Envelope { remaining_ms, request } = reader.message()?;
                let remaining = Duration::from_millis(remaining_ms.into());
                let reply = self.open(stream, Instant::now() + remaining).await?;
                self.counts.request_served();
                let call = IncomingCall { from: self.from, request, remaining, reply };
                match body_bytes(&call.request.message) {
                    0 => service.handle(call),
                    bytes => self.push((stream, bytes), Instant::now() + remaining, call),
                }
            }
            FrameKind::Credit if head.head_bytes == 0 => {
                self.tell_bodies(ToBulk::Credit { stream, bytes: head.body_bytes as usize }).await;
            }
            FrameKind::Cancel if head.head_bytes == 0 && head.body_bytes == 0 => self.cancel(stream).await,
            FrameKind::Promote if head.head_bytes == 0 && head.body_bytes == 0 => self.promote(stream),
            _ => return Err(WireError::Frame("a frame that does not belong here").into()),
        }
        Ok(())
    }

    fn push(&self, body: (u32, usize), deadline: Instant, call: IncomingCall) {
        lock(&self.window).push(body, call.request.priority, deadline, call);
        self.to_hand_on.notify_one();
    }

    /// Hands requests for bodies on as there is room for these.
    async fn hand_on(self: Arc<Self>, service: Arc<dyn Service>) {
        loop {
            self.to_hand_on.notified().await;
            // Without the lock: an answer may come at once.
            while let Some(call) = self.next() {
                service.handle(call);
            }
        }
    }

    fn next(&self) -> Option<IncomingCall> {
        let Waiting { priority, deadline, mut call, .. } = lock(&self.window).next()?;
        call.request.priority = priority;
        call.remaining = deadline.saturating_duration_since(Instant::now());
        Some(call)
    }

    /// A new request, as soon as there is room. A peer keeps to the limit itself; one that does not is read no further,
    /// and its own credit and cancellations wait with it.
    async fn open(self: &Arc<Self>, stream: u32, deadline: Instant) -> Result<Replier, WireError> {
        loop {
            {
                let mut under_way = lock(&self.under_way);
                if under_way.contains_key(&stream) {
                    return Err(WireError::Frame("a stream that is under way"));
                }
                if under_way.len() < crate::limits::PEER_REQUESTS_MAX {
                    under_way.insert(stream, UnderWay::Asked(Told::default()));
                    return Ok(Replier::new(Arc::clone(self) as _, stream, deadline));
                }
            }
            self.room.notified().await;
        }
    }

    async fn cancel(&self, stream: u32) {
        // Not `remove`: a body is held until the sending task lets go of it.
        let cancelled = lock(&self.under_way).remove(&stream);
        if let Some(UnderWay::Sending) = cancelled {
            return self.tell_bodies(ToBulk::Cancel { stream }).await;
        }
        self.make_room(stream);
        match cancelled {
            Some(UnderWay::Asked(told)) => told.cancelled.into_iter().for_each(|callback| callback()),
            Some(UnderWay::Sending | UnderWay::Filling(..)) | None => {}
        }
    }

    /// A request that has been answered meanwhile needs no turn any more.
    fn promote(&self, stream: u32) {
        let callback = match lock(&self.under_way).get_mut(&stream) {
            Some(UnderWay::Asked(told)) => told.promoted.take(),
            _ => None,
        };
        lock(&self.window).promote(stream);
        callback.into_iter().for_each(|callback| callback());
    }

    async fn tell_bodies(&self, told: ToBulk) {
        // An error means that the sending task has ended, and the session with it.
        let _ = self.bodies.send(told).await;
    }

    async fn write(self: Arc<Self>, inbox: mpsc::Receiver<Item>, writer: FrameWriter) {
        self.written(write_frames(inbox, writer).await);
    }

    async fn send(self: Arc<Self>, inbox: mpsc::Receiver<ToBulk>, writer: FrameWriter) {
        let sent = |stream| self.sent(stream);
        self.written(send_bodies(sent, inbox, writer).await);
    }

    fn written(&self, outcome: std::io::Result<()>) {
        if let Err(error) = outcome {
            tracing::debug!(node = %self.from, %error, "writing to a peer failed");
        }
        self.close();
    }

    /// No frame may come on the bulk connection; only its end is watched for.
    async fn watch(self: Arc<Self>, reader: FrameReader) {
        self.end(reader.end().await);
    }

    fn end(&self, error: ReadError) {
        match error {
            ReadError::Corrupt(error) => {
                self.counts.corrupt_frame();
                tracing::warn!(node = %self.from, %error, "a peer that asked sent corrupt bytes; connection closed");
            }
            ReadError::Lost(error) => tracing::debug!(node = %self.from, %error, "the connection from a peer ended"),
        }
        self.close();
    }
}

impl Answering for Session {
    fn answer(self: Arc<Self>, stream: u32, outcome: Outcome, body: Option<Arc<Body>>, deadline: Instant) {
        let Some(body) = body else {
            return self.answer_whole(stream, outcome, Piece::default());
        };
        let total_bytes = body.expected_bytes();
        if total_bytes > limits::LISTING_BYTES_MAX {
            self.answer_whole(stream, Outcome::Failed(Errno::EFBIG), Piece::default());
        } else if total_bytes > crate::limits::CONTROL_BODY_BYTES_MAX {
            self.answer_on_bulk(stream, outcome, body, deadline);
        } else {
            self.answer_when_whole(stream, outcome, body);
        }
    }

    fn on_cancel(&self, stream: u32, callback: Callback) {
        let mut under_way = lock(&self.under_way);
        if let Some(UnderWay::Asked(told)) = under_way.get_mut(&stream) {
            let earlier = told.cancelled.replace(callback);
            drop(under_way);
            drop(earlier);
        } else {
            drop(under_way);
            callback();
        }
    }

    fn on_promote(&self, stream: u32, callback: Callback) {
        let earlier = match lock(&self.under_way).get_mut(&stream) {
            Some(UnderWay::Asked(told)) => told.promoted.replace(callback),
            _ => Some(callback),
        };
        // Without the lock: it may hold anything.
        drop(earlier);
    }

    fn is_cancelled(&self, stream: u32) -> bool {
        !lock(&self.under_way).contains_key(&stream)
    }
}
