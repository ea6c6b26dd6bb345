//! A tree of switches, as irregular as a real one: a switch has any number of nodes and of switches below it, and one link up.
//!
//! That link stands for all cables to the switch above, so it is as wide as the tree's builder says. A route climbs to the
//! lowest switch that both nodes are below.

use super::shape::{Shape, Vertex};

/// The tree.
#[derive(Clone, PartialEq, Debug)]
pub struct Tree {
    /// The switch of each node.
    switch_of: Vec<u32>,
    switches: Vec<Switch>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Switch {
    /// Itself at the top.
    above: u32,
    /// Switches above it.
    depth: u32,
    /// Rate of its link up, in rates of a node's link.
    width: f64,
}

impl Tree {
    /// Of nodes on switches; for each switch the one above it and the width of the link there, in rates of a node's link. One
    /// switch is the top: it is its own.
    pub fn new(switch_of: &[usize], switches: &[(usize, f64)]) -> Self {
        let depth = |mut at: usize| {
            let mut depth = 0;
            while switches[at].0 != at {
                (at, depth) = (switches[at].0, depth + 1);
            }
            depth
        };
        let switch = |(index, &(above, width)): (usize, &(usize, f64))| Switch {
            above: above as u32,
            depth: depth(index),
            width,
        };
        Self {
            switch_of: switch_of.iter().map(|switch| *switch as u32).collect(),
            switches: switches.iter().enumerate().map(switch).collect(),
        }
    }

    pub fn node_count(&self) -> usize {
        self.switch_of.len()
    }

    /// Up-links of nodes come first, then their down-links, then up-links of switches, then their down-links. The top's
    /// stand there too, and nothing goes over them.
    pub fn link_count(&self) -> usize {
        (self.node_count() + self.switches.len()) * 2
    }

    pub fn shape(&self) -> Shape {
        Shape::Pods {
            of_node: self.switch_of.iter().map(|switch| *switch as usize).collect(),
            of_switch: (0..self.switches.len()).collect(),
            above: self.switches.iter().map(|switch| switch.above as usize).collect(),
        }
    }

    pub fn ends(&self, link: usize) -> (Vertex, Vertex) {
        let (nodes, switches) = (self.node_count(), self.switches.len());
        let (low, high, is_up) = match link.checked_sub(nodes * 2) {
            None => {
                let node = link % nodes;
                (Vertex::Node(node), self.switch_of[node], link < nodes)
            }
            Some(link) => {
                let switch = link % switches;
                (Vertex::Switch(switch), self.switches[switch].above, link < switches)
            }
        };
        let high = Vertex::Switch(high as usize);
        if is_up { (low, high) } else { (high, low) }
    }

    /// The lowest switch that both are below, or are.
    fn meeting(&self, mut left: u32, mut right: u32) -> u32 {
        while left != right {
            let (of_left, of_right) = (&self.switches[left as usize], &self.switches[right as usize]);
            if of_left.depth >= of_right.depth { left = of_left.above } else { right = of_right.above }
        }
        left
    }

    /// The switches from that of a node to the one below `top`.
    fn climb(&self, node: usize, top: u32) -> impl Iterator<Item = u32> {
        let next = |switch: &u32| Some(self.switches[*switch as usize].above);
        std::iter::successors(Some(self.switch_of[node]), next).take_while(move |switch| *switch != top)
    }

    fn top_of_route(&self, from: usize, to: usize) -> u32 {
        self.meeting(self.switch_of[from], self.switch_of[to])
    }

    pub fn hop_count(&self, from: usize, to: usize) -> u32 {
        if from == to {
            return 0;
        }
        let depth = |switch: u32| self.switches[switch as usize].depth;
        let ends = depth(self.switch_of[from]) + depth(self.switch_of[to]);
        2 + ends - 2 * depth(self.top_of_route(from, to))
    }

    pub fn route(&self, from: usize, to: usize, links: &mut Vec<u32>) {
        if from == to {
            return;
        }
        let top = self.top_of_route(from, to);
        let (first_up, first_down) = (self.node_count() * 2, self.node_count() * 2 + self.switches.len());
        links.push(from as u32);
        links.extend(self.climb(from, top).map(|switch| first_up as u32 + switch));
        let turn = links.len();
        links.extend(self.climb(to, top).map(|switch| first_down as u32 + switch));
        links[turn..].reverse();
        links.push((self.node_count() + to) as u32);
    }

    /// The least width of a route's links, in rates of a node's link.
    pub fn width(&self, from: usize, to: usize) -> f64 {
        let top = self.top_of_route(from, to);
        let widths =
            self.climb(from, top).chain(self.climb(to, top)).map(|switch| self.switches[switch as usize].width);
        widths.fold(1.0, f64::min)
    }

    /// The width of every link, in rates of a node's link.
    pub fn widths(&self) -> impl Iterator<Item = f64> {
        let of_nodes = std::iter::repeat_n(1.0, self.node_count() * 2);
        let of_switches = || self.switches.iter().map(|switch| switch.width);
        of_nodes.chain(of_switches()).chain(of_switches())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Switch 0 has nodes 0 and 1, switch 1 node 2, both below switch 2, which has node 3 itself and is below switch 3, the
    /// top, as switch 4 with node 4 is. Links: nodes up 0 to 4, down 5 to 9; switches up 10 to 14, down 15 to 19.
    fn small() -> Tree {
        Tree::new(&[0, 0, 1, 2, 4], &[(2, 2.0), (2, 1.0), (3, 0.5), (3, 0.0), (3, 3.0)])
    }

    fn route(from: usize, to: usize) -> Vec<u32> {
        let mut links = vec![];
        small().route(from, to, &mut links);
        assert_eq!(links.len(), small().hop_count(from, to) as usize, "{from} to {to}");
        links
    }

    #[test]
    fn climbs_no_higher_than_it_must() {
        assert_eq!((small().node_count(), small().link_count()), (5, 20));
        assert!(route(1, 1).is_empty());
        assert_eq!(route(0, 1), [0, 5 + 1]);
        assert_eq!(route(0, 2), [0, 10, 15 + 1, 5 + 2]);
        assert_eq!(route(3, 1), [3, 15, 5 + 1], "a node of an upper switch does not climb to it");
        assert_eq!(route(0, 4), [0, 10, 10 + 2, 15 + 4, 5 + 4]);
        assert_eq!(route(4, 0), [4, 10 + 4, 15 + 2, 15, 5]);
    }

    #[test]
    fn a_route_is_as_wide_as_its_narrowest_link() {
        assert_eq!([(0, 1), (0, 2), (0, 4)].map(|(from, to)| small().width(from, to)), [1.0, 1.0, 0.5]);
        let widths: Vec<f64> = small().widths().collect();
        assert_eq!(widths[..10], [1.0; 10]);
        assert_eq!(widths[10..15], widths[15..]);
    }
}
