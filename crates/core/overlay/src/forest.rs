//! The forest: the trees of a job, where their roots are, and which tree serves what.
//!
//! The objects of a directory (its listing, its small files) are small and waited for one by one, so its trees are wide.
//! Stripes are large: fan-out costs bandwidth, and there every stripe has a root and handers-on of its own in narrow trees with the
//! same roots. The roots are spread over the order of the nodes, and so that they have different places in their blocks (`blocks`):
//! then a node hands on in one tree of a class, or in as many as every other, and all links carry alike.
//!
//! Chunks of large files are stripes where a job is large. In a small one every node is home of a share of them, which all others ask
//! directly: a tree of one level for each node. So the caches of all nodes together hold what no single one could.

use std::sync::Arc;

use forebay_types::NodeRank;

use crate::blocks::Blocks;
use crate::limits;
use crate::{OverlayError, Tree};

/// The purpose of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// The objects of one directory.
    Directories,
    /// Parcels, which all nodes want.
    Stripes,
    /// Chunks of large files.
    Bulk,
}

/// Number of a tree in its class; trees of one number have one root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreeIndex(pub u32);

/// The parameters of a forest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Number of nodes.
    pub node_count: u32,
    /// Number of roots; a job with fewer nodes has one a node.
    pub roots: u32,
    /// Children of a node in a tree of directories.
    pub fan_out: u32,
    /// Children of a node in a tree of stripes.
    pub stripe_fan_out: u32,
    /// Whether every node is home of a share of the large files.
    pub has_homes: bool,
    /// Chunks of a large file in a row that one tree serves: what the backing file system reads at once, or 1.
    pub row_chunks: u64,
}

/// The trees of a job. Copies share them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forest {
    directories: Arc<[Tree]>,
    stripes: Arc<[Tree]>,
    has_homes: bool,
    row_chunks: u64,
}

/// Whether every node is home of a share of the large files, in a job that does not say how many nodes read the backing file system.
#[must_use]
pub fn default_homes(node_count: u32) -> bool {
    node_count <= limits::HOMES_MAX
}

/// Roots of a job that does not say how many it wants: one up to 16 nodes, since each root looks for the directories it
/// reads by itself, which costs the backing file system more than one root's link does; then one for 8 nodes, so that there
/// are enough others to hand on; 8 at most.
#[must_use]
pub fn default_roots(node_count: u32) -> u32 {
    if node_count <= 16 { 1 } else { (node_count / 8).min(8) }
}

/// Children of a node in a tree of directories, for a job that does not say how many it wants: as many as there are roots,
/// by which all nodes hand on alike; 4 at least, because each level is waited for.
#[must_use]
pub fn default_fan_out(roots: u32) -> u32 {
    roots.clamp(4, 8)
}

/// Children of a node in a tree of stripes, for a job that does not say how many it wants: 4, unless it has less in the
/// others. Each level narrower halves what a node has to send before the next can begin, and adds a hop.
#[must_use]
pub fn default_stripe_fan_out(fan_out: u32) -> u32 {
    fan_out.min(4)
}

impl Forest {
    /// A forest of this shape.
    ///
    /// # Errors
    /// `OverlayError` for a count or fan-out outside its range.
    pub fn new(shape: Shape) -> Result<Self, OverlayError> {
        let Shape { node_count, roots, fan_out, stripe_fan_out, has_homes, row_chunks } = shape;
        if roots == 0 || roots > limits::ROOTS_MAX {
            return Err(OverlayError::Roots(roots));
        }
        // Checks what the roots' places are computed from.
        Tree::new(node_count, fan_out, NodeRank(0))?;
        Tree::new(node_count, stripe_fan_out, NodeRank(0))?;
        let roots = root_places(shape, roots.min(node_count));
        let trees = |fan_out| -> Result<Arc<[Tree]>, OverlayError> {
            roots.iter().map(|root| Tree::new(node_count, fan_out, *root)).collect()
        };
        if has_homes && node_count > limits::HOMES_MAX {
            return Err(OverlayError::Homes(node_count));
        }
        let row_chunks = row_chunks.max(1);
        Ok(Self { directories: trees(fan_out)?, stripes: trees(stripe_fan_out)?, has_homes, row_chunks })
    }

