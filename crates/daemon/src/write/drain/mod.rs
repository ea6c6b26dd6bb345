//! The tree's way to the backing file system: drafts, stripes, names in their order, and what others have done there.

pub mod conflicts;
pub mod drafts;
pub mod drain_messages;
pub mod drainer;
pub mod early_writer;
mod failure;
mod holes;
mod in_place;
mod making;
pub mod meter;
pub mod progress;
pub mod publishing;
pub mod rights;
mod room;
pub mod several;
pub mod snapshot;
mod steps;
pub mod striping;
pub mod uploading;
