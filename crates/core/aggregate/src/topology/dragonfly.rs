//! A dragonfly: groups of routers, each with nodes.
//!
//! The routers of a group are fully connected. Each pair of groups has one global link, whose ends are spread round-robin
//! over the routers of both groups. Routes are minimal: to the router of the global link, over it, to the router of the node.
//! Nodes are numbered router by router, group by group.

use super::shape::{Shape, Vertex};

/// Its three sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dragonfly {
    groups: usize,
    /// Routers of a group.
    routers: usize,
    /// Nodes of a router.
    nodes: usize,
}

/// Where a node is.
#[derive(PartialEq, Eq)]
struct Place {
    group: usize,
    router: usize,
}

impl Dragonfly {
    /// With so many groups of so many routers of so many nodes, each at least one.
    pub fn new(groups: usize, routers: usize, nodes: usize) -> Self {
        Self { groups, routers, nodes }
    }

    pub fn node_count(&self) -> usize {
        self.groups * self.routers * self.nodes
    }

    pub fn link_count(&self) -> usize {
        self.first_global() + self.groups * self.groups
    }

    /// Up-links of nodes come first, then their down-links, then links between routers of a group, then global ones.
    fn first_local(&self) -> usize {
        self.node_count() * 2
    }

    fn first_global(&self) -> usize {
        self.first_local() + self.groups * self.routers * self.routers
    }

    pub fn shape(&self) -> Shape {
        Shape::Dragonfly { groups: self.groups, routers: self.routers, nodes: self.nodes }
    }

    /// Routers are numbered group by group.
    pub fn ends(&self, link: usize) -> (Vertex, Vertex) {
        let (nodes, routers) = (self.node_count(), self.routers);
        if link < self.first_local() {
            let (node, router) = (Vertex::Node(link % nodes), Vertex::Switch(link % nodes / self.nodes));
            return if link < nodes { (node, router) } else { (router, node) };
        }
        if link < self.first_global() {
            let local = link - self.first_local();
            let (from, to) = (local / routers, local % routers);
            return (Vertex::Switch(from), Vertex::Switch(from / routers * routers + to));
        }
        let global = link - self.first_global();
        let (from, to) = (global / self.groups, global % self.groups);
        if from == to {
            // Stands in the numbering, and nothing goes over it.
            return (Vertex::Switch(from * routers), Vertex::Switch(from * routers));
        }
        let end = |group: usize, other: usize| Vertex::Switch(group * routers + self.gateway(group, other));
        (end(from, to), end(to, from))
    }

    fn place(&self, node: usize) -> Place {
        let router = node / self.nodes;
        Place { group: router / self.routers, router: router % self.routers }
    }

    /// The router of a group that has the global link to another.
    fn gateway(&self, group: usize, other: usize) -> usize {
        let number = if other < group { other } else { other - 1 };
        number % self.routers
    }

    fn local(&self, group: usize, from: usize, to: usize) -> u32 {
        (self.first_local() + (group * self.routers + from) * self.routers + to) as u32
    }

    pub fn hop_count(&self, from: usize, to: usize) -> u32 {
        let (source, target) = (self.place(from), self.place(to));
        if from == to {
            return 0;
        }
        if source.group == target.group {
            return 2 + u32::from(source.router != target.router);
        }
        let leaves = self.gateway(source.group, target.group) != source.router;
        let arrives = self.gateway(target.group, source.group) != target.router;
        3 + u32::from(leaves) + u32::from(arrives)
    }

    pub fn route(&self, from: usize, to: usize, links: &mut Vec<u32>) {
        if from == to {
            return;
        }
        let (source, target) = (self.place(from), self.place(to));
        links.push(from as u32);
        let mut at = source.router;
        if source.group != target.group {
            let leave = self.gateway(source.group, target.group);
            if at != leave {
                links.push(self.local(source.group, at, leave));
            }
            links.push((self.first_global() + source.group * self.groups + target.group) as u32);
            at = self.gateway(target.group, source.group);
        }
        if at != target.router {
            links.push(self.local(target.group, at, target.router));
        }
        links.push((self.node_count() + to) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 groups of 2 routers of 2 nodes: nodes 0 to 3, 4 to 7, 8 to 11. Links: up 0 to 11, down 12 to 23, local from 24,
    /// 4 a group, global from 36, 3 a group.
    fn small() -> Dragonfly {
        Dragonfly::new(3, 2, 2)
    }

    fn route(from: usize, to: usize) -> Vec<u32> {
        let mut links = vec![];
        small().route(from, to, &mut links);
        assert_eq!(links.len(), small().hop_count(from, to) as usize, "{from} to {to}");
        links
    }

    #[test]
    fn within_a_group() {
        assert!(route(5, 5).is_empty());
        assert_eq!(route(0, 1), [0, 12 + 1]);
        assert_eq!(route(0, 3), [0, 24 + 1, 12 + 3]);
    }

    #[test]
    fn between_groups_over_the_routers_of_the_global_link() {
        // Group 0 has the link to group 1 at its router 0, that to group 2 at its router 1; group 1 that to group 0 at its
        // router 0; group 2 that to group 0 at its router 0.
        assert_eq!(route(0, 4), [0, 36 + 1, 12 + 4]);
        assert_eq!(route(0, 11), [0, 24 + 1, 36 + 2, 24 + 8 + 1, 12 + 11]);
        assert_eq!(route(11, 0), [11, 24 + 8 + 2, 36 + 6, 24 + 2, 12]);
        assert_eq!(small().link_count(), 45);
    }

    #[test]
    fn all_hop_counts_are_lengths_of_routes() {
        (0..12).flat_map(|from| (0..12).map(move |to| (from, to))).for_each(|(from, to)| drop(route(from, to)));
    }
}
