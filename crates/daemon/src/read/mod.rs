//! The read path of a node: its core, and what ties that to the kernel, to other nodes and to the backing file system.
//!
//! `core` is the core behind its lock; `effects` hands its decisions to the parts: `kernel` (with `directory`, `ioctl`,
//! `waiting`, `interrupts`) answers the view's requests, `peers` other nodes' and this node's own, `fetch` carries requests to a parent
//! or to the `backing` file system and `arrivals` their answers back, `prefill` brings start-ups ahead. `refresh` carries
//! refreshes, `pressure` looks after the memory, `ledger` writes inodes down. Each part is given what it needs; `parts`
//! puts them together. Hits are answered on the thread that reads the kernel's request; everything else runs on one
//! network thread, and what may block on threads that are bounded in number.

mod arrivals;
mod backing;
mod cached_chunks;
mod core;
mod directory;
mod effects;
mod entry_ttl;
mod fetch;
mod fetches;
mod frequent;
mod interrupts;
mod ioctl;
mod kernel;
mod kernel_entry;
mod ledger;
mod own;
mod parts;
mod peers;
mod prefill;
mod pressure;
mod refresh;
mod rest;
mod timed_exports;
mod view;
mod waiting;
pub mod warm;

pub use core::ReadCore;
pub use frequent::{Amounts, INODES_MAX};
pub use parts::ReadParts;
pub use refresh::Refreshed;
