//! A fat tree of switches in levels.
//!
//! A switch of a level has `down` links downwards (those of the lowest level to nodes) and `up` links upwards, each to
//! another switch of the next level; the top level's `up` means nothing. Switches of a level that have the same nodes below
//! them stand beside each other in a pod. A route climbs to the lowest level at which both nodes are in one pod. Which of the
//! links up it takes follows from the node that it leads to alone, and spreads neighbouring nodes over all of them
//! (D-mod-k); the way down is then the only one.

use super::shape::{Shape, Vertex};

/// One level, from the lowest on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Level {
    down: usize,
    up: usize,
    /// Nodes below a switch of this level.
    below: usize,
    /// Switches of a pod of this level.
    switches: usize,
    /// The first of the links from a pod of the level below, or from a node, to this one; those down follow those up.
    first_link: usize,
    /// Links from the level below to this one.
    links: usize,
}

/// The levels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FatTree {
    levels: Vec<Level>,
}

impl FatTree {
    /// With these numbers of links down and up of a switch, from the lowest level on, each at least one.
    pub fn new(shape: &[(usize, usize)]) -> Self {
        let node_count: usize = shape.iter().map(|(down, _)| down).product();
        let mut levels: Vec<Level> = vec![];
        for &(down, up) in shape {
            let lower = levels.last().copied();
            let (below, switches, links) = match lower {
                None => (down, 1, node_count),
                Some(lower) => {
                    let pods = node_count / lower.below;
                    (lower.below * down, lower.switches * lower.up, pods * lower.switches * lower.up)
                }
            };
            let first_link = lower.map_or(0, |lower| lower.first_link + lower.links * 2);
            levels.push(Level { down, up, below, switches, first_link, links });
        }
        Self { levels }
    }

    pub fn node_count(&self) -> usize {
        self.levels.iter().map(|level| level.down).product()
    }

    pub fn link_count(&self) -> usize {
        self.levels.iter().map(|level| level.links * 2).sum()
    }

