//! What the tests of the whole product share: real jobs of the real command over real files.
//!
//! A test asks for what it needs (`require!`), builds a `Tree` of odd files, starts a `Job` over it and compares what
//! the views show with the source. A job that goes out of scope is taken down, and whatever it left behind fails the
//! test. Nothing here knows how Forebay works inside; it sees what a user sees.

pub mod compare;
pub mod disk;
pub mod job;
pub mod memory_group;
pub mod need;
pub mod program;
pub mod site;
pub mod tree;

pub use job::{Failure, Job, Sandbox};
pub use program::Finished;
pub use site::Site;
pub use tree::Tree;
