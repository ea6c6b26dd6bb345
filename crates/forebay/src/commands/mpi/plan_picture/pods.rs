//! Fat trees and trees of switches: pods below each other, a line as busy as the busiest link between two.
//!
//! A pod is a switch, or several side by side. Its nodes stand below it, each as dark as its own link. Where they do not fit, a lowest pod
//! is a square as dark as its busiest link, below the pod that it belongs to.

use std::collections::BTreeMap;

use forebay_aggregate::Vertex;

use crate::columns::count;
use crate::commands::mpi::plan_picture::figure::{MARGIN, NetworkFigure, WIDTH};
use crate::commands::mpi::plan_picture::look::{Look, UNUSED};
use crate::commands::picture::canvas::{Canvas, Label, Place, Point, text_width};
use crate::commands::picture::colours::{PALE, SOFT};

/// The room between nodes, as large as they fit.
const STEPS: [f64; 4] = [20.0, 15.0, 11.0, 8.0];

/// Between pods, beside and below each other.
const GAP: f64 = 12.0;
const DOWN: f64 = 64.0;
const BOX: f64 = 18.0;

/// Blocks of squares at most.
const BLOCKS_MAX: usize = 40;

/// The squares that stand below a pod, each of some nodes, and the load of the busiest of their links.
struct Block {
    squares: Vec<(Vec<usize>, u64)>,
}

/// The drawing.
pub struct Pods<'a> {
    look: &'a Look,
    above: Vec<usize>,
    switches: Vec<usize>,
    blocks: BTreeMap<usize, Block>,
    /// Busiest links between a pod and the one above.
    loads: BTreeMap<usize, u64>,
    step: f64,
    /// The pods that are drawn, with their middles and widths.
    placed: BTreeMap<usize, (f64, f64)>,
    levels: usize,
    is_summary: bool,
    left_out: usize,
}

impl<'a> Pods<'a> {
    /// That of nodes and switches in pods.
    pub fn new(look: &'a Look, of_node: &[usize], of_switch: &[usize], above: &[usize]) -> Self {
        let mut switches = vec![0; above.len()];
        of_switch.iter().for_each(|pod| switches[*pod] += 1);
        let cell = |vertex: Vertex| match vertex {
            Vertex::Switch(switch) => Some(of_switch[switch]),
            Vertex::Node(_) => None,
        };
        let ups = look.between(cell).into_iter();
        let loads = ups.map(|((one, other), load)| (if above[one] == other { one } else { other }, load)).collect();
        let mut of_nodes: BTreeMap<usize, Block> = BTreeMap::new();
        let mut node_loads = vec![0; of_node.len()];
        for (from, to, load) in &look.links {
            for end in [from, to] {
                if let Vertex::Node(node) = end {
                    node_loads[*node] = node_loads[*node].max(*load);
                }
            }
        }
        for (node, pod) in of_node.iter().enumerate() {
            let block = of_nodes.entry(*pod).or_insert(Block { squares: vec![] });
            block.squares.push((vec![node], node_loads[node]));
        }
        let mut pods = Self {
            look,
            above: above.to_vec(),
            switches,
            blocks: of_nodes,
            loads,
            step: STEPS[0],
            placed: BTreeMap::new(),
            levels: 1,
            is_summary: false,
            left_out: 0,
        };
        if !pods.fits() {
            pods.summarise();
            if !pods.fits() {
                pods.leave_out();
                pods.fits();
            }
        }
        pods.place();
        pods
    }

    /// Chooses the largest room between squares with which all pods are within the picture.
    fn fits(&mut self) -> bool {
        STEPS.into_iter().any(|step| {
            self.step = step;
            let widths = self.widths();
            self.tops().iter().map(|top| widths[top]).sum::<f64>() <= WIDTH - 2.0 * MARGIN
        })
    }

