//! The calls under way to one peer: which stream waits for what, until when, and what arrived of it.
//!
//! One table under one lock, which is never held while a body's followers or a waiting task are called. A body is held
//! weakly: when nobody else holds it any more, nobody wants it, and its stream is cancelled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};

use forebay_body::{Body, Piece};
use forebay_types::Errno;
use forebay_wire::{Answer, Outcome, WireError};
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::limits;
use crate::lock::lock;

/// Bytes a receiver takes before it grants them anew, so that a 1 MiB chunk costs two small frames of credit, not eight.
/// With one more piece under way it stays below `BODY_CREDIT_BYTES`, or sender and receiver would wait for each other.
const BODY_GRANT_BYTES: usize = 256 << 10;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// Its outcome.
    pub outcome: Outcome,
    /// Its bytes, which may still be arriving. Always there, even when empty, except for `FileSystem` and `Failed`. Fails
    /// with `WAY_LOST` when the rest will not come in time. When the last holder drops it while it
    /// grows, the rest is cancelled.
    pub body: Option<Arc<Body>>,
}

/// Why all calls to a peer ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Lost,
    Corrupt(WireError),
    ShutDown,
    TimedOut,
    /// Of one call: its bytes were spoiled on their way.
    BadChecksum,
}

/// The message that the peer must get after a frame.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Tell {
    Nothing,
    Cancel,
    Credit(usize),
}

pub(crate) type Waiter = oneshot::Receiver<Result<Reply, End>>;

#[derive(Default)]
pub(crate) struct Calls {
    state: Mutex<State>,
    /// Told when a deadline comes before the one that is slept for.
    sooner: Notify,
}

#[derive(Default)]
struct State {
    streams: BTreeMap<u32, Call>,
    deadlines: BTreeSet<(Instant, u32)>,
    sleeping_until: Option<Instant>,
    next_stream: u32,
    ended: Option<End>,
}

struct Call {
    deadline: Instant,
    phase: Phase,
    _place: Place,
}

/// A call's place among those that may be under way.
pub(crate) struct Place {
    pub(crate) _any: OwnedSemaphorePermit,
    /// Among those that may be asked ahead, if it was.
    pub(crate) _ahead: Option<OwnedSemaphorePermit>,
}

type Waiting = oneshot::Sender<Result<Reply, End>>;

enum Phase {
    Waiting(Waiting),
    Receiving(Receiving),
}

struct Receiving {
    body: Weak<Body>,
    total_bytes: usize,
    received_bytes: usize,
    granted_bytes: usize,
}

impl Calls {
    /// A new stream that waits for its answer until `deadline`.
    pub(crate) fn open(&self, deadline: Instant, place: Place) -> Result<(u32, Waiter), End> {
        let (sender, waiter) = oneshot::channel();
        let mut state = lock(&self.state);
        if let Some(end) = state.ended {
            return Err(end);
        }
        let stream = state.free_stream();
        state.streams.insert(stream, Call { deadline, phase: Phase::Waiting(sender), _place: place });
        state.deadlines.insert((deadline, stream));
        if state.sleeping_until.is_none_or(|until| deadline < until) {
            state.sleeping_until = Some(deadline);
            self.sooner.notify_one();
        }
        Ok((stream, waiter))
    }

    /// An answer came, with its whole body or the first piece of it.
    pub(crate) fn answered(&self, stream: u32, answer: Answer, first: &Piece) -> Result<Tell, WireError> {
        let total_bytes = answer.body_bytes as usize;
        if first.len() > total_bytes || (first.is_empty() && total_bytes > 0) {
            return Err(WireError::Frame("the first piece of an answer does not fit the answer"));
        }
        let mut state = lock(&self.state);
        let Some(call) = state.streams.get(&stream) else {
            return Ok(Tell::Nothing);
        };
        if matches!(call.phase, Phase::Receiving(_)) {
            return Err(WireError::Frame("a second answer"));
        }
        if first.len() == total_bytes {
            let waiting = state.remove(stream).and_then(Call::into_waiting);
            drop(state);
            let body = has_body(&answer.outcome, total_bytes).then(|| whole(first));
            reply(waiting, Reply { outcome: answer.outcome, body });
            return Ok(Tell::Nothing);
        }
        let body = Body::filling(total_bytes);
        let waiting = state.start_receiving(stream, &body, first.len());
        drop(state);
        body.push_checked(first);
        reply(waiting, Reply { outcome: answer.outcome, body: Some(body) });
        Ok(Tell::Nothing)
    }

