//! The interface of the code that answers a session's requests.

use std::sync::Arc;

use crate::owned_request::OwnedRequest;
use crate::reply::Reply;
use crate::request::Request;
use crate::tasks::Task;

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers `request` by `reply`, now or later; or, without having done anything, gives `reply` back: `task` then goes on with the
    /// request. Called by several readers at once; while it runs, its reader takes no other request, so it must not wait.
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply>;

    /// Whether `handle` may take as long as a disk takes. The last reader that reads then has a task do it.
    fn may_block(&self, _request: &Request<'_>) -> bool {
        false
    }

    /// The rest of a request that `handle` did not answer. Called before its reader takes the next one; the task itself may begin after
    /// requests that came later. It may be dropped whenever it waits: then this daemon is about to end.
    fn task(self: Arc<Self>, _request: OwnedRequest, reply: Reply) -> Task {
        // Of a handler that answers everything itself.
        Box::pin(async move { drop(reply) })
    }
}

impl<F: Fn(Request<'_>, Reply) + Send + Sync + 'static> Handler for F {
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply> {
        self(request, reply);
        None
    }
}
