//! The answering side as a daemon sees it: a call comes in, an answer goes out, whenever and from wherever.

use std::sync::Arc;
use std::time::Duration;

use forebay_body::Body;
use forebay_types::{Errno, NodeRank};
use forebay_wire::{Outcome, Request};
use tokio::time::Instant;

/// Answers what peers ask.
pub trait Service: Send + Sync + 'static {
    /// Called on the network runtime for each request. Must not block: it takes note and returns, and the answer is
    /// given through `call.reply` from any thread.
    fn handle(&self, call: IncomingCall);
}

/// A request of a peer.
pub struct IncomingCall {
    /// The peer that asks.
    pub from: NodeRank,
    /// The request, with the programs that wait for it there.
    pub request: Request,
    /// How long the peer still waits.
    pub remaining: Duration,
    /// Where the answer goes.
    pub reply: Replier,
}

/// Messages and queries of a replier to the connections that a request came by. All are about one stream.
pub(crate) trait Answering: Send + Sync {
    fn answer(self: Arc<Self>, stream: u32, outcome: Outcome, body: Option<Arc<Body>>, deadline: Instant);

    fn on_cancel(&self, stream: u32, callback: Callback);

    fn on_promote(&self, stream: u32, callback: Callback);

    fn is_cancelled(&self, stream: u32) -> bool;
}

/// A function that is called once, when an event has happened to a request.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// The way back to the peer that asked. Dropped without an answer, it sends `Failed(EIO)`: no peer waits for nothing.
pub struct Replier {
    session: Arc<dyn Answering>,
    stream: u32,
    /// When the peer gives up.
    deadline: Instant,
    answered: bool,
}

impl Replier {
    pub(crate) fn new(session: Arc<dyn Answering>, stream: u32, deadline: Instant) -> Self {
        Self { session, stream, deadline, answered: false }
    }

    /// Answers. The body may still be growing: it is sent while it grows, and held until it has been sent or cancelled, or the
    /// peer must have given up.
    /// A body that fails before its first piece makes the answer `Failed`. No effect when the call was cancelled.
    pub fn answer(mut self, outcome: Outcome, body: Option<Arc<Body>>) {
        self.answered = true;
        Arc::clone(&self.session).answer(self.stream, outcome, body, self.deadline);
    }

    /// Calls `callback` once if the peer cancels, or its connection ends, before the answer is given; at once when that
    /// has happened. It may be called on the network runtime and must not block. A second callback takes the place of
    /// the first.
    pub fn on_cancel(&self, callback: impl FnOnce() + Send + 'static) {
        self.session.on_cancel(self.stream, Box::new(callback));
    }

    /// Calls `callback` once if a program of the peer's comes to wait for the answer before it is given. Before
    /// `Service::handle` returns: what the peer says afterwards is lost otherwise. It must not block.
    pub fn on_promote(&self, callback: impl FnOnce() + Send + 'static) {
        self.session.on_promote(self.stream, Box::new(callback));
    }

    /// Whether nobody waits for the answer any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.session.is_cancelled(self.stream)
    }
}

impl Drop for Replier {
    fn drop(&mut self) {
        if !self.answered {
            Arc::clone(&self.session).answer(self.stream, Outcome::Failed(Errno::EIO), None, self.deadline);
        }
    }
}

impl std::fmt::Debug for Replier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replier of stream {}", self.stream)
    }
}
