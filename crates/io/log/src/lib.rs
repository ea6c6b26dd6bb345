//! The log of a node: where a job's writes lie until they have landed, on the node's own disk.
//!
//! A store is a directory with one log in segments of 64 MiB. Records are data of files or notes of the write core. The
//! meaning of a note, the data that are needed and the time to land are the core's affair. The log promises: records for
//! which `Log::commit` returned survive everything but the loss of the disk; records for which an append returned survive
//! the death of the daemon; incomplete records are never found. Many threads append concurrently, each from its own buffer;
//! one thread commits for all. An error of the device ends the log with `EIO` for all callers and hangs none.
//!
//! `Recovery::open` opens or creates a store and yields its records; `Recovery::finish` makes it a `Log`. `carry` takes a store to another
//! place.

mod append;
mod carry;
mod checkpoint;
mod commit;
mod descriptors;
mod directory;
mod error;
pub mod exercise;
mod head;
mod holes;
pub mod limits;
mod log;
mod network;
mod read;
mod recovery;
mod reopen;
mod repair;
mod scan;
mod segments;
mod store;
mod tail;
mod usage;

pub use append::Appended;
pub use carry::carry;
pub use checkpoint::Checkpoint;
pub use error::{LogError, StoreError};
pub use log::{Log, Space};
pub use network::network_file_system;
pub use recovery::{Recovered, RecoveredRecord, Recovery};
pub use store::{Capacity, Owner, Settings, boot_identity, whose};
