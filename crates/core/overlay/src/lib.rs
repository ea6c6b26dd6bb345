//! Who asks whom: the nodes of a job in trees, by closed formula.
//!
//! A tree is an order of the nodes and a fan-out. A node's parent, children and failover order follow from its place in the order
//! (`blocks`), so no node keeps a table of the others, and 100,000 nodes cost what 2 do. A `Forest` holds the trees of a
//! job; which tree serves a key follows from the key alone, so nodes that wait for each other do so within one tree, and
//! never in a circle.
//!
//! A node that cannot be reached is bypassed: `Tree::failover_order` says whom a node asks instead. Each node decides for itself;
//! nobody is elected and nobody is told.

mod blocks;
mod forest;
pub mod limits;
mod tree;

pub use forest::{Class, Forest, Shape, TreeIndex, default_fan_out, default_roots, default_stripe_fan_out};
pub use tree::{OverlayError, Tree};
