//! A tree: parents, children, depth, and whom a node may ask instead.

use forebay_types::{NodeRank, limits};
use thiserror::Error;

use crate::blocks::Blocks;

/// Nodes of one tree that may read the backing file system for others: the root and, when it cannot, the next in the order. More
/// would not help a job that lost so many at once, and each is asked in vain when the network is cut.
const ROOT_CANDIDATES: usize = 8;

/// Why there can be no such tree. No tree was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum OverlayError {
    /// Node count outside 1..=`limits::NODES_MAX`.
    #[error("a job has 1 to {max} nodes, not {0}", max = limits::NODES_MAX)]
    Nodes(u64),
    /// Fan-out outside 1..=`crate::limits::FAN_OUT_MAX`.
    #[error("the fan-out is 1 to {max}, not {0}", max = crate::limits::FAN_OUT_MAX)]
    FanOut(u32),
    /// The root is not a node of the job.
    #[error("node {0} cannot be root: it is not a node of the job")]
    Root(NodeRank),
    /// Root count outside 1..=`crate::limits::ROOTS_MAX`.
    #[error("a forest has 1 to {max} roots, not {0}", max = crate::limits::ROOTS_MAX)]
    Roots(u32),
    /// More nodes than can all be homes (`crate::limits::HOMES_MAX`).
    #[error("each of at most {max} nodes can be home of a share of the large files, not each of {0}", max = crate::limits::HOMES_MAX)]
    Homes(u32),
}

