//! One replicated stream between two nodes (`forebay_write::Backlog`), as a shell without threads: `replicator` is the leader's part, `follower`
//! that of the node which follows. The tree's history goes to its standby by it, a node's records to its partner.

pub mod follower;
pub mod replicator;
#[cfg(test)]
mod tests;