    /// A further piece of a body came.
    pub(crate) fn piece(&self, stream: u32, piece: &Piece) -> Result<Tell, WireError> {
        if piece.is_empty() {
            return Err(WireError::Frame("an empty piece"));
        }
        let mut state = lock(&self.state);
        let Some(call) = state.streams.get_mut(&stream) else {
            return Ok(Tell::Nothing);
        };
        let Phase::Receiving(receiving) = &mut call.phase else {
            return Err(WireError::Frame("a piece before its answer"));
        };
        let Some(body) = receiving.body.upgrade() else {
            state.remove(stream);
            return Ok(Tell::Cancel);
        };
        let taken = receiving.take(piece.len());
        if let Ok((_, true)) = taken {
            state.remove(stream);
        }
        // Unlocked first: this may be the last holder of the body, and followers hear of its end.
        drop(state);
        let (grant, _) = taken?;
        body.push_checked(piece);
        Ok(if grant > 0 { Tell::Credit(grant) } else { Tell::Nothing })
    }

    /// Bytes came that do not have their checksum: what they belong to fails, and the peer need not send the rest.
    pub(crate) fn spoiled(&self, stream: u32) -> Tell {
        let Some(call) = lock(&self.state).remove(stream) else {
            return Tell::Nothing;
        };
        call.end(End::BadChecksum);
        Tell::Cancel
    }

    /// The peer ended a body early.
    pub(crate) fn aborted(&self, stream: u32, errno: Errno) -> Result<(), WireError> {
        let mut state = lock(&self.state);
        let Some(call) = state.streams.get(&stream) else {
            return Ok(());
        };
        if matches!(call.phase, Phase::Waiting(_)) {
            return Err(WireError::Frame("an abort before its answer"));
        }
        let call = state.remove(stream);
        drop(state);
        if let Some(Call { phase: Phase::Receiving(receiving), .. }) = call {
            fail(&receiving, errno);
        }
        Ok(())
    }

    /// The waiter for the answer is gone; returns whether the peer must be told.
    pub(crate) fn abandon(&self, stream: u32) -> bool {
        let mut state = lock(&self.state);
        let waits = state.streams.get(&stream).is_some_and(|call| matches!(call.phase, Phase::Waiting(_)));
        waits && state.remove(stream).is_some()
    }

    /// Ends all calls; the first reason holds. Whether this was the first.
    pub(crate) fn end(&self, end: End) -> bool {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return false;
        }
        state.ended = Some(end);
        state.deadlines.clear();
        let calls = std::mem::take(&mut state.streams);
        drop(state);
        calls.into_values().for_each(|call| call.end(end));
        true
    }

    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.state).ended.is_some()
    }

    /// Waits until calls exceed their deadlines, ends them and returns their streams.
    pub(crate) async fn expired(&self) -> Vec<u32> {
        loop {
            let sooner = self.sooner.notified();
            let next = {
                let mut state = lock(&self.state);
                state.sleeping_until = state.deadlines.first().map(|(deadline, _)| *deadline);
                state.sleeping_until
            };
            let Some(deadline) = next else {
                sooner.await;
                continue;
            };
            tokio::select! {
                biased;
                () = sooner => {}
                () = tokio::time::sleep_until(deadline) => {
                    let expired = self.expire(Instant::now());
                    if !expired.is_empty() {
                        return expired;
                    }
                }
            }
        }
    }

    fn expire(&self, now: Instant) -> Vec<u32> {
        let mut expired = Vec::new();
        let mut state = lock(&self.state);
        while let Some((deadline, stream)) = state.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            // Every deadline belongs to a stream, but a lost one must not make this loop endless.
            state.deadlines.remove(&(deadline, stream));
            expired.extend(state.remove(stream).map(|call| (stream, call)));
        }
        drop(state);
        let end = |(stream, call): (u32, Call)| {
            call.end(End::TimedOut);
            stream
        };
        expired.into_iter().map(end).collect()
    }
}

impl State {
    /// A number that no stream has. Fewer are under way than there are numbers, so the search ends.
    fn free_stream(&mut self) -> u32 {
        loop {
            self.next_stream = self.next_stream.wrapping_add(1);
            if !self.streams.contains_key(&self.next_stream) {
                return self.next_stream;
            }
        }
    }

    /// From waiting for the answer to receiving its body.
    fn start_receiving(&mut self, stream: u32, body: &Arc<Body>, received_bytes: usize) -> Option<Waiting> {
        let receiving = Phase::Receiving(Receiving {
            body: Arc::downgrade(body),
            total_bytes: body.expected_bytes(),
            received_bytes,
            granted_bytes: limits::BODY_CREDIT_BYTES,
        });
        match std::mem::replace(&mut self.streams.get_mut(&stream)?.phase, receiving) {
            Phase::Waiting(waiting) => Some(waiting),
            Phase::Receiving(_) => None,
        }
    }