    /// The lowest pods become squares of the pods above them.
    fn summarise(&mut self) {
        self.is_summary = true;
        let mut blocks: BTreeMap<usize, Block> = BTreeMap::new();
        for (pod, block) in &self.blocks {
            let nodes = block.squares.iter().flat_map(|(nodes, _)| nodes.clone()).collect();
            let own = block.squares.iter().map(|(_, load)| *load).max().unwrap_or(0);
            let load = own.max(self.loads.get(pod).copied().unwrap_or(0));
            let block = blocks.entry(self.above[*pod]).or_insert(Block { squares: vec![] });
            block.squares.push((nodes, load));
        }
        self.blocks = blocks;
    }

    /// Keeps the blocks with the busiest links.
    fn leave_out(&mut self) {
        let most = |block: &Block| block.squares.iter().map(|(_, load)| *load).max().unwrap_or(0);
        let mut by_load: Vec<(u64, usize)> = self.blocks.iter().map(|(pod, block)| (most(block), *pod)).collect();
        by_load.sort_by_key(|(load, pod)| (std::cmp::Reverse(*load), *pod));
        for (_, pod) in by_load.iter().skip(BLOCKS_MAX) {
            self.blocks.remove(pod);
        }
        self.left_out = by_load.len().saturating_sub(BLOCKS_MAX);
        for block in self.blocks.values_mut() {
            // Squares of as many neighbours as there is room for.
            let each = block.squares.len().div_ceil(9);
            let joined = block.squares.chunks(each).map(|squares| {
                let nodes = squares.iter().flat_map(|(nodes, _)| nodes.clone()).collect();
                (nodes, squares.iter().map(|(_, load)| *load).max().unwrap_or(0))
            });
            block.squares = joined.collect();
        }
    }

    /// The pods with something below them, each behind all that are below it.
    fn shown(&self) -> Vec<usize> {
        let mut depths: BTreeMap<usize, usize> = BTreeMap::new();
        for pod in self.blocks.keys() {
            let mut at = *pod;
            while depths.insert(at, self.depth(at)).is_none() && self.above[at] != at {
                at = self.above[at];
            }
        }
        let mut pods: Vec<(usize, usize)> = depths.into_iter().map(|(pod, depth)| (depth, pod)).collect();
        pods.sort_by_key(|(depth, pod)| (std::cmp::Reverse(*depth), *pod));
        pods.into_iter().map(|(_, pod)| pod).collect()
    }

    fn depth(&self, pod: usize) -> usize {
        std::iter::successors(Some(pod), |at| Some(self.above[*at]).filter(|above| above != at)).count() - 1
    }

    fn tops(&self) -> Vec<usize> {
        self.shown().into_iter().filter(|pod| self.above[*pod] == *pod).collect()
    }

    fn columns(squares: usize) -> usize {
        (squares as f64).sqrt().ceil() as usize
    }

    fn block_width(&self, pod: usize) -> f64 {
        let columns = self.blocks.get(&pod).map_or(0, |block| Self::columns(block.squares.len()));
        columns as f64 * self.step + if columns > 0 { GAP } else { 0.0 }
    }

    /// The room of each pod with all below it.
    fn widths(&self) -> BTreeMap<usize, f64> {
        let mut widths: BTreeMap<usize, f64> = BTreeMap::new();
        let mut below: BTreeMap<usize, f64> = BTreeMap::new();
        for pod in self.shown() {
            // A block of its own stands beside the pods below it.
            let width = self.block_width(pod) + below.get(&pod).copied().unwrap_or(0.0);
            widths.insert(pod, width);
            if self.above[pod] != pod {
                *below.entry(self.above[pod]).or_default() += width;
            }
        }
        widths
    }

    /// Gives every pod its place: from the top down, each in the room of the one above.
    fn place(&mut self) {
        let widths = self.widths();
        let all: f64 = self.tops().iter().map(|top| widths[top]).sum();
        let mut next: BTreeMap<usize, f64> = BTreeMap::new();
        let mut free = (WIDTH - 2.0 * MARGIN - all) / 2.0;
        let shown = self.shown();
        for pod in shown.iter().rev() {
            let above = self.above[*pod];
            let left = if above == *pod { &mut free } else { next.entry(above).or_default() };
            let begin = *left;
            *left += widths[pod];
            next.insert(*pod, begin + self.block_width(*pod));
            self.placed.insert(*pod, (begin + widths[pod] / 2.0, begin));
        }
        self.levels = shown.iter().map(|pod| self.depth(*pod)).max().unwrap_or(0) + 1;
    }

