//! Changes by programs are refused while the job ends (`ending`), so that what a drain says stays true. Names that the tier gives itself are
//! refused always (`reserved`).
//!
//! Names, contents and attributes stay as they are then (EROFS); reading, closing and locks go on. Data that the kernel has gathered of maps
//! is still taken until it has been asked to send that. A `down` may be interrupted, and its job goes on: so it is for a time only, which
//! begins anew each time that the gate is closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_fuse::{Change as Asked, Handler, Operation as Op, OwnedRequest, Reply, Request, Task};
use forebay_types::Errno;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::reserved::gives_reserved_name;
use crate::write::kernel_ids::may_write;

/// How long nothing is changed after the gate was closed: longer than all daemons of a job take to end after its last drain, and not so
/// long that a job whose `down` was interrupted is of no use.
const CLOSED_FOR: Duration = Duration::from_secs(120);

/// See the module.
#[derive(Default)]
pub struct Freeze {
    state: Mutex<State>,
    /// A change has ended.
    left: Notify,
}

#[derive(Default)]
struct State {
    /// Changes that are being made.
    inside: usize,
    closed: Option<Closed>,
    /// A kernel may have more that it has not sent, and that is refused.
    has_unsent: bool,
}

#[derive(Clone, Copy)]
struct Closed {
    until: Instant,
    /// Whether what a kernel has gathered is refused too.
    is_frozen: bool,
}

/// A change that is being made.
pub struct Inside(Arc<Freeze>);

impl Freeze {
    /// Refuses changes from now on. Data that kernels have gathered is taken until `freeze`.
    pub fn close(&self) {
        let mut state = self.state();
        let is_frozen = state.closed().is_some_and(|closed| closed.is_frozen);
        state.closed = Some(Closed { until: Instant::now() + CLOSED_FOR, is_frozen });
    }

    /// Refuses what kernels have gathered, too, and waits until nobody changes anything any more.
    ///
    /// # Errors
    /// EBUSY when somebody still does after `within`.
    pub async fn freeze(&self, within: Duration) -> Result<(), Errno> {
        if let Some(closed) = &mut self.state().closed {
            closed.is_frozen = true;
        }
        let until_left = async {
            loop {
                let left = self.left.notified();
                if self.state().inside == 0 {
                    return;
                }
                left.await;
            }
        };
        tokio::time::timeout(within, until_left).await.map_err(|_| Errno::EBUSY)
    }

    /// A kernel may have more that it has not sent.
    pub fn note_unsent(&self) {
        self.state().has_unsent = true;
    }

    /// Whether one may.
    pub fn has_unsent(&self) -> bool {
        self.state().has_unsent
    }

    /// Whether what kernels have gathered is refused.
    pub fn is_frozen(&self) -> bool {
        self.state().closed().is_some_and(|closed| closed.is_frozen)
    }

    /// How long changes are still refused, if they are.
    pub fn closed_for(&self) -> Option<Duration> {
        let closed = self.state().closed()?;
        Some(closed.until.saturating_duration_since(Instant::now()))
    }

    fn enter(self: &Arc<Self>, is_gathered: bool) -> Result<Inside, Errno> {
        let mut state = self.state();
        if state.closed().is_some_and(|closed| closed.is_frozen || !is_gathered) {
            return Err(Errno::EROFS);
        }
        state.inside += 1;
        Ok(Inside(Arc::clone(self)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How it is closed, if it is.
    fn closed(&mut self) -> Option<Closed> {
        self.closed = self.closed.filter(|closed| Instant::now() < closed.until);
        self.closed
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.state().inside -= 1;
        self.0.left.notify_waiters();
    }
}

/// The request handler of a mount, behind the gate.
pub struct Freezable<H> {
    pub handler: Arc<H>,
    pub freeze: Arc<Freeze>,
}

impl<H> Freezable<H> {
    /// Lets a request in; `Some` for a change, which is being made as long as that is held.
    ///
    /// # Errors
    /// The error for the program.
    fn let_in(&self, request: &Request<'_>) -> Result<Option<Inside>, Errno> {
        let is_gathered = match &request.operation {
            Op::Change(asked) if gives_reserved_name(asked) => return Err(Errno::EPERM),
            Op::Change(Asked::GetLock(_) | Asked::SetLock(_) | Asked::SetLockWaiting(_)) => None,
            Op::Change(Asked::Write { is_gathered, .. }) => Some(*is_gathered),
            Op::Change(_) => Some(false),
            Op::Open { flags } if may_write(*flags) => Some(false),
            _ => None,
        };
        is_gathered.map(|is_gathered| self.freeze.enter(is_gathered)).transpose()
    }
}

impl<H: Handler> Handler for Freezable<H> {
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply> {
        match self.let_in(&request) {
            Ok(_inside) => self.handler.handle(request, reply),
            Err(errno) => {
                reply.error(errno);
                None
            }
        }
    }

    fn may_block(&self, request: &Request<'_>) -> bool {
        self.handler.may_block(request)
    }

    fn task(self: Arc<Self>, request: OwnedRequest, reply: Reply) -> Task {
        match self.let_in(&request.request()) {
            Ok(inside) => {
                let task = Arc::clone(&self.handler).task(request, reply);
                Box::pin(async move {
                    task.await;
                    drop(inside);
                })
            }
            Err(errno) => Box::pin(async move { reply.error(errno) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_gate_that_is_closed_lets_in_what_was_gathered_until_it_is_shut() {
        let freeze = Arc::new(Freeze::default());
        let inside = freeze.enter(false).unwrap_or_else(|_| panic!("it is open"));
        assert_eq!(freeze.closed_for(), None);
        freeze.close();
        assert!(freeze.closed_for().is_some());
        assert_eq!(freeze.enter(false).err(), Some(Errno::EROFS));
        assert!(freeze.enter(true).is_ok());
        assert_eq!(freeze.freeze(WITHIN).await, Err(Errno::EBUSY), "somebody is inside");
        let (began, leave) = (Instant::now(), async { drop(inside) });
        assert_eq!(tokio::join!(freeze.freeze(WITHIN), leave).0, Ok(()));
        assert_eq!(began.elapsed(), Duration::ZERO, "it waits no longer than somebody is inside");
        freeze.close();
        assert_eq!(freeze.enter(true).err(), Some(Errno::EROFS), "it stays shut");
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_by_itself() {
        let freeze = Arc::new(Freeze::default());
        freeze.close();
        assert_eq!(freeze.freeze(WITHIN).await, Ok(()));
        tokio::time::advance(CLOSED_FOR).await;
        assert!(freeze.enter(false).is_ok());
        freeze.close();
        assert!(freeze.enter(true).is_ok(), "it is closed and not shut");
    }
}
