//! What is asked for before a program does, and what is asked for together: habits of start-ups, chunks of a file that is
//! read in order, small files beside each other; what an earlier start used, cut into parcels.
//!
//! Nothing here is ever needed: each part decides only what is asked for, how much, and in which order. The read path tells
//! them what programs do and issues the requests.

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
