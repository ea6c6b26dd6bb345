//! The overlay: the nodes of a job in trees, by closed formula.
//!
//! A tree is an order of the nodes and a fan-out. A node's parent, children and failover order follow from its place in the order
//! (`blocks`), so no node keeps a table of the others, and 100,000 nodes cost what 2 do. A `Forest` holds the trees of a
//! job; which tree serves a key follows from the key alone, so nodes that wait for each other do so within one tree, and
//! never in a circle.
//!
//! A node that cannot be reached is bypassed: `Tree::failover_order` says whom a node asks instead. Each node decides for itself;
//! there is no election and no announcement.
//!
//! # Usage
//! The crate has no mutable state. At the start each node makes the same `Forest` from the job's `Shape`. For a key it
//! finds the tree (`Forest::tree_of`, by class and number). That tree's `failover_order` lists the nodes to ask, best first;
//! the caller leaves out those that it suspects. A node that finds none left may read
//! for others where `may_be_root` says so. Operations on the job itself use `Forest::first`.

mod blocks;
mod forest;
pub mod limits;
mod tree;

pub use forest::{
    Class, Forest, Shape, TreeIndex, default_fan_out, default_homes, default_roots, default_stripe_fan_out,
};
pub use tree::{OverlayError, Tree};
