//! The interface of the code that answers a session's requests.

use crate::reply::Reply;
use crate::request::Request;

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers `request` by `reply`, now or later. Called by several readers at once; while it runs, its reader takes
    /// no other request.
    fn handle(&self, request: Request<'_>, reply: Reply);

    /// Whether `handle` may wait for what other requests of this mount must not wait for. Asked only while few readers are free.
    fn may_wait(&self, _request: &Request<'_>) -> bool {
        false
    }

    /// Another thread is about to handle `request`, maybe after requests that came later. Called by its reader, before that takes the next
    /// one; the outcome is dropped when `request` has been handled.
    fn hand_over(&self, _request: &Request<'_>) -> Box<dyn Send> {
        Box::new(())
    }
}

impl<F: Fn(Request<'_>, Reply) + Send + Sync + 'static> Handler for F {
    fn handle(&self, request: Request<'_>, reply: Reply) {
        self(request, reply);
    }
}
