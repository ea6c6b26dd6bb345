//! The read path of a node: its immediate answers, its requests, their sources, and the answers to others.
//!
//! Each part is a state machine that owns its state and knows no part above it. `kept` has the objects that are kept and
//! filling; `names` finds names in them. `reads` and `bundles` have requests that lack a chunk. `refreshes`, `rechecks`
//! and `parcels` say how far those have come. `prefetches` and `recording` watch programs, and `inodes` are those that
//! the kernel knows. `read_path` composes them with the dispatch, which holds every request. On a read miss the kernel's
//! read finds no chunk and makes or joins a request. The driver carries its `Effect::Fetch` to the parent or to the
//! backing file system. The answer's first bytes come back through `handle_body_started`, and all waiters get the handle.
//!
//! # Order of calls
//! Sans-I/O: `now` is an argument, and bytes of files never pass through here: a chunk is a handle of the driver's type `B`,
//! which may still be filling while it is handed on. After every call the driver empties `poll_effect`, which is where
//! decisions are carried out; when `poll_timeout` has passed it calls `run_timers`.
//! - For the kernel: `handle_kernel` answers at once or by `Effect::AnswerKernel` under its ticket; `handle_read_again` when
//!   the bytes of an answer got lost, `handle_interrupt` when the caller is being killed, `handle_forget`. Entries that
//!   a directory is told with are counted by `remember_entry`.
//! - For peers: `handle_peer`, answered by `Effect::AnswerPeer`; `handle_peer_promote` and `handle_peer_cancel` meanwhile.
//!   `handle_own` is the same for the driver itself.
//! - For each `Effect::Fetch`, and for each attempt of an `Effect::FetchBundle` as if it were alone: `handle_answer`, or
//!   `handle_body_started` when a chunk's or a parcel's first bytes are known to come and, if that says so,
//!   `handle_body_ended`. After `Effect::Cancel` nothing need be told; what is, is ignored.
//! - For each `Effect::Ping`: `handle_ping`. A node that is missing at the start: `handle_absent`.
//! - A refresh: `handle_quiet`, `stale_within` for the kernel (or `handle_quiet_failed`), `handle_hold`, `handle_release`, in the steps of all nodes.
//! - A known start-up: `start_prefill` once; for each `Effect::OpenParcel` either `handle_parcel_places` and
//!   `handle_parcel_opened`, the kernel's caches, and `handle_parcel_stored`, or `handle_parcel_spoilt`.
//! - `Effect::Stale` is for the kernel, from a thread that no request waits for.

mod bundles;
mod chunk;
mod effect;
mod explain;
mod inode_id;
mod inodes;
mod kept;
mod ledger;
mod links;
mod names;
mod parcels;
mod placement;
mod prefetches;
mod read_path;
mod reads;
mod rechecks;
mod recording;
mod referrals;
mod refreshes;
mod routing;
mod waiter;

pub use effect::{
    Answered, Effect, Entry, KernelAnswer, KernelRequest, KernelTicket, Part, PeerAnswer, PeerTicket, StaleInode,
};
pub use explain::Explanation;
pub use forebay_dispatch::{AttemptId, Source};
pub use inode_id::{InodeId, ROOT_INODE};
pub use ledger::{InodeLedger, KnownInode, LedgerContents, LedgerPlace};
pub use links::Links;
pub use parcels::ParcelChunk;
pub use placement::tree_of;
pub use read_path::{Counters, Options, ReadPath};
pub use refreshes::QUIET_MAX;
