//! The core of a node: what it answers at once, what it asks for, whom it asks, and whom it tells.
//!
//! Sans-I/O: requests and answers come in through `handle_*` with the time as an argument; decisions go out through
//! `poll_effect`. Bytes of files never pass through here: a chunk is a handle of the caller's type `B`, which may still
//! be filling while it is handed on. The same core runs in the daemon and in virtual time.
//!
//! The way of a read miss: the kernel's request finds no chunk (`read_path::reads`), joins or begins a request
//! (`forebay_dispatch`), whose `Effect::Fetch` the shell carries to the parent or to the backing file system; the answer's
//! first bytes come back through `handle_body_started` (`read_path::chunks`), and everybody who waits gets the handle.

mod effect;
mod inodes;
mod ledger;
mod links;
mod placement;
mod read_path;
mod routing;

pub use effect::{
    Answered, Effect, Entry, KernelAnswer, KernelRequest, KernelTicket, Part, PeerAnswer, PeerTicket, StaleInode,
};
pub use forebay_dispatch::{AttemptId, Source};
pub use inodes::{InodeId, ROOT_INODE};
pub use ledger::{InodeLedger, KnownInode, LedgerContents, LedgerPlace};
pub use links::Links;
pub use placement::placement;
pub use read_path::{Counters, Explanation, Options, ParcelChunk, QUIET_MAX, ReadPath};
