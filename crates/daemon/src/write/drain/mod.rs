//! The tree's way to the backing file system: drafts, stripes, names in their order, and what others have done there.

pub mod conflicts;
pub mod drafts;
pub mod drain_words;
pub mod draining;
pub mod landing;
mod making;
pub mod progress;
pub mod publishing;
pub mod rights;
pub mod sending;
pub mod striping;
pub mod uploading;
