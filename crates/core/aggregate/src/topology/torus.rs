//! A torus of any number of dimensions: every node has a link to each of its two neighbours in each dimension.
//!
//! Nodes are numbered with the first dimension running fastest. A route goes dimension by dimension in the order given,
//! the shorter way round, and the positive one if both are equally long.

use super::shape::{Shape, Vertex};

/// The lengths of the dimensions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Torus {
    dimensions: Vec<u32>,
}

/// The way along one dimension: so many steps, up or down.
struct Way {
    steps: u32,
    is_up: bool,
}

impl Torus {
    /// With these lengths, each at least one.
    pub fn new(dimensions: &[usize]) -> Self {
        Self { dimensions: dimensions.iter().map(|length| *length as u32).collect() }
    }

    pub fn node_count(&self) -> usize {
        self.dimensions.iter().map(|length| *length as usize).product()
    }

    pub fn link_count(&self) -> usize {
        self.node_count() * self.dimensions.len() * 2
    }

    pub fn shape(&self) -> Shape {
        Shape::Torus(self.dimensions.iter().map(|length| *length as usize).collect())
    }

    pub fn ends(&self, link: usize) -> (Vertex, Vertex) {
        let ports = self.dimensions.len() * 2;
        let (node, port) = (link / ports, link % ports);
        let stride: usize = self.dimensions[..port / 2].iter().map(|length| *length as usize).product();
        let length = self.dimensions[port / 2] as usize;
        let place = node / stride % length;
        let next = if port.is_multiple_of(2) { (place + 1) % length } else { (place + length - 1) % length };
        (Vertex::Node(node), Vertex::Node(node - place * stride + next * stride))
    }

    pub fn hop_count(&self, from: usize, to: usize) -> u32 {
        let (mut from, mut to) = (from as u32, to as u32);
        let mut hops = 0;
        for &length in &self.dimensions {
            hops += way(from % length, to % length, length).steps;
            (from, to) = (from / length, to / length);
        }
        hops
    }

    pub fn route(&self, from: usize, to: usize, links: &mut Vec<u32>) {
        let (mut at, mut stride) = (from as u32, 1);
        for (dimension, &length) in self.dimensions.iter().enumerate() {
            let here = at / stride % length;
            let there = to as u32 / stride % length;
            let Way { steps, is_up } = way(here, there, length);
            let (mut place, base) = (here, at - here * stride);
            for _ in 0..steps {
                let port = dimension * 2 + usize::from(!is_up);
                links.push(((base + place * stride) as usize * self.dimensions.len() * 2 + port) as u32);
                place = if is_up { (place + 1) % length } else { (place + length - 1) % length };
            }
            at = base + there * stride;
            stride *= length;
        }
    }
}

fn way(from: u32, to: u32, length: u32) -> Way {
    let up = (to + length - from) % length;
    if up * 2 <= length { Way { steps: up, is_up: true } } else { Way { steps: length - up, is_up: false } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(torus: &Torus, from: usize, to: usize) -> Vec<u32> {
        let mut links = vec![];
        torus.route(from, to, &mut links);
        assert_eq!(links.len(), torus.hop_count(from, to) as usize, "{from} to {to}");
        links
    }

    #[test]
    fn goes_the_shorter_way_and_up_if_equal() {
        let ring = Torus::new(&[4]);
        // Link 2n leaves node n upwards, 2n + 1 downwards.
        assert_eq!(route(&ring, 0, 1), [0]);
        assert_eq!(route(&ring, 0, 3), [1]);
        assert_eq!(route(&ring, 0, 2), [0, 2]);
        assert_eq!(route(&ring, 2, 0), [4, 6]);
        assert!(route(&ring, 3, 3).is_empty());
    }

    #[test]
    fn goes_dimension_by_dimension() {
        let torus = Torus::new(&[4, 3]);
        // Node 1 is (1, 0), node 10 is (2, 2): one up in the first dimension to node 2, then one down to node 10.
        assert_eq!(route(&torus, 1, 10), [4, 2 * 4 + 3]);
        assert_eq!((torus.node_count(), torus.link_count()), (12, 48));
    }

    #[test]
    fn every_link_of_every_route_joins_the_next() {
        let torus = Torus::new(&[4, 3, 2]);
        for (from, to) in (0..24).flat_map(|from| (0..24).map(move |to| (from, to))) {
            let mut at = from;
            for link in route(&torus, from, to) {
                assert_eq!(link as usize / 6, at, "the link leaves where the one before arrived");
                let (stride, length) = [(1, 4), (4, 3), (12, 2)][link as usize % 6 / 2];
                let place = at / stride % length;
                let next = if link.is_multiple_of(2) { (place + 1) % length } else { (place + length - 1) % length };
                at = at - place * stride + next * stride;
            }
            assert_eq!(at, to);
        }
    }
}