    /// A forest of one root, the first node of the list, with the same tree for everything.
    ///
    /// # Errors
    /// `OverlayError` for a count or fan-out outside its range.
    pub fn single(node_count: u32, fan_out: u32) -> Result<Self, OverlayError> {
        Self::new(Shape { node_count, roots: 1, fan_out, stripe_fan_out: fan_out, has_homes: false, row_chunks: 1 })
    }

    /// Which tree of a class serves what has this number: a hash, or one of a row, which is spread over all trees.
    #[must_use]
    pub fn index_of(&self, class: Class, number: u64) -> TreeIndex {
        let count = if self.is_of_homes(class) { self.homes() * self.turns() } else { self.directories.len() as u64 };
        TreeIndex((number % count) as u32)
    }

    /// The tree of that class that serves what has this number.
    #[must_use]
    pub fn tree_of(&self, class: Class, number: u64) -> Tree {
        let index = self.index_of(class, number).0;
        match class {
            _ if self.is_of_homes(class) => self.star(u64::from(index)),
            Class::Directories => self.directories[index as usize],
            Class::Stripes | Class::Bulk => self.stripes[index as usize],
        }
    }

    /// For each node there are trees of one level in which it is the root, its home. In each of them another node is the first to stand in for it,
    /// so that the share of a lost home is spread over all others.
    fn star(&self, index: u64) -> Tree {
        let (home, turn) = (index % self.homes(), index / self.homes());
        Tree::star(self.first().node_count(), NodeRank(home as u32), turn as u32)
    }

    fn homes(&self) -> u64 {
        u64::from(self.first().node_count())
    }

    /// How many trees each home has.
    fn turns(&self) -> u64 {
        self.homes().saturating_sub(1).max(1)
    }

    fn is_of_homes(&self, class: Class) -> bool {
        self.has_homes && class == Class::Bulk
    }

    /// Whether every node is home of a share of the large files.
    #[must_use]
    pub fn has_homes(&self) -> bool {
        self.has_homes
    }

    /// Chunks of a large file in a row that one tree serves.
    #[must_use]
    pub fn row_chunks(&self) -> u64 {
        self.row_chunks
    }

    /// The tree on which the job itself is asked (status, refresh, shutdown).
    #[must_use]
    pub fn first(&self) -> &Tree {
        &self.directories[0]
    }

    /// The trees of the roots, those of directories first.
    pub fn trees_of_roots(&self) -> impl Iterator<Item = &Tree> {
        self.directories.iter().chain(self.stripes.iter())
    }

    /// All trees, those of directories first; of each home's trees the first, which has the nodes of all of them.
    pub fn trees(&self) -> impl Iterator<Item = Tree> {
        let homes = if self.has_homes { self.homes() } else { 0 };
        self.trees_of_roots().copied().chain((0..homes).map(|home| self.star(home)))
    }

    /// The nodes that read names and small files from the backing file system while nobody is lost, in the order of their trees.
    pub fn roots(&self) -> impl Iterator<Item = NodeRank> {
        self.directories.iter().map(Tree::root)
    }

    /// Whether a node is root of a tree.
    #[must_use]
    pub fn is_root(&self, rank: NodeRank) -> bool {
        self.roots().any(|root| root == rank)
    }
}

