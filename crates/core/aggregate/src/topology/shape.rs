//! The shape of a network, for those who draw it: which vertices a link joins, and how they belong together.

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Vertex {
    /// A place for a node.
    Node(usize),
    /// A router or switch. A measured matrix has two a node: the way out of it, and the way in.
    Switch(usize),
}

/// The shape of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Lengths of the dimensions; nodes are numbered with the first running fastest.
    Torus(Vec<usize>),
    /// Groups of routers of nodes. Nodes and routers are numbered router by router, group by group.
    Dragonfly {
        /// Groups.
        groups: usize,
        /// Routers of a group.
        routers: usize,
        /// Nodes of a router.
        nodes: usize,
    },
    /// Switches above each other, alone or several side by side in a pod.
    Pods {
        /// The pod of each node.
        of_node: Vec<usize>,
        /// The pod of each switch.
        of_switch: Vec<usize>,
        /// The pod above each; itself at the top.
        above: Vec<usize>,
    },
    /// Pairs of nodes, and nobody knows what lies between them.
    Pairs,
}
