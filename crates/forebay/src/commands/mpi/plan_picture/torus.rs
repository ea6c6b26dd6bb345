//! A torus: slices of its first two dimensions, side by side.
//!
//! Links of a slice are lines between its nodes; those around its edge, and those to other slices (towards the upper right and the lower
//! left), are short ends. Of a long dimension several neighbours are one square.

use std::collections::BTreeMap;

use forebay_aggregate::Vertex;

use crate::columns::count;
use crate::commands::mpi::plan_picture::figure::{MARGIN, NetworkFigure, WIDTH};
use crate::commands::mpi::plan_picture::look::Look;
use crate::commands::picture::canvas::{Canvas, Label, Point};
use crate::commands::picture::colours::SOFT;

/// Slices and squares of a slice's side at most, so that a square can be seen.
const SLICES_MAX: usize = 64;
const SIDE_MAX: usize = 64;

/// Between squares.
const STEP_MAX: f64 = 40.0;

/// A slice's caption, and the slice from which on there is room for it.
const CAPTION: f64 = 18.0;

/// A square: its slice, and its column and row there.
type Square = (usize, usize, usize);

/// The drawing.
pub struct Torus<'a> {
    look: &'a Look,
    lengths: Vec<usize>,
    /// Columns and rows of a slice, squares.
    side: (usize, usize),
    /// Nodes of a square in either direction.
    each: (usize, usize),
    /// The slices that are drawn.
    slices: Vec<usize>,
    slice_count: usize,
    is_ring: bool,
}

impl<'a> Torus<'a> {
    /// That of these lengths.
    pub fn new(look: &'a Look, lengths: &[usize]) -> Self {
        let mut lengths = lengths.to_vec();
        let is_ring = lengths.len() == 1;
        if is_ring && lengths[0] > 12 {
            // A ring in rows.
            let row = (lengths[0] as f64).sqrt().ceil() as usize;
            lengths = vec![row, lengths[0].div_ceil(row)];
        }
        lengths.resize(lengths.len().max(2), 1);
        let each = (lengths[0].div_ceil(SIDE_MAX), lengths[1].div_ceil(SIDE_MAX));
        let side = (lengths[0].div_ceil(each.0), lengths[1].div_ceil(each.1));
        let slice_count: usize = lengths[2..].iter().product();
        let mut torus = Self { look, lengths, side, each, slices: vec![], slice_count, is_ring };
        torus.slices = torus.busiest();
        torus
    }

    /// The slices with the busiest links, in their order.
    fn busiest(&self) -> Vec<usize> {
        let mut most = vec![(0, 0); self.slice_count];
        for (slice, entry) in most.iter_mut().enumerate() {
            entry.1 = slice;
        }
        for (from, _, load) in &self.look.links {
            if let Vertex::Node(node) = from {
                let slice = self.square(*node).0;
                most[slice].0 = most[slice].0.max(*load);
            }
        }
        most.sort_by_key(|(load, slice)| (std::cmp::Reverse(*load), *slice));
        let mut slices: Vec<usize> = most.into_iter().take(SLICES_MAX).map(|(_, slice)| slice).collect();
        slices.sort_unstable();
        slices
    }

    fn square(&self, node: usize) -> Square {
        let (x, rest) = (node % self.lengths[0], node / self.lengths[0]);
        let (y, slice) = (rest % self.lengths[1], rest / self.lengths[1]);
        (slice, x / self.each.0, y / self.each.1)
    }

    /// Slices beside each other.
    fn across(&self) -> usize {
        let ratio = (self.side.1 + 1) as f64 / (self.side.0 + 1) as f64;
        ((self.slices.len() as f64 * ratio * 1.5).sqrt().ceil() as usize).clamp(1, self.slices.len().max(1))
    }

    fn step(&self) -> f64 {
        let squares = self.across() * (self.side.0 + 1);
        ((WIDTH - 2.0 * MARGIN) / squares as f64).min(STEP_MAX)
    }

    fn slice_height(&self) -> f64 {
        (self.side.1 + 1) as f64 * self.step() + CAPTION
    }

    /// The middle of a square, from the corner of the drawing.
    fn middle(&self, place: usize, (_, x, y): Square) -> Point {
        let (column, row) = (place % self.across(), place / self.across());
        let step = self.step();
        let left = column as f64 * (self.side.0 + 1) as f64 * step;
        (left + (x as f64 + 0.8) * step, row as f64 * self.slice_height() + CAPTION + (y as f64 + 0.6) * step)
    }

