//! Who asks whom: the nodes of a job in trees, by closed formula.
//!
//! A tree is an order of the nodes and a fan-out. The node at position `p` asks the node at `(p - 1) / k`; position 0
//! is the root, the one that reads the backing file system. No node keeps a table of the others, so 100,000 nodes cost
//! what 2 do. A `Forest` holds the trees of a job; which tree serves a key follows from the key alone. Today a job has
//! one tree.
//!
//! A node that cannot be reached is bypassed: `Tree::line` says whom a node asks instead, `Suspects` what it believes of
//! the others. Each node decides for itself by these two; nobody is elected and nobody is told.

mod suspects;
mod tree;

pub use suspects::Suspects;
pub use tree::{Forest, OverlayError, Tree, TreeIndex};
