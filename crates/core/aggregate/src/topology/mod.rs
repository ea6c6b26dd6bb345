//! The network: nodes, directed links, and the route from each node to each.
//!
//! A topology says which links a route has; nothing is stored by pair, so a network of 100,000 nodes costs what its links
//! cost. Latency and rate of all links are alike, but for a measured matrix, which has its own, and for links between switches of a
//! tree, which are as wide as what is below them. Which flow gets how much of a
//! link is `flow`'s matter.

mod dragonfly;
mod fat_tree;
mod matrix;
mod shape;
pub mod switched;
mod torus;
mod tree;

use dragonfly::Dragonfly;
use fat_tree::FatTree;
use matrix::Matrix;
use torus::Torus;

pub use shape::{Shape, Vertex};
pub use tree::Tree;

/// The shapes that a network can have.
#[derive(Clone, PartialEq, Debug)]
enum Topology {
    Torus(Torus),
    Dragonfly(Dragonfly),
    FatTree(FatTree),
    Matrix(Matrix),
    Tree(Tree),
}

/// Calls the same function of whatever topology it is.
macro_rules! of {
    ($topology:expr, $each:ident => $call:expr) => {
        match $topology {
            Topology::Torus($each) => $call,
            Topology::Dragonfly($each) => $call,
            Topology::FatTree($each) => $call,
            Topology::Matrix($each) => $call,
            Topology::Tree($each) => $call,
        }
    };
}

/// A topology with rates and latencies.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    topology: Topology,
    link_bytes_per_s: f64,
    link_latency_s: f64,
}

/// The rate and latency that all links of a network share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Links {
    /// Bytes per second, in each direction.
    pub bytes_per_s: f64,
    /// Seconds.
    pub latency_s: f64,
}

impl Network {
    /// A torus of these lengths.
    #[must_use]
    pub fn torus(dimensions: &[usize], links: Links) -> Self {
        Self::new(Topology::Torus(Torus::new(dimensions)), links)
    }

    /// A dragonfly of so many groups of so many routers of so many nodes.
    #[must_use]
    pub fn dragonfly(groups: usize, routers: usize, nodes: usize, links: Links) -> Self {
        Self::new(Topology::Dragonfly(Dragonfly::new(groups, routers, nodes)), links)
    }

    /// A fat tree whose switches have these numbers of links down and up, from the lowest level on.
    #[must_use]
    pub fn fat_tree(levels: &[(usize, usize)], links: Links) -> Self {
        Self::new(Topology::FatTree(FatTree::new(levels)), links)
    }

    /// A tree of switches.
    pub(crate) fn tree(tree: Tree, links: Links) -> Self {
        Self::new(Topology::Tree(tree), links)
    }

    /// Measured pairs: square tables of one size, from each node to each.
    #[must_use]
    pub fn matrix(latency_s: &[Vec<f64>], bytes_per_s: &[Vec<f64>]) -> Self {
        let links = Links { bytes_per_s: 0.0, latency_s: 0.0 };
        Self::new(Topology::Matrix(Matrix::new(latency_s, bytes_per_s)), links)
    }

    fn new(topology: Topology, links: Links) -> Self {
        Self { topology, link_bytes_per_s: links.bytes_per_s, link_latency_s: links.latency_s }
    }

    /// Nodes that it has places for.
    #[must_use]
    pub fn node_count(&self) -> usize {
        of!(&self.topology, each => each.node_count())
    }

    /// Directed links.
    #[must_use]
    pub fn link_count(&self) -> usize {
        of!(&self.topology, each => each.link_count())
    }

    /// Links between two nodes; none from a node to itself.
    #[must_use]
    pub fn hop_count(&self, from: usize, to: usize) -> u32 {
        of!(&self.topology, each => each.hop_count(from, to))
    }

    /// Appends the links from a node to another, in their order.
    pub fn route(&self, from: usize, to: usize, links: &mut Vec<u32>) {
        of!(&self.topology, each => each.route(from, to, links));
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        of!(&self.topology, each => each.shape())
    }