    /// The first pod of each level, and behind the last; pods are numbered level by level.
    fn first_pods(&self) -> Vec<usize> {
        let nodes = self.node_count();
        let sums = self.levels.iter().scan(0, |sum, level| {
            *sum += nodes / level.below;
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect()
    }

    pub fn shape(&self) -> Shape {
        let (nodes, first) = (self.node_count(), self.first_pods());
        let of_level = |level: usize| 0..nodes / self.levels[level].below;
        let above = |level: usize, pod: usize| match self.levels.get(level + 1) {
            Some(next) => first[level + 1] + pod * self.levels[level].below / next.below,
            None => first[level] + pod,
        };
        let levels = || 0..self.levels.len();
        let of_pod = |level: usize, pod: usize| std::iter::repeat_n(first[level] + pod, self.levels[level].switches);
        Shape::Pods {
            of_node: (0..nodes).map(|node| node / self.levels[0].below).collect(),
            of_switch: levels().flat_map(|level| of_level(level).flat_map(move |pod| of_pod(level, pod))).collect(),
            above: levels().flat_map(|level| of_level(level).map(move |pod| above(level, pod))).collect(),
        }
    }

    /// Switches are numbered level by level, pod by pod.
    pub fn ends(&self, link: usize) -> (Vertex, Vertex) {
        let nodes = self.node_count();
        let index = self.levels.iter().rposition(|level| level.first_link <= link).unwrap_or(0);
        let level = self.levels[index];
        let (up, is_up) = ((link - level.first_link) % level.links, link - level.first_link < level.links);
        let switches = |level: &Level| nodes / level.below * level.switches;
        let first: usize = self.levels[..index].iter().map(switches).sum();
        let (low, high) = match index.checked_sub(1).map(|lower| self.levels[lower]) {
            None => (Vertex::Node(up), Vertex::Switch(up / level.down)),
            Some(lower) => {
                let (from, port) = (up / lower.up, up % lower.up);
                let (pod, switch) = (from / lower.switches, from % lower.switches);
                let above = pod / level.down * level.switches + switch * lower.up + port;
                (Vertex::Switch(first - switches(&lower) + from), Vertex::Switch(first + above))
            }
        };
        if is_up { (low, high) } else { (high, low) }
    }

    /// Levels that a route climbs.
    fn height(&self, from: usize, to: usize) -> usize {
        self.levels.iter().position(|level| from / level.below == to / level.below).unwrap_or(self.levels.len() - 1) + 1
    }

    pub fn hop_count(&self, from: usize, to: usize) -> u32 {
        if from == to { 0 } else { self.height(from, to) as u32 * 2 }
    }

    pub fn route(&self, from: usize, to: usize, links: &mut Vec<u32>) {
        if from == to {
            return;
        }
        let height = self.height(from, to);
        let start = links.len();
        // The switch taken at each level, numbered within its pod, is the same on both sides: only `to` decides it.
        let mut switch = 0;
        let (mut from_link, mut to_link, mut spread) = (from, to, to);
        for (index, level) in self.levels[..height].iter().enumerate() {
            if index > 0 {
                let lower = self.levels[index - 1];
                let port = spread % lower.up;
                spread /= lower.up;
                from_link = ((from / lower.below) * lower.switches + switch) * lower.up + port;
                to_link = ((to / lower.below) * lower.switches + switch) * lower.up + port;
                switch = switch * lower.up + port;
            }
            links.insert(start + index, (level.first_link + from_link) as u32);
            links.insert(start + index + 1, (level.first_link + level.links + to_link) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two levels: 4 lower switches of 2 nodes with 2 links up each, 2 upper switches. Links: nodes up 0 to 7, down 8 to
    /// 15; lower switches up 16 to 23, down 24 to 31.
    fn small() -> FatTree {
        FatTree::new(&[(2, 2), (4, 1)])
    }

    fn route(tree: &FatTree, from: usize, to: usize) -> Vec<u32> {
        let mut links = vec![];
        tree.route(from, to, &mut links);
        assert_eq!(links.len(), tree.hop_count(from, to) as usize, "{from} to {to}");
        links
    }

    #[test]
    fn climbs_no_higher_than_it_must() {
        assert_eq!((small().node_count(), small().link_count()), (8, 32));
        assert!(route(&small(), 3, 3).is_empty());
        assert_eq!(route(&small(), 0, 1), [0, 8 + 1]);
    }

    #[test]
    fn the_node_it_leads_to_chooses_the_link_up() {
        // To node 6, even: port 0 of lower switch 0, and down to lower switch 3 by its link of the same port.
        assert_eq!(route(&small(), 1, 6), [1, 16, 24 + 6, 8 + 6]);
        assert_eq!(route(&small(), 1, 7), [1, 16 + 1, 24 + 7, 8 + 7]);
    }

    #[test]
    fn the_next_level_spreads_by_the_rest() {
        let tree = FatTree::new(&[(2, 2), (2, 2), (2, 2)]);
        assert_eq!(tree.link_count(), 3 * 16);
        // Node 6 is 0 mod 2, and 3 mod 2 = 1 further up: lower port 0, then port 1 of switch 0 of the middle level.
        // Links: 0 to 15 of nodes; 16 to 23 up and 24 to 31 down of 4 lower switches; 32 to 39 up, 40 to 47 down of 2
        // pods of 2 switches.
        assert_eq!(route(&tree, 0, 6), [0, 16, 32 + 1, 40 + 4 + 1, 24 + 6, 8 + 6]);
    }

    #[test]
    fn links_of_different_ways_differ() {
        let tree = FatTree::new(&[(3, 2), (2, 3), (2, 1)]);
        for (from, to) in (0..12).flat_map(|from| (0..12).map(move |to| (from, to))) {
            let mut links = route(&tree, from, to);
            assert!(links.iter().all(|link| (*link as usize) < tree.link_count()));
            links.sort_unstable();
            links.dedup();
            assert_eq!(links.len(), tree.hop_count(from, to) as usize, "no link twice");
        }
    }
}
