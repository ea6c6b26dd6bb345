//! A measured matrix: a map of the bytes from each node (rows) to each (columns).

use std::collections::BTreeMap;

use forebay_aggregate::Vertex;

use crate::commands::mpi::plan_picture::figure::NetworkFigure;
use crate::commands::mpi::plan_picture::look::Look;
use crate::commands::picture::canvas::{Canvas, Label, Place};
use crate::commands::picture::colours::{PALE, SOFT};
use crate::commands::picture::scale::bytes;

/// Cells in a row at most.
const CELLS_MAX: usize = 96;

/// The side of the map, and of a cell at most.
const SIDE: f64 = 620.0;
const CELL_MAX: f64 = 40.0;

/// Room for the marks of nodes and their numbers.
const LEFT: f64 = 110.0;
const TOP: f64 = 56.0;

/// The drawing.
pub struct Pairs<'a> {
    look: &'a Look,
    /// Nodes of a cell.
    each: usize,
    loads: BTreeMap<(usize, usize), u64>,
}

impl<'a> Pairs<'a> {
    /// That of a plan.
    pub fn new(look: &'a Look) -> Self {
        let (nodes, each) = (look.places(), look.places().div_ceil(CELLS_MAX).max(1));
        let mut loads = BTreeMap::new();
        for (from, to, load) in look.links.iter().filter(|(_, _, load)| *load > 0) {
            // The ways out of nodes and into them are the links' own.
            if let (Vertex::Switch(from), Vertex::Switch(to)) = (from, to) {
                let cell: &mut u64 = loads.entry((from / each, (to - nodes) / each)).or_default();
                *cell = (*cell).max(*load);
            }
        }
        Self { look, each, loads }
    }

    fn cells(&self) -> usize {
        self.look.places().div_ceil(self.each)
    }

    fn cell(&self) -> f64 {
        (SIDE / self.cells() as f64).min(CELL_MAX)
    }
}

impl NetworkFigure for Pairs<'_> {
    fn height(&self) -> f64 {
        TOP + self.cells() as f64 * self.cell()
    }

    fn draw(&self, canvas: &mut dyn Canvas, (left, top): (f64, f64)) {
        let (cells, side) = (self.cells(), self.cell());
        let (left, first) = (left + LEFT, top + TOP);
        let all = cells as f64 * side;
        canvas.rectangle(Place { x: left, y: first, width: all, height: all }, PALE, "");
        for ((row, column), load) in &self.loads {
            let (x, y) = (left + *column as f64 * side, first + *row as f64 * side);
            let title = format!("{} to {}: {}", row * self.each, column * self.each, bytes(*load as f64));
            canvas.rectangle(Place { x, y, width: side, height: side }, self.look.colour(*load), &title);
        }
        canvas.frame(Place { x: left, y: first, width: all, height: all }, 0.8, SOFT);
        // As many numbers as there is room for.
        let every = (18.0 / side).ceil().max(1.0) as usize;
        for cell in 0..cells {
            let nodes: Vec<usize> = (cell * self.each..((cell + 1) * self.each).min(self.look.places())).collect();
            let middle = (cell as f64 + 0.5) * side;
            let radius = (side * 0.25).min(5.0);
            for at in [(left - 12.0, first + middle), (left + middle, first - 12.0)] {
                self.look.mark(canvas, at, radius, &nodes, self.look.fill(nodes[0]));
            }
            if cell % every == 0 {
                let number = nodes[0].to_string();
                canvas.text((left - 26.0, first + middle + 4.0), Label { size: 11.0, ..Label::END }, &number);
                let upright = Label { size: 11.0, is_upright: true, ..Label::START };
                canvas.text((left + middle + 4.0, first - 24.0), upright, &number);
            }
        }
        let soft = Label { colour: SOFT, ..Label::START };
        canvas.text((left - LEFT, first - 8.0), soft, "from node");
        canvas.text((left + all + 10.0, first - 8.0), soft, "to node");
    }

    fn about(&self) -> String {
        let about = "measured pairs: a cell has the bytes from the node of its row to that of its column";
        match self.each {
            1 => about.to_owned(),
            each => format!("{about}; a cell is {each} x {each} nodes, with the busiest of their links"),
        }
    }
}
