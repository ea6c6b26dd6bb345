//! The messages between nodes: frames, messages and the encoded directory listing; and the record of a node's log.
//!
//! Only encoding and decoding: the cores decide on messages, and the transport carries them. Decoding
//! never trusts a length, allocates no more than the bytes it was given justify, and has fuzz targets.

pub mod exercise;
pub mod frame;
pub mod job;
pub mod journal;
mod leadership;
pub mod listing;
mod lock;
pub mod log_record;
pub mod message;
pub mod parcel;
pub mod query;
pub mod read;
mod record_data;
pub mod recording;
pub mod report;
pub mod request;
mod stripe;
pub mod write;
mod write_limits;
pub mod write_message;

pub use frame::{CHECKSUM_BYTES, FRAME_HEAD_BYTES, FrameHead, FrameKind, TAG_BYTES};
pub use job::{JobMessage, RefreshStep};
pub use listing::{Listing, ListingBuilder, ListingEntry, ListingVersion};
pub use log_record::{LogIdentity, RecordError, RecordHead, RecordKind, Sequence};
pub use message::{Answer, Class, EntryRecord, Greeting, Hello, Level, NONCE_BYTES, Outcome, WireError};
pub use parcel::{Parcel, ParcelPlace};
pub use query::{QueryColumn, QueryDialect, QueryDraft, QueryMessage, QueryPart, QueryStream, QueryTable, QueryWants};
pub use read::ReadMessage;
pub use recording::Use;
pub use report::{Missing, Report, Slowest, Trouble};
pub use request::{Envelope, Message, Request};
pub use write_message::WriteMessage;
