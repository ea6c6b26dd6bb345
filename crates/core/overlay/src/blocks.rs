//! The shape of a tree, as arithmetic: which nodes hand on, and whom each of them serves.
//!
//! With fan-out `k` the order of the nodes is cut into blocks of `k`, and in every block one node, the leader, hands on.
//! A tree is named by its root: the root's place in its block is the leader's place in every block, so trees whose roots
//! have different places have no leader in common. The blocks, from the root's on and round, form a tree of their own: the
//! first of a run of blocks stands above up to `k` shorter runs of equal length. So a stretch of the order, a switch's
//! nodes for example, lies in few subtrees, and a node is found by going down some levels, without a table.
//!
//! A leader serves the leaders of the runs below its block and, with what is left of its `k`, the other nodes of its
//! block. The leader of a block that has runs below it has too little left; node `m` of its block is served at the
//! bottom of run `m` instead, at the end of that run's first runs. Every bottom is the end of one such way at most, and
//! has one child less than `k` without it, so every leader has `k` children, but for those that the count leaves short.

/// Blocks of one tree; nodes and blocks are numbers here. Nodes that do not exist are never asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blocks {
    node_count: u32,
    fan_out: u32,
    /// How many blocks there are. The last may be short.
    count: u32,
    /// The root's block.
    first: u32,
    /// The leader's place in its block.
    place: u32,
    /// Nodes are counted from this one on, so that the root is in a block.
    turn: u32,
}

/// A run of blocks by their positions, counted from the root's block: the first stands above the others.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    end: u32,
}

/// How a block is reached from the root's.
#[derive(Clone, Copy, Debug)]
struct Way {
    run: Run,
    /// The block above.
    parent: Option<u32>,
    /// The last run on the way that was not left by its first part, and by which it was.
    turned: Option<(Run, u32)>,
}

impl Run {
    /// How many runs stand below the first block.
    fn parts(self, fan_out: u32) -> u32 {
        (self.end - self.first - 1).min(fan_out)
    }

    /// The length of these runs, and how many of them, the first ones, are longer by one.
    fn lengths(self, fan_out: u32) -> (u32, u32) {
        let (below, parts) = (self.end - self.first - 1, self.parts(fan_out));
        (below / parts, below % parts)
    }

    fn part(self, fan_out: u32, index: u32) -> Self {
        let (length, longer) = self.lengths(fan_out);
        let first = self.first + 1 + index * length + index.min(longer);
        Self { first, end: first + length + u32::from(index < longer) }
    }

    /// The part in which a block lies that is not the first.
    fn part_with(self, fan_out: u32, position: u32) -> u32 {
        let (length, longer) = self.lengths(fan_out);
        let offset = position - self.first - 1;
        let in_longer = longer * (length + 1);
        if offset < in_longer { offset / (length + 1) } else { longer + (offset - in_longer) / length }
    }
}

impl Blocks {
    /// The blocks of the tree of this root, which is one of `node_count` nodes.
    pub fn new(node_count: u32, fan_out: u32, root: u32) -> Self {
        let count = (node_count - 1).div_ceil(fan_out).max(1);
        let mut blocks = Self { node_count, fan_out, count, first: 0, place: 0, turn: 0 };
        if blocks.is_extra(root) {
            blocks.turn = root;
        }
        let root = blocks.number_of(root);
        Self { first: root / fan_out, place: root % fan_out, ..blocks }
    }

    /// Whether a node would be in no block: there are enough blocks to serve all, but a root is served by nobody, so one
    /// node more than the blocks have places can be there.
    pub fn is_extra(&self, node: u32) -> bool {
        self.number_of(node) >= self.count * self.fan_out
    }

    /// The node that `node` asks.
    pub fn parent(&self, node: u32) -> Option<u32> {
        if self.is_extra(node) {
            return Some(self.leader(self.bottom(self.whole())));
        }
        let position = self.position_of(node);
        let way = self.way_to(position);
        let member = self.member_number(node, position);
        if member == 0 {
            return way.parent.map(|parent| self.leader(parent));
        }
        let is_served_here = member >= way.run.parts(self.fan_out);
        let server = if is_served_here { position } else { self.bottom(way.run.part(self.fan_out, member)) };
        Some(self.leader(server))
    }

