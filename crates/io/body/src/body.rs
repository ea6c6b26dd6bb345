//! A body and who waits for it. One lock, held for a few instructions and never while a follower is called.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use forebay_types::{Errno, PIECE_BYTES};

use crate::{LiveBytes, Piece};

/// Parts of a body in order, as many as a kernel reply may gather at once.
pub type Slices = Vec<Bytes>;

type Callback = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// The bytes of an answer: how many there will be is known, how many there are grows.
pub struct Body {
    expected_bytes: usize,
    _live: LiveBytes,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pieces: Vec<Kept>,
    filled_bytes: usize,
    failed: Option<Errno>,
    wakers: Vec<Waker>,
    callbacks: Vec<(usize, Callback)>,
}

/// A piece that is there. Its checksum is that with which it came, or, once it has been sent, that with which it went.
struct Kept {
    bytes: Bytes,
    checksum: Option<u32>,
}

impl Body {
    /// A body of `expected_bytes` of which none is there yet.
    #[must_use]
    pub fn filling(expected_bytes: usize) -> Arc<Self> {
        Arc::new(Self { expected_bytes, _live: LiveBytes::new(expected_bytes), state: Mutex::default() })
    }

    /// A body that is all there, in pieces that share `bytes`.
    #[must_use]
    pub fn whole(mut bytes: Bytes) -> Arc<Self> {
        let body = Self::filling(bytes.len());
        while !bytes.is_empty() {
            body.push(bytes.split_to(bytes.len().min(PIECE_BYTES)));
        }
        body
    }

    /// Bytes there will be.
    #[must_use]
    pub fn expected_bytes(&self) -> usize {
        self.expected_bytes
    }

    /// Bytes there are.
    #[must_use]
    pub fn filled_bytes(&self) -> usize {
        self.lock().filled_bytes
    }

