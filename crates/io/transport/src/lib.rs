//! Connections between the daemons of a job: who connects to whom, how frames get there, and what happens when a peer
//! does not answer.
//!
//! An `Endpoint` asks (`call`) and answers (`Service`). The node that asks connects, lazily, and keeps two connections
//! to each peer it asked: requests, credit, cancellation and small answers on one, bodies on the other, because a small
//! message behind bodies waits for milliseconds. A node that is asked back connects for itself, so that every
//! connection has one asking and one answering end, and stream numbers never collide.
//!
//! Both sides of a connection prove that they hold the job's key before anything else is said, and every frame is
//! checked to be the next one of this connection (`handshake`, `guard`). Bodies carry checksums on every level.
//!
//! A body is sent while it grows and received while somebody still holds it: nothing is stored and forwarded, and
//! dropping a body cancels it. The meaning of an answer, the next node to ask and repetitions are decided elsewhere.
//!
//! Everything runs as tasks of the runtime in which the endpoint was started; `call` may be awaited in any. In what order
//! things happen follows from what is asked and when, from nothing random: on one thread, over the memory network and under
//! a paused clock, every run of a job is the same (`tests/simulated.rs`).

mod accept;
mod bulk;
mod calls;
mod connect;
mod counts;
mod endpoint;
mod error;
#[doc(hidden)]
pub mod exercise;
mod faults;
mod find;
mod guard;
mod handshake;
pub mod life;
pub mod limits;
mod link;
mod lock;
pub mod memory;
mod options;
mod pace;
mod pending;
mod pipe;
mod reader;
mod replier;
mod session;
mod stream;
mod subnet;
mod tasks;
mod window;
mod writer;

pub use calls::Reply;
pub use counts::Counters;
pub use endpoint::Endpoint;
pub use error::{CallError, Refusal};
pub use options::{Address, EndpointOptions, Peers, Security};
pub use replier::{IncomingCall, Replier, Service};
pub use subnet::Subnet;
