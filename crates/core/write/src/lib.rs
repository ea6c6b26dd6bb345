//! The write path's core: the decisions of a leader, and the extents of files.
//!
//! A burst tree is one state machine (`Tree`) with one leader. Each change is an operation (`forebay_wire::write`), and the
//! order of operations is the order in the leader's log. The same operations in the same order make the same tree:
//! so a node takes over, and so the leader's next daemon begins. Contents are not in it: writers keep the bytes in
//! logs of their own, and the tree knows which log has which range (`Extents`). Changes reach the backing file system
//! in the tree's order (`Landing`).
//!
//! The crate does no I/O, has no clock and never waits. Access is decided here too (`permissions`), by the
//! attributes that the tree has; the kernel's own checks see attributes that may be old.

mod age_watermarks;
mod drain_rate;
pub mod exercise;
pub mod extents;
mod landing;
mod leader_lease;
mod leases;
pub mod limits;
mod lineage;
mod locks;
mod metadata_cache;
mod pages;
mod partner;
mod partners;
mod replicate;
mod results;
pub mod stripes;
pub mod timing;
pub mod tree;
mod unreplicated;
mod versioned;
mod voters;

pub use age_watermarks::AgeWatermarks;
pub use drain_rate::DrainRate;
pub use extents::Extents;
pub use landing::{Action, Identified, Landing, Removable, Step};
pub use leader_lease::{LeaderLease, Voter, is_majority};
pub use leases::{Invalidation, Leases};
pub use lineage::Lineage;
pub use metadata_cache::{Asked, Changing, Found, MetadataCache};
pub use pages::{AskedFor, Dropping, Invalidated, Late, Pages, Telling};
pub use partner::Copies;
pub use partners::partners;
pub use replicate::{Backlog, Entries, Entry, Follower, Next};
pub use results::Results;
pub use stripes::{NextStripe, Stripes};
pub use timing::{ANSWER_TAKEN_IN, LEADER_LEASE, LEASE_TTL};
pub use tree::permissions::check as check_access;
pub use tree::{
    Ahead, Drain, Listed, LostFile, OwnExtended, Refusal, Released, SentStripes, ToLand, Tree, Turn, Way, blocks_of,
    gone_from, is_gone, node_of_gone,
};
pub use unreplicated::Unreplicated;
pub use voters::{standby, voters};
