//! The write path's core: the decisions of a burst tree's owner, and the extents of files.
//!
//! A burst tree is one state machine (`Tree`) with one owner. Each change is an operation (`forebay_wire::write`), and the
//! order of operations is the order in the owner's log. The same operations in the same order make the same tree:
//! so a node takes over, and so the owner's next daemon begins. Contents are not in it: writers keep the bytes in
//! logs of their own, and the tree knows which log has which range (`Extents`). Changes reach the backing file system
//! in the tree's order (`Landing`).
//!
//! The crate does no I/O, has no clock and never waits. Access is decided here too (`permissions`), by the
//! attributes that the tree has; the kernel's own checks see attributes that may be old.

mod ages;
mod council;
mod drain_rate;
pub mod exercise;
pub mod extents;
mod known;
mod landing;
mod leases;
pub mod limits;
mod lineage;
mod locks;
mod pages;
mod partner;
mod partners;
mod replicate;
mod results;
pub mod stripes;
mod tenure;
pub mod timing;
pub mod tree;
mod unconfirmed;
mod versioned;

pub use ages::Ages;
pub use council::{council, second_home};
pub use drain_rate::DrainRate;
pub use extents::Extents;
pub use known::{Asked, Changing, Found, Known};
pub use landing::{Action, Landing, Recognised, Step};
pub use leases::{Leases, Told};
pub use lineage::Lineage;
pub use pages::{Dropping, Pages, Shown, Telling};
pub use partner::Copies;
pub use partners::partners;
pub use replicate::{Backlog, Entries, Entry, Follower, Next};
pub use results::Results;
pub use stripes::{NextStripe, Stripes};
pub use tenure::{Member, Tenure, is_majority};
pub use timing::{BELIEVED, TENURE};
pub use tree::permissions::check as check_access;
pub use tree::{
    Ahead, Drain, Listed, LostFile, OwnExtended, Refusal, Released, SentStripes, Tree, Turn, Way, blocks_of, gone_from,
    is_gone,
};
pub use unconfirmed::Unconfirmed;