    fn remove(&mut self, stream: u32) -> Option<Call> {
        let call = self.streams.remove(&stream)?;
        self.deadlines.remove(&(call.deadline, stream));
        Some(call)
    }
}

impl Call {
    fn into_waiting(self) -> Option<Waiting> {
        match self.phase {
            Phase::Waiting(waiting) => Some(waiting),
            Phase::Receiving(_) => None,
        }
    }

    fn end(self, end: End) {
        match self.phase {
            Phase::Waiting(waiting) => {
                // The waiter may have gone in this moment.
                let _ = waiting.send(Err(end));
            }
            // However it ends, the bytes are lost on their way, and may be asked for again: the deadline is that of whoever
            // asked first, and others who have joined the body have more time.
            Phase::Receiving(receiving) => fail(&receiving, Errno::WAY_LOST),
        }
    }
}

impl Receiving {
    /// Counts a piece; returns the credit to grant for it and whether the body is whole.
    fn take(&mut self, len_bytes: usize) -> Result<(usize, bool), WireError> {
        self.received_bytes += len_bytes;
        if self.received_bytes > self.total_bytes {
            return Err(WireError::Frame("more of a body than was announced"));
        }
        let window = self.granted_bytes.saturating_sub(self.received_bytes);
        let taken = limits::BODY_CREDIT_BYTES - window;
        let needed = self.granted_bytes < self.total_bytes;
        let grant = if needed && taken >= BODY_GRANT_BYTES { taken } else { 0 };
        self.granted_bytes += grant;
        Ok((grant, self.received_bytes == self.total_bytes))
    }
}

fn whole(piece: &Piece) -> Arc<Body> {
    let body = Body::filling(piece.len());
    body.push_checked(piece);
    body
}

/// The waiter may have gone in this moment; then the body is dropped, and its next piece cancels the stream.
fn reply(waiting: Option<Waiting>, reply: Reply) {
    if let Some(waiting) = waiting {
        let _ = waiting.send(Ok(reply));
    }
}

fn fail(receiving: &Receiving, errno: Errno) {
    if let Some(body) = receiving.body.upgrade() {
        body.fail(errno);
    }
}

/// Outcomes that are about bytes have a body even when it is empty: an empty file is not a missing one.
fn has_body(outcome: &Outcome, total_bytes: usize) -> bool {
    total_bytes > 0 || !matches!(outcome, Outcome::FileSystem(_) | Outcome::Failed(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::PIECE_BYTES;
    use proptest::prelude::*;

    proptest! {
        /// A sender that keeps to its credit, whatever its pieces, and a receiver that grants as it takes: neither ever
        /// waits for the other, and the sender never has more under way than the window.
        #[test]
        fn credit_neither_stops_nor_floods(
            pieces in proptest::collection::vec(1..=PIECE_BYTES, 1..60),
            delay in 0usize..8,
        ) {
            let total_bytes = pieces.iter().sum();
            let mut receiving = Receiving {
                body: Weak::new(),
                total_bytes,
                received_bytes: 0,
                granted_bytes: limits::BODY_CREDIT_BYTES,
            };
            let mut credit = limits::BODY_CREDIT_BYTES;
            let mut under_way = std::collections::VecDeque::new();
            let mut to_send = pieces.into_iter().peekable();
            let mut is_whole = false;
            while !is_whole {
                while let Some(piece) = to_send.next_if(|piece| *piece <= credit) {
                    credit -= piece;
                    under_way.push_back(piece);
                }
                prop_assert!(under_way.iter().sum::<usize>() <= limits::BODY_CREDIT_BYTES);
                prop_assert!(!under_way.is_empty(), "the sender waits for credit, the receiver for bytes");
                for piece in under_way.drain(..under_way.len().min(delay + 1)) {
                    let (grant, whole) = receiving.take(piece).unwrap();
                    credit += grant;
                    is_whole = whole;
                }
            }
            prop_assert_eq!(receiving.received_bytes, total_bytes);
            prop_assert!(receiving.take(1).is_err());
        }
    }

    #[test]
    fn a_chunk_takes_two_grants_at_most() {
        let total_bytes = 1 << 20;
        let mut receiving =
            Receiving { body: Weak::new(), total_bytes, received_bytes: 0, granted_bytes: limits::BODY_CREDIT_BYTES };
        let grants = (0..8).filter(|_| receiving.take(PIECE_BYTES).unwrap().0 > 0).count();
        assert_eq!(grants, 2);
    }
}