    /// Whether all bytes are there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.filled_bytes() == self.expected_bytes
    }

    /// Adds the next piece and wakes who waits for it. Bytes beyond the expected length fail the body with `EPROTO`;
    /// bytes after a failure are dropped. All pieces but the last have `PIECE_BYTES`, or readers would search longer.
    pub fn push(&self, piece: Bytes) {
        self.keep(Kept { bytes: piece, checksum: None });
    }

    /// The same for a piece that came with its checksum, with which it will be sent on.
    pub fn push_checked(&self, piece: &Piece) {
        self.keep(Kept { bytes: piece.bytes().clone(), checksum: Some(piece.checksum()) });
    }

    fn keep(&self, piece: Kept) {
        let mut state = self.lock();
        if state.failed.is_some() || piece.bytes.is_empty() {
            return;
        }
        if state.filled_bytes + piece.bytes.len() > self.expected_bytes {
            return self.end(state, Errno::EPROTO);
        }
        state.filled_bytes += piece.bytes.len();
        if state.pieces.is_empty() {
            // Most bodies are small files of one piece; a vector that grows begins with four.
            state.pieces.reserve_exact(self.expected_bytes.div_ceil(PIECE_BYTES));
        }
        state.pieces.push(piece);
        let filled = state.filled_bytes;
        let ready = take_ready(&mut state.callbacks, filled);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        ready.into_iter().for_each(|callback| callback(Ok(())));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the body early: who waits for bytes that are not there gets `errno`. Bytes that are there stay readable.
    /// No effect on a whole body.
    pub fn fail(&self, errno: Errno) {
        let state = self.lock();
        if state.failed.is_none() && state.filled_bytes < self.expected_bytes {
            self.end(state, errno);
        }
    }

    /// Why the body ended early, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Errno> {
        self.lock().failed
    }

    /// Calls `callback` once the first `end_bytes` are there or never will be; at once when that is so already.
    /// It is called on the filling thread and must not block.
    pub fn when_filled(&self, end_bytes: usize, callback: impl FnOnce(Result<(), Errno>) + Send + 'static) {
        let mut state = self.lock();
        let outcome = if state.filled_bytes >= end_bytes {
            Ok(())
        } else if let Some(errno) = state.failed {
            Err(errno)
        } else if end_bytes > self.expected_bytes {
            Err(Errno::EINVAL)
        } else {
            state.callbacks.push((end_bytes, Box::new(callback)));
            return;
        };
        drop(state);
        callback(outcome);
    }

    /// The bytes of `offset_bytes..offset_bytes + len_bytes`, or as many of them as are there. Shares, does not copy.
    #[must_use]
    pub fn slices(&self, offset_bytes: usize, len_bytes: usize) -> Slices {
        let state = self.lock();
        let end = offset_bytes.saturating_add(len_bytes).min(state.filled_bytes);
        let mut slices = Slices::new();
        let mut start = 0;
        for Kept { bytes, .. } in &state.pieces {
            let (from, to) = (offset_bytes.max(start), end.min(start + bytes.len()));
            if from < to {
                slices.push(bytes.slice(from - start..to - start));
            }
            start += bytes.len();
            if start >= end {
                break;
            }
        }
        slices
    }

    /// All bytes in one block; `None` while some are missing. Copies unless there is one piece.
    #[must_use]
    pub fn contiguous(&self) -> Option<Bytes> {
        let state = self.lock();
        if state.filled_bytes < self.expected_bytes {
            return None;
        }
        match &state.pieces[..] {
            [] => Some(Bytes::new()),
            [piece] => Some(piece.bytes.clone()),
            pieces => Some(pieces.iter().map(|piece| &piece.bytes[..]).collect::<Vec<_>>().concat().into()),
        }
    }

    /// The same as one piece, with the checksum it came with if it came as one.
    #[must_use]
    pub fn contiguous_piece(&self) -> Option<Piece> {
        let bytes = self.contiguous()?;
        let whole = self.lock().pieces.first().is_some_and(|first| first.bytes.len() == bytes.len());
        Some(if whole { self.checked(0, bytes) } else { Piece::new(bytes) })
    }

    /// Piece number `index`: ready when it is there, `Ok(None)` past the last one, the error when it will never come.
    pub fn poll_piece(&self, index: usize, context: &Context<'_>) -> Poll<Result<Option<Bytes>, Errno>> {
        let mut state = self.lock();
        if let Some(piece) = state.pieces.get(index) {
            return Poll::Ready(Ok(Some(piece.bytes.clone())));
        }
        if state.filled_bytes == self.expected_bytes {
            return Poll::Ready(Ok(None));
        }
        if let Some(errno) = state.failed {
            return Poll::Ready(Err(errno));
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// The same with the piece's checksum. That is made when the piece is sent first, and kept for the other children.
    pub fn poll_checked(&self, index: usize, context: &Context<'_>) -> Poll<Result<Option<Piece>, Errno>> {
        self.poll_piece(index, context).map_ok(|bytes| bytes.map(|bytes| self.checked(index, bytes)))
    }

    /// The bytes of piece `index` with its checksum, which is computed without the lock.
    fn checked(&self, index: usize, bytes: Bytes) -> Piece {
        if let Some(checksum) = self.lock().pieces.get(index).and_then(|kept| kept.checksum) {
            return Piece::with_checksum(bytes, checksum);
        }
        let piece = Piece::new(bytes);
        if let Some(kept) = self.lock().pieces.get_mut(index) {
            kept.checksum = Some(piece.checksum());
        }
        piece
    }

    /// Waits for piece number `index`; see `poll_piece`.
    ///
    /// # Errors
    /// The error that ended the body early.
    pub async fn piece(&self, index: usize) -> Result<Option<Bytes>, Errno> {
        std::future::poll_fn(|context| self.poll_piece(index, context)).await
    }

    /// Waits until all bytes are there.
    ///
    /// # Errors
    /// The error that ended the body early.
    pub async fn whole_bytes(&self) -> Result<(), Errno> {
        let mut index = 0;
        while self.piece(index).await?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn end(&self, mut state: MutexGuard<'_, State>, errno: Errno) {
        state.failed = Some(errno);
        let callbacks = std::mem::take(&mut state.callbacks);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        callbacks.into_iter().for_each(|(_, callback)| callback(Err(errno)));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A follower that panicked ends the process (panic = abort), so a poisoned lock is never seen outside tests.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body of {} bytes, {} there", self.expected_bytes, self.filled_bytes())
    }
}

/// A body that nobody fills any more will never be whole; who still waits must hear of it.
impl Drop for Body {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, callback) in std::mem::take(&mut state.callbacks) {
            callback(Err(Errno::EIO));
        }
    }
}