    fn y(&self, pod: usize) -> f64 {
        self.depth(pod) as f64 * (DOWN + BOX)
    }

    fn draw_block(&self, canvas: &mut dyn Canvas, (x, y): Point, pod: usize) {
        let Some(block) = self.blocks.get(&pod) else { return };
        let columns = Self::columns(block.squares.len());
        for (index, (nodes, load)) in block.squares.iter().enumerate() {
            let (column, row) = (index % columns, index / columns);
            let at = (x + GAP / 2.0 + (column as f64 + 0.5) * self.step, y + (row as f64 + 0.5) * self.step);
            let fill = if nodes[0] < self.look.job { self.look.colour(*load) } else { UNUSED };
            self.look.mark(canvas, at, self.step * 0.34, nodes, fill);
        }
    }

    fn draw_pod(&self, canvas: &mut dyn Canvas, (x, y): Point, pod: usize) {
        let text = match self.switches[pod] {
            1 => "switch".to_owned(),
            several => format!("{several} switches"),
        };
        let room = self.widths().get(&pod).copied().unwrap_or(0.0) - 4.0;
        let size = 10.0;
        let wide = text_width(&text, size) + 8.0;
        let is_written = wide <= room;
        let width = if is_written { wide } else { room.clamp(6.0, 24.0) };
        let place = Place { x: x - width / 2.0, y, width, height: BOX };
        canvas.rectangle(place, PALE, &format!("pod {pod}: {text}"));
        canvas.frame(place, 1.0, SOFT);
        if is_written {
            canvas.text((x, y + 13.0), Label { size, ..Label::MIDDLE }, &text);
        }
    }
}

impl NetworkFigure for Pods<'_> {
    fn height(&self) -> f64 {
        let rows = |block: &Block| block.squares.len().div_ceil(Self::columns(block.squares.len()).max(1));
        let below = |(pod, block): (&usize, &Block)| self.y(*pod) + BOX + 22.0 + rows(block) as f64 * self.step;
        self.blocks.iter().map(below).fold(BOX, f64::max) + 6.0
    }

    fn draw(&self, canvas: &mut dyn Canvas, (left, top): (f64, f64)) {
        let mut lines = vec![];
        for (pod, (x, begin)) in &self.placed {
            let (x, y) = (left + x, top + self.y(*pod));
            if let Some((above, _)) = self.placed.get(&self.above[*pod]).filter(|_| self.above[*pod] != *pod) {
                let from = (left + above, top + self.y(self.above[*pod]) + BOX);
                lines.push((from, (x, y), self.loads.get(pod).copied().unwrap_or(0)));
            }
            if let Some(block) = self.blocks.get(pod) {
                let middle = left + begin + self.block_width(*pod) / 2.0;
                let load = block.squares.iter().map(|(_, load)| *load).max().unwrap_or(0);
                lines.push(((x, y + BOX), (middle, y + BOX + 18.0), load));
            }
        }
        self.look.draw_links(canvas, lines);
        for (pod, (x, begin)) in &self.placed {
            let y = top + self.y(*pod);
            self.draw_block(canvas, (left + begin, y + BOX + 20.0), *pod);
            self.draw_pod(canvas, (left + x, y), *pod);
        }
    }

    fn about(&self) -> String {
        let mut about = match self.is_summary {
            false => "switches: a line is the busiest link between two, a node is as dark as its own link".to_owned(),
            true => "switches: a line is the busiest link between two; a square is a switch with its nodes, as dark as its busiest link".to_owned(),
        };
        if self.left_out > 0 {
            let left_out = count(self.left_out as u64);
            about.push_str(&format!(", or several; {left_out} groups of switches with less busy links are left out"));
        }
        about
    }
}