    /// The nodes that ask `node`: first those that hand on.
    pub fn children(&self, node: u32) -> impl Iterator<Item = u32> + use<> {
        let blocks = *self;
        let position = if self.is_extra(node) { None } else { Some(self.position_of(node)) };
        let leads = position.filter(|position| self.member_number(node, *position) == 0);
        let way = leads.map(|position| self.way_to(position));
        let parts = way.map_or(0, |way| way.run.parts(blocks.fan_out));
        let below = way
            .into_iter()
            .flat_map(move |way| (0..parts).map(move |index| blocks.leader(way.run.part(blocks.fan_out, index).first)));
        let own = leads.into_iter().flat_map(move |position| {
            (parts.max(1)..blocks.len_of(position)).map(move |member| blocks.member(position, member))
        });
        let guest = way.filter(|_| parts == 0).and_then(|way| blocks.guest(way));
        below.chain(own).chain(guest)
    }

    /// A number of hops from the root that no node exceeds.
    pub fn depth_max(&self) -> u32 {
        if self.fan_out == 1 {
            return self.node_count - 1;
        }
        let (mut blocks, mut depth) = (self.count, 0);
        while blocks > 1 {
            blocks = (blocks - 1).div_ceil(self.fan_out);
            depth += 1;
        }
        depth + u32::from(self.node_count > 1)
    }

    /// The node that is served at the bottom to which `way` leads, though it is of another block.
    fn guest(&self, way: Way) -> Option<u32> {
        match way.turned {
            Some((run, member)) => (member < self.len_of(run.first)).then(|| self.member(run.first, member)),
            // The one node without a block, if there is one.
            None => {
                let extra = self.count * self.fan_out;
                (extra < self.node_count).then(|| self.node_of(extra))
            }
        }
    }

    fn whole(&self) -> Run {
        Run { first: 0, end: self.count }
    }

    fn way_to(&self, position: u32) -> Way {
        let mut way = Way { run: self.whole(), parent: None, turned: None };
        if self.fan_out == 1 {
            return Way { run: Run { first: position, ..way.run }, parent: position.checked_sub(1), ..way };
        }
        while way.run.first != position {
            let index = way.run.part_with(self.fan_out, position);
            let turned = if index == 0 { way.turned } else { Some((way.run, index)) };
            way = Way { run: way.run.part(self.fan_out, index), parent: Some(way.run.first), turned };
        }
        way
    }

    /// The end of the first runs of a run.
    fn bottom(&self, mut run: Run) -> u32 {
        if self.fan_out == 1 {
            return run.end - 1;
        }
        while run.parts(self.fan_out) > 0 {
            run = run.part(self.fan_out, 0);
        }
        run.first
    }

    /// Number of a node from the first of the first block on.
    fn number_of(&self, node: u32) -> u32 {
        (node % self.node_count + self.node_count - self.turn) % self.node_count
    }

    fn node_of(&self, number: u32) -> u32 {
        (number + self.turn) % self.node_count
    }

    /// The position of a node's block.
    fn position_of(&self, node: u32) -> u32 {
        (self.number_of(node) / self.fan_out + self.count - self.first) % self.count
    }

    fn block_at(&self, position: u32) -> u32 {
        (position + self.first) % self.count
    }

    /// Nodes of a block.
    fn len_of(&self, position: u32) -> u32 {
        (self.node_count - self.block_at(position) * self.fan_out).min(self.fan_out)
    }

    /// The leader's place in a block, also in a short one.
    fn place_in(&self, position: u32) -> u32 {
        self.place % self.len_of(position)
    }

    fn leader(&self, position: u32) -> u32 {
        self.member(position, 0)
    }

    /// Member 0 of a block is its leader; the others follow in their order.
    fn member(&self, position: u32, member: u32) -> u32 {
        let leader = self.place_in(position);
        let place = match member {
            0 => leader,
            before if before <= leader => before - 1,
            after => after,
        };
        self.node_of(self.block_at(position) * self.fan_out + place)
    }

    fn member_number(&self, node: u32, position: u32) -> u32 {
        let (place, leader) = (self.number_of(node) % self.fan_out, self.place_in(position));
        match place {
            _ if place == leader => 0,
            before if before < leader => before + 1,
            after => after,
        }
    }
}