fn take_ready(callbacks: &mut Vec<(usize, Callback)>, filled_bytes: usize) -> Vec<Callback> {
    let (ready, waiting) = std::mem::take(callbacks).into_iter().partition(|(end, _)| *end <= filled_bytes);
    *callbacks = waiting;
    let ready: Vec<(usize, Callback)> = ready;
    ready.into_iter().map(|(_, callback)| callback).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn recorder() -> (Arc<AtomicUsize>, impl FnOnce(Result<(), Errno>) + Send + 'static) {
        let seen = Arc::new(AtomicUsize::new(0));
        let inner = Arc::clone(&seen);
        (seen, move |outcome| inner.store(if outcome.is_ok() { 1 } else { 2 }, Ordering::SeqCst))
    }

    #[test]
    fn followers_are_called_when_their_bytes_are_there() {
        let body = Body::filling(10);
        let (early, on_early) = recorder();
        let (late, on_late) = recorder();
        body.when_filled(4, on_early);
        body.when_filled(10, on_late);
        body.push(Bytes::from_static(b"01234"));
        assert_eq!((early.load(Ordering::SeqCst), late.load(Ordering::SeqCst)), (1, 0));
        body.push(Bytes::from_static(b"56789"));
        assert_eq!(late.load(Ordering::SeqCst), 1);
        assert_eq!(body.slices(3, 4), [Bytes::from_static(b"34"), Bytes::from_static(b"56")]);
        assert_eq!(body.contiguous().unwrap(), &b"0123456789"[..]);
    }

    #[test]
    fn a_failure_reaches_who_waits_and_keeps_what_is_there() {
        let body = Body::filling(10);
        let (seen, callback) = recorder();
        body.push(Bytes::from_static(b"0123"));
        body.when_filled(5, callback);
        body.fail(Errno::ETIMEDOUT);
        assert_eq!(seen.load(Ordering::SeqCst), 2);
        assert_eq!(body.slices(0, 10), [Bytes::from_static(b"0123")]);
        assert_eq!(body.failure(), Some(Errno::ETIMEDOUT));
    }

    #[test]
    fn more_bytes_than_announced_fail_the_body() {
        let body = Body::filling(3);
        body.push(Bytes::from_static(b"0123"));
        assert_eq!(body.failure(), Some(Errno::EPROTO));
    }

    #[test]
    fn a_checksum_goes_on_as_it_came() {
        let context = Context::from_waker(Waker::noop());
        let body = Body::filling(6);
        body.push_checked(&Piece::with_checksum(Bytes::from_static(b"abc"), 7));
        body.push(Bytes::from_static(b"def"));
        let checksum = |index| match body.poll_checked(index, &context) {
            Poll::Ready(Ok(Some(piece))) => piece.checksum(),
            other => panic!("{other:?}"),
        };
        let own = Piece::new(Bytes::from_static(b"def")).checksum();
        assert_eq!([checksum(0), checksum(1), checksum(1)], [7, own, own]);
        assert!(body.contiguous_piece().unwrap().is_sound(), "of several pieces a new one is made");
        let single = Body::filling(3);
        single.push_checked(&Piece::with_checksum(Bytes::from_static(b"abc"), 7));
        assert_eq!(single.contiguous_piece().unwrap().checksum(), 7);
        assert!(Body::whole(Bytes::new()).contiguous_piece().unwrap().is_empty());
    }

    #[test]
    fn an_empty_body_is_whole_at_once() {
        let body = Body::whole(Bytes::new());
        let (seen, callback) = recorder();
        body.when_filled(0, callback);
        assert!(body.is_whole());
        assert_eq!(seen.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_body_that_is_dropped_tells_who_waits() {
        let body = Body::filling(3);
        let (seen, callback) = recorder();
        body.when_filled(3, callback);
        drop(body);
        assert_eq!(seen.load(Ordering::SeqCst), 2);
    }
}
