//! The backing file system: its reader (`Store`), which a tree's root asks, and any node that reads large files directly; and
//! where a burst tree lands (`LandingPlace`).
//!
//! Calls block; whoever makes them bounds how many there are at once, and the `Store` is shared by all of them. It
//! decides nothing about order, caching or forwarding. Its guarantees:
//! - No message can name a file outside the exports, whatever it says and whatever happens to the directories meanwhile.
//! - No bytes of two versions of a file leave as one.
//! - An error of the backing file system is passed on as it is, and never taken for an absence.
//! - Open descriptors are bounded.
//! - Kernel pseudo file systems and Forebay's own mounts are neither shown nor touched.

mod ancestors;
mod backing;
mod calls;
mod chunk;
mod counters;
mod descriptors;
mod directory;
mod draft;
mod error;
mod extended;
mod given;
mod held;
mod inode_numbers;
mod landing_place;
pub mod limits;
mod listing;
mod mounts;
mod namespace;
mod permissions;
mod read_sizes;
mod stat;
mod store;

pub use counters::Counters;
pub use draft::Draft;
pub use error::StoreError;
pub use held::Held;
pub use landing_place::{LandedEntry, LandingPlace};
pub use mounts::is_never_served;
pub use store::{Store, StoreOptions};
