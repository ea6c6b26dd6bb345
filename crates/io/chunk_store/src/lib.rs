//! The cache store: chunks of large files on the node's own disk, behind the memory of their home.
//!
//! A store is a directory of two files: slots of a header and up to 1 MiB each, and an index of six bytes a slot. No process has any
//! of the index in memory; small reads and writes go through the page cache. So jobs of one user share a store without locks, and a
//! job that dies leaves nothing behind but chunks.
//!
//! No write is synced, and no byte read is believed: a slot proves by checksums and by the hash of what it is about that it holds
//! the chunk asked for. After a crash, on a full disk and beside other processes, a slot is the chunk or a miss.
//!
//! The store decides by `policy` what it keeps, and by `set` where. It knows no file: its caller makes the key of a chunk.

mod directory;
mod disk;
mod error;
mod format;
mod key;
pub mod limits;
mod memory;
mod policy;
mod room;
mod set;
mod slots;
mod store;

pub use directory::{FileDisk, StoreSummary, drop_store, summary};
pub use disk::{Area, Disk, DiskRoom};
pub use error::ChunkStoreError;
pub use key::{ChunkKey, ChunkName};
pub use memory::MemoryDisk;
pub use room::Neighbour;
pub use store::{ChunkStore, Counters};