    /// The coordinates of a slice.
    fn caption(&self, slice: usize) -> String {
        let mut rest = slice;
        let coordinates = self.lengths[2..].iter().map(|length| {
            let coordinate = rest % length;
            rest /= length;
            coordinate.to_string()
        });
        format!("*,*,{}", coordinates.collect::<Vec<_>>().join(","))
    }

    /// The lines of all links, each from where to where.
    fn lines(&self, places: &BTreeMap<usize, usize>) -> Vec<(Point, Point, u64)> {
        let reach = self.step() * 0.42;
        let mut lines = vec![];
        let mut ends: BTreeMap<(Square, i8, i8), u64> = BTreeMap::new();
        let cell = |vertex: Vertex| match vertex {
            Vertex::Node(node) => Some(self.square(node)),
            Vertex::Switch(_) => None,
        };
        for ((from, to), load) in self.look.between(cell) {
            let (dx, dy) = (to.1 as i64 - from.1 as i64, to.2 as i64 - from.2 as i64);
            let is_near = from.0 == to.0 && dx.abs() + dy.abs() == 1;
            if let (true, Some(place)) = (is_near, places.get(&from.0)) {
                lines.push((self.middle(*place, from), self.middle(*place, to), load));
                continue;
            }
            // Around the edge, or to another slice.
            let way = if from.0 == to.0 { (dx.signum() as i8, dy.signum() as i8) } else { (-1, 1) };
            for (square, way) in [(from, (-way.0, -way.1)), (to, way)] {
                let end = ends.entry((square, way.0, way.1)).or_default();
                *end = (*end).max(load);
            }
        }
        for ((square, dx, dy), load) in ends {
            if let Some(place) = places.get(&square.0) {
                let (x, y) = self.middle(*place, square);
                lines.push(((x, y), (x + f64::from(dx) * reach, y + f64::from(dy) * reach), load));
            }
        }
        lines
    }
}

impl NetworkFigure for Torus<'_> {
    fn height(&self) -> f64 {
        self.slices.len().div_ceil(self.across()) as f64 * self.slice_height()
    }

    fn draw(&self, canvas: &mut dyn Canvas, (left, top): (f64, f64)) {
        let places: BTreeMap<usize, usize> =
            self.slices.iter().enumerate().map(|(place, slice)| (*slice, place)).collect();
        let moved = |(x, y): Point| (left + x, top + y);
        let lines = self.lines(&places).into_iter().map(|(from, to, load)| (moved(from), moved(to), load));
        self.look.draw_links(canvas, lines.collect());
        let mut squares: BTreeMap<Square, Vec<usize>> = BTreeMap::new();
        (0..self.look.places()).for_each(|node| squares.entry(self.square(node)).or_default().push(node));
        for (square, nodes) in squares {
            let Some(place) = places.get(&square.0) else { continue };
            self.look.mark(
                canvas,
                moved(self.middle(*place, square)),
                self.step() * 0.2,
                &nodes,
                self.look.fill(nodes[0]),
            );
        }
        let room = (self.side.0 + 1) as f64 * self.step();
        for (place, slice) in self.slices.iter().enumerate().filter(|_| self.slice_count > 1 && room >= 48.0) {
            let (x, y) = moved(self.middle(place, (0, 0, 0)));
            let at = (x - self.step() * 0.3, y - self.step() * 0.5 - 3.0);
            canvas.text(at, Label { size: 10.0, colour: SOFT, ..Label::START }, &self.caption(*slice));
        }
    }

    fn about(&self) -> String {
        let mut about =
            "a torus, in slices of its first two dimensions; short ends are links around an edge or to other slices"
                .to_owned();
        if self.slice_count == 1 {
            let shape = if self.is_ring { "a ring, in rows" } else { "a torus" };
            about = format!("{shape}; short ends are links around an edge");
        }
        if self.slices.len() < self.slice_count {
            let (drawn, all) = (self.slices.len(), count(self.slice_count as u64));
            about.push_str(&format!("; of {all} slices the {drawn} with the busiest links are drawn"));
        }
        if self.each != (1, 1) {
            about.push_str(&format!(
                "; a square is {} x {} nodes, a line the busiest of their links",
                self.each.0, self.each.1
            ));
        }
        about
    }
}
