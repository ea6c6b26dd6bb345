//! The words that every other crate shares: ranks, paths, attributes, generations, chunks, limits and error numbers.
//!
//! The crate does no I/O, reads no clock and holds no state. A type lives here when more than one crate must agree on it;
//! how it looks on the network is the `wire` crate's affair.

mod attributes;
mod backed;
mod chunk;
mod epoch;
mod errno;
mod extended;
mod file_system;
mod host_list;
pub mod limits;
mod map;
mod path;
mod priority;
mod rank;
mod referral;
mod rights;
mod switches;
pub mod threads;
mod time;
mod written;

pub use attributes::{Attributes, Generation, Kind, Timestamp};
pub use backed::BackingId;
pub use chunk::{CHUNK_BYTES, ChunkIndex, Extent, PIECE_BYTES, chunk_bytes};
pub use epoch::Epoch;
pub use errno::Errno;
pub use extended::{ExtendedAttributes, ExtendedRule};
pub use file_system::FileSystem;
pub use host_list::{HostListError, check_host_name, expand_host_list};
pub use map::{Hasher, Map};
pub use path::{Name, NameError, PathError, ViewPath};
pub use priority::Priority;
pub use rank::NodeRank;
pub use referral::Referral;
pub use rights::Rights;
pub use switches::{Placed, Switch, Switches, SwitchesError};
pub use time::Time;
pub use written::{FileId, LogPosition, OperationId};
