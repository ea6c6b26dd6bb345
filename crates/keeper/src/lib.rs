//! The keeper of a node: the process that holds the mount, the sockets and the memory of what the kernel was told while
//! daemons come and go; and what of it reaches outside.
//!
//! [`keep`] is the keeper's whole life. A daemon speaks with its keeper by a [`Link`] and takes over what it is given as a
//! [`Handoff`]; what the keeper passes on to it as its plan is none of the keeper's business. Programs that want to see
//! the exports at their own paths ask the keeper for the mount namespace that it holds ([`own_paths`]); those that run in an
//! image begin there ([`images`]).

mod asking;
mod daemon;
mod death;
pub mod device;
pub mod exercise;
mod handed;
mod held;
mod held_mount;
mod image_servers;
pub mod images;
mod keeper;
pub mod limits;
mod link;
mod messages;
mod namespaces;
mod options;
pub mod own_paths;
mod packets;
mod patience;
mod restarts;
mod signals;
mod starter;
pub mod trusted_path;
pub mod view_mount;
mod watched;

pub use death::Death;
pub use handed::{Replayed, take_stdin};
pub use keeper::keep;
pub use link::{ExitReason, HandedMount, Handoff, Kept, Link};
pub use messages::HANDED_OVER;
pub use options::{BurstPaths, KeeperOptions, burst_session_options, session_options};
pub use signals::{hear_endings, hear_of_children, put_endings_off};
pub use starter::{UP_TOLD_WITHIN, tell};
pub use watched::{Watched, WhenGone};
