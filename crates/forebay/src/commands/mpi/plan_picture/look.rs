//! Loads of links and marks of nodes, which the drawings of networks share.

use std::collections::BTreeMap;

use forebay_aggregate::{Case, Plan, Vertex};

use crate::commands::picture::canvas::{Canvas, Place, Point};
use crate::commands::picture::colours::{Colour, GRID, INK, ORANGE, amount};
use crate::commands::picture::scale::bytes;

pub const IO_NODE: Colour = ORANGE;
pub const NODE_FILL: Colour = [0xc4; 3];
pub const UNUSED: Colour = [0xec; 3];

/// The widest line of a link.
const LINE_MAX: f64 = 3.5;

/// Of a network with more links, those without bytes are left out: they would only be memory, since it is summarised.
const IDLE_LINKS_MAX: usize = 1 << 18;

/// A plan in its network, by place.
pub struct Look {
    /// The ends of every link, and the bytes over it.
    pub links: Vec<(Vertex, Vertex, u64)>,
    /// The most bytes over any link.
    pub most: u64,
    /// Aggregators on each place.
    pub aggregators: Vec<usize>,
    /// I/O nodes on each place.
    pub io_nodes: Vec<usize>,
    /// Places of the job, which come first.
    pub job: usize,
}

impl Look {
    /// That of a plan.
    pub fn new(case: &Case, plan: &Plan) -> Self {
        let network = case.network();
        let loads = plan.link_bytes(case);
        let is_kept = |(_, load): &(usize, &u64)| loads.len() <= IDLE_LINKS_MAX || **load > 0;
        let links = loads.iter().enumerate().filter(is_kept).map(|(link, bytes)| {
            let (from, to) = network.ends(link);
            (from, to, *bytes)
        });
        let mut aggregators = vec![0; network.node_count()];
        plan.aggregators.iter().for_each(|aggregator| aggregators[aggregator.node] += 1);
        let mut io_nodes = vec![0; network.node_count()];
        case.io_nodes().iter().for_each(|io| io_nodes[io.node] += 1);
        let most = loads.iter().copied().max().unwrap_or(0);
        Self { links: links.collect(), most, aggregators, io_nodes, job: case.node_count() }
    }

    /// All places.
    pub fn places(&self) -> usize {
        self.aggregators.len()
    }

    /// Whether the network has places for more nodes than the job's.
    pub fn has_unused(&self) -> bool {
        self.job < self.places()
    }

    /// The colour of a place.
    pub fn fill(&self, place: usize) -> Colour {
        if place < self.job { NODE_FILL } else { UNUSED }
    }

    /// The part of the most bytes over a link.
    pub fn part(&self, load: u64) -> f64 {
        load as f64 / self.most.max(1) as f64
    }

    /// The colour of a load; grey of none.
    pub fn colour(&self, load: u64) -> Colour {
        if load == 0 { GRID } else { amount(self.part(load)) }
    }

    /// The busiest link between each two of the cells that its ends are in, in either direction.
    pub fn between<K: Ord + Copy>(&self, cell: impl Fn(Vertex) -> Option<K>) -> BTreeMap<(K, K), u64> {
        let mut loads: BTreeMap<(K, K), u64> = BTreeMap::new();
        for (from, to, bytes) in &self.links {
            let (Some(from), Some(to)) = (cell(*from), cell(*to)) else { continue };
            if from != to {
                let load = loads.entry((from.min(to), from.max(to))).or_default();
                *load = (*load).max(*bytes);
            }
        }
        loads
    }

    /// Draws links, the busiest on top.
    pub fn draw_links(&self, canvas: &mut dyn Canvas, mut links: Vec<(Point, Point, u64)>) {
        links.sort_by_key(|(_, _, load)| *load);
        for (from, to, load) in links {
            let width = 0.8 + (LINE_MAX - 0.8) * self.part(load);
            canvas.line((from, to), width, self.colour(load), &bytes(load as f64));
        }
    }

    /// The marks of a place, or of several that are drawn as one.
    pub fn mark(&self, canvas: &mut dyn Canvas, at: Point, radius: f64, places: &[usize], fill: Colour) {
        let sum = |of: &[usize]| places.iter().map(|place| of[*place]).sum::<usize>();
        let (aggregators, io_nodes) = (sum(&self.aggregators), sum(&self.io_nodes));
        let title = match places {
            [place] => format!("node {place}: {aggregators} aggregators, {io_nodes} I/O nodes"),
            several => format!(
                "nodes {} to {}: {aggregators} aggregators, {io_nodes} I/O nodes",
                several.first().unwrap_or(&0),
                several.last().unwrap_or(&0)
            ),
        };
        if io_nodes > 0 {
            canvas.diamond(at, radius * 1.9, IO_NODE, &title);
        }
        match aggregators {
            // Its surroundings may have the same colour.
            0 if io_nodes > 0 => square(canvas, at, radius * 0.6, fill, &title),
            0 => square(canvas, at, radius, fill, &title),
            _ => aggregator(canvas, at, radius, fill, &title),
        }
    }
}

/// A node.
pub fn square(canvas: &mut dyn Canvas, (x, y): Point, radius: f64, fill: Colour, title: &str) {
    let side = radius * 2.0;
    canvas.rectangle(Place { x: x - radius, y: y - radius, width: side, height: side }, fill, title);
}

/// A node that aggregates.
pub fn aggregator(canvas: &mut dyn Canvas, at: Point, radius: f64, fill: Colour, title: &str) {
    square(canvas, at, radius * 1.25, INK, title);
    square(canvas, at, radius * 0.5, fill, title);
}
