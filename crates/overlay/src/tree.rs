//! A tree and the forest: positions, parents, children, depth.

use forebay_types::{NodeRank, limits};
use thiserror::Error;

/// Why there can be no such tree. Nothing was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum OverlayError {
    /// Node count outside 1..=`limits::NODES_MAX`.
    #[error("a job has 1 to {max} nodes, not {0}", max = limits::NODES_MAX)]
    Nodes(u64),
    /// Fan-out outside 1..=`limits::FAN_OUT_MAX`.
    #[error("the fan-out is 1 to {max}, not {0}", max = limits::FAN_OUT_MAX)]
    FanOut(u32),
    /// The root is not a node of the job.
    #[error("node {0} cannot be root: it is not a node of the job")]
    Root(NodeRank),
}

/// Number of a tree in its forest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeIndex(pub u32);

/// One tree over all nodes of the job: the order of ranks, turned so that the root comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    node_count: u32,
    fan_out: u32,
    root: NodeRank,
}

impl Tree {
    /// A tree of `node_count` nodes in which each is asked by at most `fan_out` others.
    ///
    /// # Errors
    /// `OverlayError` for a count, fan-out or root outside its range.
    pub fn new(node_count: u32, fan_out: u32, root: NodeRank) -> Result<Self, OverlayError> {
        if node_count == 0 || node_count as usize > limits::NODES_MAX {
            return Err(OverlayError::Nodes(u64::from(node_count)));
        }
        if fan_out == 0 || fan_out > limits::FAN_OUT_MAX {
            return Err(OverlayError::FanOut(fan_out));
        }
        if root.0 >= node_count {
            return Err(OverlayError::Root(root));
        }
        Ok(Self { node_count, fan_out, root })
    }

    /// The node that reads the backing file system.
    #[must_use]
    pub fn root(&self) -> NodeRank {
        self.root
    }

    /// The node that `rank` asks; `None` for the root.
    #[must_use]
    pub fn parent(&self, rank: NodeRank) -> Option<NodeRank> {
        let position = self.position(rank).checked_sub(1)?;
        Some(self.rank_at(position / u64::from(self.fan_out)))
    }

    /// The nodes that ask `rank`, in the order of their positions.
    pub fn children(&self, rank: NodeRank) -> impl Iterator<Item = NodeRank> + use<> {
        let tree = *self;
        let first = tree.position(rank) * u64::from(tree.fan_out) + 1;
        let end = (first + u64::from(tree.fan_out)).min(u64::from(tree.node_count));
        (first..end).map(move |position| tree.rank_at(position))
    }

    /// Whether nobody asks `rank`.
    #[must_use]
    pub fn is_leaf(&self, rank: NodeRank) -> bool {
        self.position(rank) * u64::from(self.fan_out) + 1 >= u64::from(self.node_count)
    }

    /// How many hops `rank` is from the root.
    #[must_use]
    pub fn depth(&self, rank: NodeRank) -> u32 {
        self.ancestors(rank).count() as u32
    }

    /// How many hops the farthest node is from the root.
    #[must_use]
    pub fn depth_max(&self) -> u32 {
        self.depth(self.rank_at(u64::from(self.node_count) - 1))
    }

    /// The nodes from the parent of `rank` up to the root.
    pub fn ancestors(&self, rank: NodeRank) -> impl Iterator<Item = NodeRank> + use<> {
        let tree = *self;
        std::iter::successors(tree.parent(rank), move |node| tree.parent(*node))
    }

    /// Whom `rank` may ask, best first: its ancestors, then the nodes that may be root in its root's place, in their
    /// order. Every one of them comes before `rank` in the order, so nodes never wait for each other in a circle; after
    /// the last of them `rank` reads the backing file system itself.
    pub fn line(&self, rank: NodeRank) -> impl Iterator<Item = NodeRank> + use<> {
        let tree = *self;
        let stand_ins =
            (0..self.position(rank).min(limits::ROOT_CANDIDATES)).map(move |position| tree.rank_at(position));
        let is_ancestor = move |other: &NodeRank| tree.ancestors(rank).any(|ancestor| ancestor == *other);
        self.ancestors(rank).chain(stand_ins.filter(move |other| !is_ancestor(other)))
    }

    /// All nodes, the root first.
    pub fn order(&self) -> impl Iterator<Item = NodeRank> + use<> {
        let tree = *self;
        (0..u64::from(tree.node_count)).map(move |position| tree.rank_at(position))
    }

    /// Whether `rank` is one of the nodes that read the backing file system for others when the root cannot.
    #[must_use]
    pub fn may_be_root(&self, rank: NodeRank) -> bool {
        self.position(rank) < limits::ROOT_CANDIDATES
    }

    /// Place of `rank` in the order; ranks beyond the job wrap around (they are checked where they enter).
    fn position(&self, rank: NodeRank) -> u64 {
        let count = u64::from(self.node_count);
        (u64::from(rank.0) + count - u64::from(self.root.0)) % count
    }

    fn rank_at(&self, position: u64) -> NodeRank {
        NodeRank(((position + u64::from(self.root.0)) % u64::from(self.node_count)) as u32)
    }
}

/// The trees of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forest {
    trees: Vec<Tree>,
}

impl Forest {
    /// A forest of one tree, whose root is the first node of the list.
    ///
    /// # Errors
    /// `OverlayError` for a count or fan-out outside its range.
    pub fn single(node_count: u32, fan_out: u32) -> Result<Self, OverlayError> {
        Ok(Self { trees: vec![Tree::new(node_count, fan_out, NodeRank(0))?] })
    }