/// Where the roots are: the first node, and then as evenly over the order as it goes while no place in the blocks has more
/// roots than another, in the narrow trees first, since they carry more.
fn root_places(shape: Shape, count: u32) -> Vec<NodeRank> {
    let Shape { node_count, fan_out, stripe_fan_out, .. } = shape;
    let blocks = [stripe_fan_out, fan_out].map(|fan_out| Blocks::new(node_count, fan_out, 0));
    let mut roots: Vec<u32> = Vec::new();
    for number in 0..count {
        let begin = (u64::from(number) * u64::from(node_count) / u64::from(count)) as u32;
        let beside = |node: u32, fan_out: u32| roots.iter().filter(|root| *root % fan_out == node % fan_out).count();
        let from_here = (0..node_count).map(|step| (begin + step) % node_count);
        let free = from_here.filter(|node| !roots.contains(node));
        // The nearest one of those with the fewest. Within two blocks' length all places are seen, a short block among them;
        // where that is full of roots, what is left is taken.
        let window = 2 * fan_out.max(stripe_fan_out);
        let near = free.clone().take_while(|node| (node + node_count - begin) % node_count < window);
        let near = near.filter(|node| !blocks.iter().any(|blocks| blocks.is_extra(*node)));
        let best = near.min_by_key(|node| (beside(*node, stripe_fan_out), beside(*node, fan_out)));
        roots.extend(best.or_else(|| free.clone().next()));
    }
    roots.into_iter().map(NodeRank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn forest(node_count: u32, roots: u32, fan_out: u32, stripe_fan_out: u32) -> Forest {
        Forest::new(Shape { node_count, roots, fan_out, stripe_fan_out, has_homes: false, row_chunks: 1 }).unwrap()
    }

    fn trees(forest: &Forest, class: Class) -> Vec<Tree> {
        (0..forest.roots().count() as u64).map(|number| forest.tree_of(class, number)).collect()
    }

    /// How many nodes each node hands the whole of something striped over all trees on to, in trees' worth.
    fn handed_on(trees: &[Tree], node_count: u32) -> Vec<usize> {
        let children = |rank| trees.iter().map(|tree| tree.children(NodeRank(rank)).count()).sum();
        (0..node_count).map(children).collect()
    }

    proptest! {
        #[test]
        fn roots_are_spread_and_the_same_in_both_classes(nodes in 1u32..5000, roots in 1u32..65, fan_out in 1u32..33, narrow in 1u32..9) {
            let forest = forest(nodes, roots, fan_out, narrow);
            let places: Vec<NodeRank> = forest.roots().collect();
            prop_assert_eq!(places.len() as u32, roots.min(nodes));
            prop_assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len());
            prop_assert_eq!(places[0], NodeRank(0));
            let others: Vec<NodeRank> = trees(&forest, Class::Stripes).iter().map(Tree::root).collect();
            prop_assert_eq!(&others, &places);
            for (number, root) in places.iter().enumerate() {
                let even = number as u32 * nodes / roots.min(nodes);
                prop_assert!((root.0 + nodes - even) % nodes < 2 * fan_out.max(narrow) + roots, "{places:?}");
            }
        }

        /// With as many roots as the fan-out, or fewer, a node hands on in one tree at most.
        #[test]
        fn no_node_hands_on_in_two_trees(blocks in 8u32..60, fan_out in 2u32..17, roots in 1u32..17, short in 0u32..16) {
            let nodes = blocks * fan_out - short.min(fan_out - 1);
            let roots = roots.min(fan_out);
            let forest = forest(nodes, roots, fan_out, fan_out);
            let trees = trees(&forest, Class::Directories);
            let twice = (0..nodes).filter(|rank| trees.iter().filter(|tree| !tree.is_leaf(NodeRank(*rank))).count() > 1);
            // In a last block that is short, several trees share a leader.
            prop_assert!(twice.count() as u32 <= (nodes - 1) % fan_out + 1);
        }

        /// However lost each node believes the others, who waits for one thing waits within its tree; and only nodes of
        /// that tree's order before it. So the trees of a forest need no order among each other.
        #[test]
        fn a_number_is_served_by_one_tree(nodes in 1u32..2000, roots in 1u32..17, number: u64) {
            let forest = forest(nodes, roots, 8, 4);
            let trees = trees(&forest, Class::Stripes);
            prop_assert_eq!(forest.tree_of(Class::Stripes, number), trees[forest.index_of(Class::Stripes, number).0 as usize]);
            let row: BTreeSet<u32> = (0..trees.len() as u64).map(|step| forest.index_of(Class::Stripes, (number >> 8) + step).0).collect();
            prop_assert_eq!(row.len(), trees.len(), "neighbours go to different trees");
        }
    }

    #[test]
    fn each_node_is_home_of_a_share_which_others_ask_directly() {
        for nodes in (1..=16).chain([63, limits::HOMES_MAX]) {
            let shape =
                Shape { node_count: nodes, roots: 1, fan_out: 4, stripe_fan_out: 4, has_homes: true, row_chunks: 1 };
            let forest = Forest::new(shape).unwrap();
            assert!(forest.has_homes());
            for number in 0..u64::from(2 * nodes) {
                let tree = forest.tree_of(Class::Bulk, number);
                let home = NodeRank((number % u64::from(nodes)) as u32);
                assert_eq!(tree.root(), home);
                for rank in (0..nodes).map(NodeRank).filter(|rank| *rank != home) {
                    assert_eq!(tree.parent(rank), Some(home), "{nodes} nodes");
                    assert!(tree.is_leaf(rank));
                }
            }
            // Where a home is lost, each other node stands in for as much of its share.
            let of_first = (0..u64::from(nodes - 1)).map(|turn| forest.tree_of(Class::Bulk, turn * u64::from(nodes)));
            let stand_ins: BTreeSet<NodeRank> = of_first.filter_map(|tree| tree.root_candidates().nth(1)).collect();
            assert_eq!(stand_ins.len() as u32, nodes - 1);
            assert!(forest.tree_of(Class::Stripes, 1).root() == NodeRank(0), "parcels have the roots of names");
        }
        let large = Shape {
            node_count: limits::HOMES_MAX + 1,
            roots: 1,
            fan_out: 4,
            stripe_fan_out: 4,
            has_homes: true,
            row_chunks: 1,
        };
        assert_eq!(Forest::new(large), Err(OverlayError::Homes(limits::HOMES_MAX + 1)));
        assert!(!forest(20, 2, 4, 4).has_homes());
    }

    #[test]
    fn small_jobs_have_as_many_roots_as_asked_for_too() {
        for (nodes, fan_out) in (1..40).flat_map(|nodes| (1..10).map(move |fan_out| (nodes, fan_out))) {
            for roots in 1..=nodes {
                let forest = forest(nodes, roots, fan_out, 2);
                assert_eq!(forest.roots().collect::<BTreeSet<_>>().len(), roots as usize, "{nodes} by {fan_out}");
            }
        }
    }

    #[test]
    fn the_default_forest_loads_all_nodes_alike() {
        for (nodes, narrow) in [(32, 4), (73, 4), (512, 4), (1000, 4), (8300, 4), (1000, 8), (4096, 2)] {
            let roots = default_roots(nodes);
            let forest = forest(nodes, roots, default_fan_out(roots), narrow);
            for class in [Class::Directories, Class::Stripes] {
                let handed_on = handed_on(&trees(&forest, class), nodes);
                let most = *handed_on.iter().max().unwrap() as f64;
                let mean = handed_on.iter().sum::<usize>() as f64 / f64::from(nodes);
                assert!(most <= 1.2 * mean, "{nodes} nodes by {narrow}, {class:?}: {most} of {mean}");
            }
        }
        let small = forest(16, 4, default_fan_out(4), 4);
        for class in [Class::Directories, Class::Stripes] {
            let handed_on = handed_on(&trees(&small, class), 16);
            assert!(handed_on.iter().all(|count| (3..=4).contains(count)), "{handed_on:?}");
        }
    }

    #[test]
    fn roots_are_on_different_switches() {
        for (switches, size) in [(8, 18), (16, 32), (40, 16), (9, 64)] {
            let forest = forest(switches * size, 8, 8, 4);
            let on: BTreeSet<u32> = forest.roots().map(|root| root.0 / size).collect();
            assert_eq!(on.len(), 8, "{switches} switches of {size}: {on:?}");
        }
    }

    #[test]
    fn a_hundred_thousand_nodes_cost_what_two_do() {
        let forest = forest(100_000, 8, 8, 4);
        assert_eq!(forest.first().depth_max(), 6);
        assert_eq!(forest.tree_of(Class::Stripes, 3).depth_max(), 9);
        assert!(size_of::<Tree>() <= 80 && size_of::<Forest>() <= 48);
    }

    #[test]
    fn few_nodes_have_few_roots() {
        let defaults: Vec<u32> = [1, 16, 17, 32, 64, 100_000].map(default_roots).to_vec();
        assert_eq!(defaults, [1, 1, 2, 4, 8, 8]);
        assert_eq!([1, 3, 5, 8, 64].map(default_fan_out), [4, 4, 5, 8, 8]);
        assert_eq!([1, 4, 8].map(default_stripe_fan_out), [1, 4, 4]);
        assert_eq!(forest(3, 8, 8, 4).roots().count(), 3);
        let no_roots =
            Shape { node_count: 3, roots: 0, fan_out: 8, stripe_fan_out: 4, has_homes: false, row_chunks: 1 };
        assert_eq!(Forest::new(no_roots), Err(OverlayError::Roots(0)));
        let no_stripes = Shape { roots: 1, stripe_fan_out: 0, ..no_roots };
        assert_eq!(Forest::new(no_stripes), Err(OverlayError::FanOut(0)));
    }
}
