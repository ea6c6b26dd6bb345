//! Measured latencies and rates between all pairs of nodes, where nobody knows what lies between them.
//!
//! Each pair has a link of its own, of the rate measured. A node has one link outwards and one inwards besides, as fast as
//! its fastest pair: a measurement of pairs one by one does not say that a node could talk to all others at once.

use super::shape::{Shape, Vertex};

/// Both tables, row by row: from each node to each.
#[derive(Clone, PartialEq, Debug)]
pub struct Matrix {
    nodes: usize,
    latency_s: Vec<f64>,
    bytes_per_s: Vec<f64>,
}

impl Matrix {
    /// Of square tables of one size.
    pub fn new(latency_s: &[Vec<f64>], bytes_per_s: &[Vec<f64>]) -> Self {
        Self { nodes: latency_s.len(), latency_s: latency_s.concat(), bytes_per_s: bytes_per_s.concat() }
    }

    pub fn node_count(&self) -> usize {
        self.nodes
    }

    pub fn link_count(&self) -> usize {
        self.nodes * self.nodes + self.nodes * 2
    }

    pub fn shape(&self) -> Shape {
        Shape::Pairs
    }

    /// The way out of each node comes first, then the way into each.
    pub fn ends(&self, link: usize) -> (Vertex, Vertex) {
        let (nodes, pairs) = (self.nodes, self.nodes * self.nodes);
        match link.checked_sub(pairs) {
            None => (Vertex::Switch(link / nodes), Vertex::Switch(nodes + link % nodes)),
            Some(out) if out < nodes => (Vertex::Node(out), Vertex::Switch(out)),
            Some(into) => (Vertex::Switch(into), Vertex::Node(into - nodes)),
        }
    }

    pub fn hop_count(&self, from: usize, to: usize) -> u32 {
        u32::from(from != to)
    }

    /// Seconds until a flow begins to move.
    pub fn latency_s(&self, from: usize, to: usize) -> f64 {
        if from == to { 0.0 } else { self.latency_s[from * self.nodes + to] }
    }

    /// Of a pair, alone.
    pub fn bytes_per_s(&self, from: usize, to: usize) -> f64 {
        self.bytes_per_s[from * self.nodes + to]
    }

    pub fn route(&self, from: usize, to: usize, links: &mut Vec<u32>) {
        if from != to {
            let pairs = self.nodes * self.nodes;
            let pair = from * self.nodes + to;
            links.extend([pairs + from, pair, pairs + self.nodes + to].map(|link| link as u32));
        }
    }

    /// The rates of all links.
    pub fn rates(&self) -> Vec<f64> {
        let of = |pairs: &mut dyn Iterator<Item = (usize, usize)>| {
            let others = pairs.filter(|(from, to)| from != to);
            others.map(|(from, to)| self.bytes_per_s(from, to)).fold(f64::MIN_POSITIVE, f64::max)
        };
        let out = (0..self.nodes).map(|from| of(&mut (0..self.nodes).map(|to| (from, to))));
        let into = (0..self.nodes).map(|to| of(&mut (0..self.nodes).map(|from| (from, to))));
        let pairs = self.bytes_per_s.iter().map(|rate| rate.max(f64::MIN_POSITIVE));
        pairs.chain(out).chain(into).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_its_link_between_those_of_its_nodes() {
        let latency = vec![vec![0.0, 1.0, 2.0], vec![3.0, 0.0, 4.0], vec![5.0, 6.0, 0.0]];
        let rates = vec![vec![0.0, 10.0, 20.0], vec![30.0, 0.0, 40.0], vec![50.0, 60.0, 0.0]];
        let matrix = Matrix::new(&latency, &rates);
        let mut links = vec![];
        matrix.route(2, 1, &mut links);
        let all = matrix.rates();
        assert_eq!(links.iter().map(|link| all[*link as usize]).collect::<Vec<_>>(), [60.0, 60.0, 60.0]);
        links.clear();
        matrix.route(0, 1, &mut links);
        assert_eq!(links.iter().map(|link| all[*link as usize]).collect::<Vec<_>>(), [20.0, 10.0, 60.0]);
        assert_eq!((matrix.latency_s(2, 1), matrix.latency_s(1, 1), matrix.link_count()), (6.0, 0.0, 15));
    }
}
