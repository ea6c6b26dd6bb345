//! Dispatch: at which source each request is made, and where it is made next when that source does not answer.
//!
//! A **request** is a key, the message that asks for it, and its waiters, each with a deadline of its own. An **attempt** is
//! one try of a request at one source. A request has one attempt, or two while it is hedged; the first answer counts and
//! the other attempt is cancelled. An attempt at a node that is lost is repeated at the next node of the failover order, and
//! finally at the backing file system itself (`Routing`).
//!
//! A request is in one of these states, and `Dispatch` alone moves it:
//!
//! ```text
//!             request()          release()          token, or a node is back
//!   (joined) ----------> Held ------------> routed <------------------------- Limited
//!                          ^                  | |                                ^
//!                   hold() |                  | +-- nobody to ask, no token -----+
//!                          +---- Asked <------+
//!                                |  ^ |
//!       lost, spoilt, hedged ----+--+ +---- begin_filling() ----> Filling ---- end_filling() ----> done
//!                                |
//!                                +---- finish(), Failed, withdraw() ----> done
//! ```
//!
//! Whatever ends a request goes through one function (`finish`), which takes it out of every table and cancels what is
//! under way; whatever may let it go on goes through one other (`route`), called when suspicion, epoch, tokens or holds
//! change. So no exit forgets anything, and no request stays where it no longer belongs.
//!
//! # Order of calls
//! Sans-I/O: time comes in as `now`, decisions go out of `poll_event`, and nothing is called back. After every call the
//! driver empties `poll_event`; when `poll_timeout` has passed it calls `run_timers`. For each `Event::Ask` it carries the
//! message to the source and reports exactly one of:
//! - `finish` when a whole answer has come, or an error that is one: the waiters are the caller's;
//! - `begin_filling` when the answer's body begins to arrive, and `end_filling` when it is whole or failed; `note_bytes` with its
//!   first bytes, if they come from another node;
//! - `lost` when the source cannot be reached, `spoilt` when it is there but its answer is of no use, `timed_out` when the
//!   driver's own clock ended it, `fenced` when the source refuses it for its epoch;
//! - `referred` when the source names another node instead of answering, or has been named and has nothing.
//!
//! For each `Event::Ping` it reports `pinged`. After `Event::Cancel` nothing need be reported; what is, is ignored.
//!
//! Keys, messages and waiters are the caller's. A request that must not be carried out twice (a mutation) has a routing
//! with one owner, no fallback and no hedge, and a message that carries its operation id.

mod bodies;
mod dispatch;
mod epochs;
mod event;
mod failure_detector;
mod ids;
mod passed_over;
mod queries;
mod referrals;
mod routing;
mod stragglers;
mod table;
mod timers;
mod token_bucket;

pub mod limits;

pub use dispatch::Dispatch;
pub use event::{Counters, Event, Failure, Finished, Joined, Wanted};
pub use failure_detector::FailureDetector;
pub use ids::{AttemptId, HoldId, RequestId, Waiter};
pub use routing::{Fallback, Routing, Source};
pub use table::Waiting;
