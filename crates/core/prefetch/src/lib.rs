//! Prefetches, and requests that are sent together: habits of start-ups, chunks of a file that is
//! read in order, small files beside each other; the uses of an earlier start, cut into parcels.
//!
//! Correctness never depends on this crate: each part decides only what is asked for, how much, and in which order. The read path tells
//! them what programs do and issues the requests.
//!
//! # Usage
//! - `Habits`: `on_directory_entered`, `on_listing_arrived` and `on_file_wanted` as these happen, `on_used` for whatever is
//!   wanted; then `next_candidate` as long as there is room, and `on_issued` for each that is asked for.
//! - `ReadAhead`, one for each open file: `on_read` after a read says which chunks to prefetch; `put_off` where there was no
//!   room for one.
//! - `neighbours` when a small file is asked for whose kind is read whole (`Habits::is_read_whole`).
//! - `cut` once a profile is known, the same at all who make parcels of it; `listings_at_once` and `ListingOrder` while they
//!   do.

mod bundle;
mod habits;
mod listing_order;
mod plan;
mod read_ahead;

pub use bundle::{neighbours, suffix_of};
pub use habits::{Candidate, Habits};
pub use listing_order::{ListingOrder, listings_at_once};
pub use plan::{FirstUse, Places, PlannedChunk, PlannedParcel, cut, parcel_places};
pub use read_ahead::ReadAhead;