    /// The ends of a link, in its direction.
    #[must_use]
    pub fn ends(&self, link: usize) -> (Vertex, Vertex) {
        of!(&self.topology, each => each.ends(link))
    }

    /// Seconds that a link adds; of a measured matrix 0, since each of its pairs has its own.
    #[must_use]
    pub fn link_latency_s(&self) -> f64 {
        self.link_latency_s
    }

    /// Seconds until what leaves a node begins to arrive at another.
    #[must_use]
    pub fn latency_s(&self, from: usize, to: usize) -> f64 {
        match &self.topology {
            Topology::Matrix(matrix) => matrix.latency_s(from, to),
            _ => self.link_latency_s * f64::from(self.hop_count(from, to)),
        }
    }

    /// Bytes per second between two different nodes that have the network for themselves.
    #[must_use]
    pub fn bytes_per_s(&self, from: usize, to: usize) -> f64 {
        match &self.topology {
            Topology::Matrix(matrix) => matrix.bytes_per_s(from, to),
            Topology::Tree(tree) => self.link_bytes_per_s * tree.width(from, to),
            _ => self.link_bytes_per_s,
        }
    }

    /// The rate of every link.
    #[must_use]
    pub fn rates(&self) -> Vec<f64> {
        match &self.topology {
            Topology::Matrix(matrix) => matrix.rates(),
            Topology::Tree(tree) => tree.widths().map(|width| width * self.link_bytes_per_s).collect(),
            _ => vec![self.link_bytes_per_s; self.link_count()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_every_route_join_its_nodes() {
        let links = Links { bytes_per_s: 1.0, latency_s: 0.0 };
        let measured = vec![vec![1.0; 5]; 5];
        let tree = Tree::new(&[0, 0, 1, 2, 4], &[(2, 2.0), (2, 1.0), (3, 0.5), (3, 0.0), (3, 3.0)]);
        for network in [
            Network::torus(&[4, 3, 2], links),
            Network::torus(&[7], links),
            Network::dragonfly(4, 3, 2, links),
            Network::fat_tree(&[(3, 2), (2, 3), (2, 1)], links),
            Network::fat_tree(&[(4, 1)], links),
            Network::tree(tree, links),
            Network::matrix(&measured, &measured),
        ] {
            let all = || 0..network.node_count();
            for (from, to) in all().flat_map(|from| all().map(move |to| (from, to))) {
                let mut route = vec![];
                network.route(from, to, &mut route);
                let arrive = |at, link: &u32| {
                    let (begin, end) = network.ends(*link as usize);
                    assert_eq!(begin, at, "{network:?}: {route:?}");
                    end
                };
                assert_eq!(route.iter().fold(Vertex::Node(from), arrive), Vertex::Node(to), "{network:?}");
            }
        }
    }

    #[test]
    fn pods_are_what_the_links_join() {
        let links = Links { bytes_per_s: 1.0, latency_s: 0.0 };
        let tree = Tree::new(&[0, 0, 1, 2, 4], &[(2, 2.0), (2, 1.0), (3, 0.5), (3, 0.0), (3, 3.0)]);
        for network in [Network::fat_tree(&[(3, 2), (2, 3), (2, 1)], links), Network::tree(tree, links)] {
            let Shape::Pods { of_node, of_switch, above } = network.shape() else { panic!("{:?}", network.shape()) };
            let pod = |vertex| match vertex {
                Vertex::Node(node) => (of_node[node], true),
                Vertex::Switch(switch) => (of_switch[switch], false),
            };
            for link in 0..network.link_count() {
                let (from, to) = network.ends(link);
                let ((from, is_node_from), (to, is_node_to)) = (pod(from), pod(to));
                let is_joined =
                    if is_node_from || is_node_to { from == to } else { above[from] == to || above[to] == from };
                assert!(is_joined, "{link}: {from} {to}");
            }
        }
    }
}