    /// The tree that serves a key with this hash.
    #[must_use]
    pub fn tree_of(&self, key_hash: u64) -> &Tree {
        &self.trees[(key_hash % self.trees.len() as u64) as usize]
    }

    /// The tree on which the job itself is asked (status, shutdown).
    #[must_use]
    pub fn first(&self) -> &Tree {
        &self.trees[0]
    }

    /// Whether nobody asks `rank` in any tree.
    #[must_use]
    pub fn is_leaf(&self, rank: NodeRank) -> bool {
        self.trees.iter().all(|tree| tree.is_leaf(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The reference model: a queue filled level by level, as one would draw it.
    fn parents_by_drawing(node_count: u32, fan_out: u32, root: u32) -> Vec<Option<NodeRank>> {
        let order: Vec<NodeRank> = (0..node_count).map(|at| NodeRank((at + root) % node_count)).collect();
        let mut parents = vec![None; node_count as usize];
        let mut next = 1;
        for parent in &order {
            for _ in 0..fan_out {
                if let Some(child) = order.get(next) {
                    parents[child.0 as usize] = Some(*parent);
                    next += 1;
                }
            }
        }
        parents
    }

    proptest! {
        #[test]
        fn the_formula_agrees_with_the_drawing(nodes in 1u32..300, fan_out in 1u32..40, root: u32) {
            let root = root % nodes;
            let tree = Tree::new(nodes, fan_out, NodeRank(root)).unwrap();
            let drawn = parents_by_drawing(nodes, fan_out, root);
            for rank in (0..nodes).map(NodeRank) {
                prop_assert_eq!(tree.parent(rank), drawn[rank.0 as usize]);
                let children: Vec<NodeRank> = tree.children(rank).collect();
                prop_assert_eq!(children.is_empty(), tree.is_leaf(rank));
                prop_assert!(children.iter().all(|child| drawn[child.0 as usize] == Some(rank)));
                prop_assert!(children.len() <= fan_out as usize);
            }
            let edges: usize = (0..nodes).map(|rank| tree.children(NodeRank(rank)).count()).sum();
            prop_assert_eq!(edges, nodes as usize - 1);
        }

        #[test]
        fn every_way_up_ends_at_the_root(nodes in 1u32..100_000, fan_out in 2u32..64, rank: u32) {
            let tree = Tree::new(nodes, fan_out, NodeRank(0)).unwrap();
            let rank = NodeRank(rank % nodes);
            prop_assert_eq!(tree.ancestors(rank).last().unwrap_or(rank), tree.root());
            prop_assert!(tree.depth(rank) <= tree.depth_max());
            prop_assert!(tree.depth(rank) <= f64::from(nodes).log(f64::from(fan_out)).ceil() as u32 + 1);
        }
    }

    proptest! {
        /// Whatever each node believes of the others, following the lines ends at a node that reads for itself.
        #[test]
        fn no_two_nodes_wait_for_each_other(nodes in 1u32..400, fan_out in 1u32..9, root: u32, beliefs: u64) {
            let tree = Tree::new(nodes, fan_out, NodeRank(root % nodes)).unwrap();
            let believes_lost = |at: NodeRank, other: NodeRank| {
                (beliefs ^ u64::from(at.0)).wrapping_mul(u64::from(other.0) | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1
            };
            for rank in (0..nodes).map(NodeRank) {
                let mut at = rank;
                let mut hops = 0;
                while let Some(next) = tree.line(at).find(|other| !believes_lost(at, *other)) {
                    (at, hops) = (next, hops + 1);
                    prop_assert!(hops < nodes, "a circle");
                }
            }
        }

        /// When all know the same lost nodes, and one that may be root is left, it alone reads the backing file system.
        #[test]
        fn nodes_that_agree_find_the_same_root(nodes in 1u32..400, fan_out in 1u32..9, lost: u8, others: u64) {
            let tree = Tree::new(nodes, fan_out, NodeRank(0)).unwrap();
            let is_lost = |rank: NodeRank| match rank.0 {
                number @ 0..8 => lost >> number & 1 == 1,
                number => (others ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1,
            };
            let ends = (0..nodes).map(NodeRank).filter(|rank| !is_lost(*rank)).map(|rank| {
                std::iter::successors(Some(rank), |at| tree.line(*at).find(|other| !is_lost(*other))).last().unwrap()
            });
            let ends: std::collections::BTreeSet<NodeRank> = ends.collect();
            if (0..nodes.min(8)).any(|rank| !is_lost(NodeRank(rank))) {
                prop_assert!(ends.len() <= 1, "{ends:?}");
                prop_assert!(ends.iter().all(|rank| tree.may_be_root(*rank)));
            }
        }
    }

    #[test]
    fn the_line_goes_up_and_then_to_the_first_of_the_order() {
        let tree = Tree::new(31, 2, NodeRank(0)).unwrap();
        let line: Vec<u32> = tree.line(NodeRank(22)).map(|rank| rank.0).collect();
        assert_eq!(line, [10, 4, 1, 0, 2, 3, 5, 6, 7]);
        assert_eq!(tree.line(NodeRank(0)).count(), 0);
        assert_eq!(tree.line(NodeRank(1)).collect::<Vec<_>>(), [NodeRank(0)]);
    }

    #[test]
    fn what_cannot_be_a_tree_is_refused() {
        assert_eq!(Tree::new(0, 2, NodeRank(0)), Err(OverlayError::Nodes(0)));
        assert_eq!(Tree::new(3, 0, NodeRank(0)), Err(OverlayError::FanOut(0)));
        assert_eq!(Tree::new(3, 2, NodeRank(3)), Err(OverlayError::Root(NodeRank(3))));
    }
}