/// One tree over all nodes of the job.
///
/// Its order is that of the levels: the root, its children, their children, each level from the first parent to the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    node_count: u32,
    root: NodeRank,
    blocks: Blocks,
    /// The first nodes of the order; the root fills what a small job leaves over.
    first: [NodeRank; ROOT_CANDIDATES],
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
        if fan_out == 0 || fan_out > crate::limits::FAN_OUT_MAX {
            return Err(OverlayError::FanOut(fan_out));
        }
        if root.0 >= node_count {
            return Err(OverlayError::Root(root));
        }
        let blocks = Blocks::new(node_count, fan_out, root.0);
        let mut tree = Self { node_count, root, blocks, first: [root; ROOT_CANDIDATES] };
        tree.find_first();
        Ok(tree)
    }

    /// A tree of one level, whose nodes stand in for the root in turn from the one after `turn` others on. The root is one of the nodes.
    pub(crate) fn star(node_count: u32, root: NodeRank, turn: u32) -> Self {
        let blocks = Blocks::new(node_count, node_count, root.0);
        let mut tree = Self { node_count, root, blocks, first: [root; ROOT_CANDIDATES] };
        let others = node_count.saturating_sub(1);
        let stand_ins = (0..others).map(|step| NodeRank((root.0 + 1 + (turn + step) % others) % node_count));
        for (place, stand_in) in tree.first[1..].iter_mut().zip(stand_ins) {
            *place = stand_in;
        }
        tree
    }

    /// Follows the levels until enough are found.
    fn find_first(&mut self) {
        let (mut found, mut parents) = (1, 0);
        while parents < found && found < self.first.len() {
            let children = self.children(self.first[parents]);
            for (place, child) in self.first[found..].iter_mut().zip(children) {
                *place = child;
                found += 1;
            }
            parents += 1;
        }
    }

    /// How many nodes it has.
    #[must_use]
    pub fn node_count(&self) -> u32 {
        self.node_count
    }

    /// The node that reads the backing file system.
    #[must_use]
    pub fn root(&self) -> NodeRank {
        self.root
    }

    /// The node that `rank` asks; `None` for the root.
    #[must_use]
    pub fn parent(&self, rank: NodeRank) -> Option<NodeRank> {
        self.blocks.parent(rank.0).map(NodeRank)
    }

    /// The nodes that ask `rank`: those first that are asked themselves.
    pub fn children(&self, rank: NodeRank) -> impl Iterator<Item = NodeRank> + use<> {
        self.blocks.children(rank.0).map(NodeRank)
    }

    /// Whether nobody asks `rank`.
    #[must_use]
    pub fn is_leaf(&self, rank: NodeRank) -> bool {
        self.children(rank).next().is_none()
    }

    /// How many hops `rank` is from the root.
    #[must_use]
    pub fn depth(&self, rank: NodeRank) -> u32 {
        self.ancestors(rank).count() as u32
    }

    /// How many hops a node may be from the root; none is farther.
    #[must_use]
    pub fn depth_max(&self) -> u32 {
        self.blocks.depth_max()
    }

    /// The nodes from the parent of `rank` up to the root.
    pub fn ancestors(&self, rank: NodeRank) -> impl Iterator<Item = NodeRank> + Clone + use<> {
        let tree = *self;
        std::iter::successors(tree.parent(rank), move |node| tree.parent(*node))
    }

    /// Whom `rank` may ask, best first: its ancestors, then the nodes that may be root in its root's place, in their
    /// order. Every one of them comes before `rank` in the order, so nodes never wait for each other in a circle; after
    /// the last of them `rank` reads the backing file system itself.
    pub fn failover_order(&self, rank: NodeRank) -> impl Iterator<Item = NodeRank> + Clone + use<> {
        let tree = *self;
        let stand_ins = tree.root_candidates().take_while(move |other| *other != rank);
        let is_ancestor = move |other: &NodeRank| tree.ancestors(rank).any(|ancestor| ancestor == *other);
        self.ancestors(rank).chain(stand_ins.filter(move |other| !is_ancestor(other)))
    }

    /// The nodes that read the backing file system for others: the root, then those that do it when all before them
    /// cannot. They are the first of the order.
    pub fn root_candidates(&self) -> impl Iterator<Item = NodeRank> + Clone + use<> {
        self.first.into_iter().take(self.node_count as usize)
    }

    /// Whether `rank` is one of the nodes that read the backing file system for others.
    #[must_use]
    pub fn may_be_root(&self, rank: NodeRank) -> bool {
        self.first.contains(&rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn tree(nodes: u32, fan_out: u32, root: u32) -> Tree {
        Tree::new(nodes, fan_out, NodeRank(root % nodes)).unwrap()
    }

    /// The order by its definition.
    fn levels(tree: &Tree) -> Vec<NodeRank> {
        let mut order = vec![tree.root()];
        let mut at = 0;
        while at < order.len() {
            order.extend(tree.children(order[at]));
            at += 1;
        }
        order
    }

    proptest! {
        #[test]
        fn parents_and_children_agree_and_all_are_there_once(nodes in 1u32..300, fan_out in 1u32..40, root: u32) {
            let tree = tree(nodes, fan_out, root);
            let order = levels(&tree);
            prop_assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), nodes as usize);
            prop_assert_eq!(order.len(), nodes as usize);
            prop_assert_eq!(tree.parent(tree.root()), None);
            for rank in (0..nodes).map(NodeRank) {
                let children: Vec<NodeRank> = tree.children(rank).collect();
                prop_assert_eq!(children.is_empty(), tree.is_leaf(rank));
                prop_assert!(children.iter().all(|child| tree.parent(*child) == Some(rank)));
                prop_assert!(children.len() <= fan_out as usize);
            }
            let first: Vec<NodeRank> = tree.root_candidates().collect();
            prop_assert_eq!(&first[..], &order[..first.len()]);
            prop_assert_eq!(first.len(), order.len().min(ROOT_CANDIDATES));
        }

        /// As few nodes hand on as can be, and none is deeper than in a tree that is filled level by level.
        #[test]
        fn it_is_as_flat_and_as_full_as_can_be(nodes in 1u32..2000, fan_out in 1u32..40, root: u32) {
            let tree = tree(nodes, fan_out, root);
            let inner = (0..nodes).filter(|rank| !tree.is_leaf(NodeRank(*rank))).count() as u32;
            prop_assert!(inner <= (nodes - 1).div_ceil(fan_out));
            let (mut reached, mut level, mut depth) = (1u64, 1u64, 0);
            while reached < u64::from(nodes) {
                level *= u64::from(fan_out);
                reached += level;
                depth += 1;
            }
            prop_assert_eq!(tree.depth_max(), depth);
            let deepest = if fan_out == 1 { None } else { (0..nodes).map(|rank| tree.depth(NodeRank(rank))).max() };
            prop_assert!(deepest.is_none_or(|deepest| deepest <= depth), "{deepest:?}");
        }

        #[test]
        fn every_way_up_ends_at_the_root(nodes in 1u32..1_000_000, fan_out in 2u32..64, root: u32, rank: u32) {
            let tree = tree(nodes, fan_out, root);
            let rank = NodeRank(rank % nodes);
            prop_assert_eq!(tree.ancestors(rank).last().unwrap_or(rank), tree.root());
            prop_assert!(tree.depth(rank) <= tree.depth_max());
        }

        /// Whatever each node believes of the others, following the lines ends at a node that reads for itself: all whom
        /// a node may ask come before it in the order.
        #[test]
        fn no_two_nodes_wait_for_each_other(nodes in 1u32..200, fan_out in 1u32..9, root: u32) {
            let tree = tree(nodes, fan_out, root);
            let order = levels(&tree);
            let place = |rank: NodeRank| order.iter().position(|other| *other == rank).unwrap();
            for rank in (0..nodes).map(NodeRank) {
                let order: Vec<NodeRank> = tree.failover_order(rank).collect();
                prop_assert!(order.iter().all(|other| place(*other) < place(rank)));
                prop_assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), order.len(), "nobody twice");
            }
        }

        /// When all know the same lost nodes, and one that may be root is left, it alone reads the backing file system.
        #[test]
        fn nodes_that_agree_find_the_same_root(nodes in 1u32..400, fan_out in 1u32..9, root: u32, lost: u64) {
            let tree = tree(nodes, fan_out, root);
            let is_lost = |rank: NodeRank| (lost ^ u64::from(rank.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1;
            let ends = (0..nodes).map(NodeRank).filter(|rank| !is_lost(*rank)).map(|rank| {
                std::iter::successors(Some(rank), |at| tree.failover_order(*at).find(|other| !is_lost(*other))).last().unwrap()
            });
            let ends: BTreeSet<NodeRank> = ends.collect();
            if tree.root_candidates().any(|rank| !is_lost(rank)) {
                prop_assert!(ends.len() <= 1, "{ends:?}");
                prop_assert!(ends.iter().all(|rank| tree.may_be_root(*rank)));
            }
        }
    }

    /// Switches whose nodes stand beside each other are entered by a fraction of what their nodes get; where a block lies on
    /// two of them, or leads many others, that is more than once.
    #[test]
    fn a_stretch_of_the_order_lies_in_few_subtrees() {
        for (switches, size, mean_max) in [(64, 16, 3.0), (64, 18, 6.0), (20, 48, 7.0), (16, 512, 14.0)] {
            let nodes = switches * size;
            for root in [0, nodes / 3] {
                let tree = tree(nodes, 8, root);
                let enters = |rank: &NodeRank| tree.parent(*rank).is_some_and(|from| from.0 / size != rank.0 / size);
                let mean = (0..nodes).map(NodeRank).filter(enters).count() as f64 / f64::from(switches);
                assert!(mean <= mean_max, "{switches} switches of {size}: {mean}");
            }
        }
    }

    #[test]
    fn the_line_goes_up_and_then_to_the_first_of_the_order() {
        let tree = tree(31, 2, 0);
        let order = |rank| tree.failover_order(NodeRank(rank)).map(|rank| rank.0).collect::<Vec<u32>>();
        assert_eq!(order(22), [18, 16, 0, 2, 4, 10, 24, 6]);
        assert_eq!(order(16), [0, 2]);
        assert_eq!(tree.failover_order(NodeRank(0)).count(), 0);
    }

    #[test]
    fn impossible_trees_are_refused() {
        assert_eq!(Tree::new(0, 2, NodeRank(0)), Err(OverlayError::Nodes(0)));
        assert_eq!(Tree::new(3, 0, NodeRank(0)), Err(OverlayError::FanOut(0)));
        assert_eq!(Tree::new(3, 2, NodeRank(3)), Err(OverlayError::Root(NodeRank(3))));
    }
}
