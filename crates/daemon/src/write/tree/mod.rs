//! The tree of the job's files as this node has it: its owner, the node that follows the owner, and how others reach it.

pub mod calling;
pub mod checkpoint;
pub mod election;
pub mod extended;
pub mod failover;
pub mod fits;
pub mod knowing;
pub mod leader;
pub mod memory;
pub mod paths;
pub mod questions;
pub mod remote_tree;
pub mod replicator;
pub mod standby;
pub mod stores;
pub mod tree_link;
pub mod unverified;
pub mod verifying;
#[cfg(test)]
mod verifying_tests;
