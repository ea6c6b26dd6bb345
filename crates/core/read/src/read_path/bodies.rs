//! Bodies that arrive: everybody who waits gets the handle with the first bytes, and what is whole is kept.

use forebay_cache::Key;
use forebay_dispatch::{AttemptId, RequestId};
use forebay_types::{Errno, Time};

use super::state::ReadPath;
use crate::chunk::{Chunk, chunk_bytes_of};

impl<B: Clone> ReadPath<B> {
    /// The first bytes of a chunk's answer are known to come: everybody who waits gets the handle now. `bytes` is the
    /// length announced; one that does not fit the file's size is an error of the source.
    ///
    /// `false` when the request has ended before: the shell may drop the body.
    pub fn handle_body_started(&mut self, now: Time, attempt: AttemptId, body: B, bytes: usize) -> bool {
        self.now = now;
        let Some(key) = self.dispatch.asked(attempt).cloned() else { return false };
        // A parcel says itself how long it is.
        let is_parcel = matches!(key, Key::Parcel { .. });
        if bytes == 0 || (!is_parcel && bytes != chunk_bytes_of(&key)) {
            self.dispatch.spoilt(now, attempt);
            return false;
        }
        let Some(started) = self.dispatch.begin_filling(now, attempt) else {
            return false;
        };
        let chunk = Chunk::new(body, bytes);
        self.hand_out(started.waiters, &chunk);
        self.kept.begin_filling(started.request, key, chunk);
        true
    }

    /// A chunk's body is whole, or will never be. Only a whole one is kept.
    pub fn handle_body_ended(&mut self, attempt: AttemptId, outcome: Result<(), Errno>) {
        let Some(request) = self.dispatch.end_filling(attempt) else { return };
        if outcome == Err(Errno::ESTALE)
            && let Some(key) = self.kept.filled_by(request).cloned()
        {
            self.start_over(&key);
        }
        self.end_filling(request, outcome.is_ok());
    }

    /// A request's answer does not arrive any more.
    pub(super) fn end_filling(&mut self, request: RequestId, is_whole: bool) {
        if let Some((key, chunk)) = self.kept.end_filling(request) {
            let routing = self.dispatch.routing();
            match (&key, is_whole) {
                (Key::Parcel { index }, true) => {
                    let (index, body) = (*index, chunk.body.clone());
                    if !routing.is_leaf(&key) {
                        self.kept.keep_chunk(self.now, routing, key, chunk);
                    }
                    self.parcel_arrived(index, body);
                }
                (Key::Parcel { index }, false) => self.parcel_failed(*index, Errno::WAY_LOST),
                (_, true) => self.kept.keep_filled(self.now, routing, key, chunk),
                _ => {}
            }
        }
        self.on_end(request);
    }
}
