//! Copies that a job can rely on: of a file or a tree, from one place that is mounted to another.
//!
//! `Listing` says what is to be copied and which part of it a node takes. `copy_file` copies one file: block by block into a draft beside
//! its place, each block's checksum noted in a journal; read back from the disk and compared; made durable; renamed. So a file is never
//! there in part, one that is replaced is there until then, and a copy that was broken off goes on at the first block that is not right.
//! A copy notes what it is of; who asks for it again has it verified, not copied. The note counts in a file that this user alone may
//! write to. Any other file of this user is compared with the original, and another user's is replaced.
//!
//! Permissions to read or write are the operating system's affair, and bytes between nodes are the mounts' affair.

mod copy;
mod error;
pub mod exercise;
mod journal;
pub mod limits;
mod listing;
mod noted;
mod place;

pub use copy::{Copied, copy_file, copy_link, has_room, missing_bytes, read_whole};
pub use error::{StageError, What};
pub use listing::{Entry, Kind, Listing};
pub use place::{Place, Target, Writers};
