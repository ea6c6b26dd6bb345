//! The write path of a node: what ties its core (`forebay_write`) to the kernel, the log and the backing file system.
//!
//! `kernel` takes programs' requests on the burst mount. What they write goes to the node's log at once, and is the node's own
//! until it is committed (`files`); names and commits are changes of the tree, which `owner` carries out one after the other
//! and writes down before it answers. `landing` follows the tree on the backing file system, in the background.
//!
//! After a daemon's death the next one finds all of it in the log (`recovery`).

mod contents;
mod directories;
mod files;
mod kernel;
mod landing;
mod owner;
mod parts;
mod recovery;
mod report;
mod requests;

pub use parts::WriteParts;
pub use recovery::open;
pub use report::BurstStatus;
