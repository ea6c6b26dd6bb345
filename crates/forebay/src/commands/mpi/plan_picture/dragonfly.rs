//! A dragonfly: its groups on a circle, joined by their global links, each a block of routers.
//!
//! A router is a square as dark as its busiest link within the group or to its nodes, and has the marks of its nodes.

use forebay_aggregate::Vertex;

use crate::columns::count;
use crate::commands::mpi::plan_picture::figure::{MARGIN, NetworkFigure, WIDTH};
use crate::commands::mpi::plan_picture::look::{Look, UNUSED};
use crate::commands::picture::canvas::{Canvas, Label, Place, Point};
use crate::commands::picture::colours::{SOFT, WHITE};

/// Groups at most: more do not fit around the circle.
const GROUPS_MAX: usize = 48;

/// Groups that have more than a number for a caption, and the room that it needs.
const NAMED_MAX: usize = 16;
const CAPTION: f64 = 66.0;

/// The largest square of a router.
const ROUTER_MAX: f64 = 22.0;

/// The part of the circle's edge that groups take, the rest being between them.
const TAKEN: f64 = 0.72;

/// The drawing.
pub struct Dragonfly<'a> {
    look: &'a Look,
    all: usize,
    routers: usize,
    nodes: usize,
    /// The groups that are drawn.
    groups: Vec<usize>,
    /// The busiest link of each router but for global ones.
    loads: Vec<u64>,
}

impl<'a> Dragonfly<'a> {
    /// That of these sizes.
    pub fn new(look: &'a Look, groups: usize, routers: usize, nodes: usize) -> Self {
        let (mut loads, mut of_group) = (vec![0; groups * routers], vec![0; groups]);
        for (from, to, load) in &look.links {
            let router = |vertex: &Vertex| match vertex {
                Vertex::Switch(router) => *router,
                Vertex::Node(node) => node / nodes,
            };
            let (from, to) = (router(from), router(to));
            let is_global = from / routers != to / routers;
            for end in [from, to] {
                let most = if is_global { &mut of_group[end / routers] } else { &mut loads[end] };
                *most = (*most).max(*load);
            }
        }
        let mut drawn: Vec<usize> = (0..groups).collect();
        drawn.sort_by_key(|group| (std::cmp::Reverse(of_group[*group]), *group));
        drawn.truncate(GROUPS_MAX);
        drawn.sort_unstable();
        Self { look, all: groups, routers, nodes, groups: drawn, loads }
    }

    /// Routers in a row of a group's block.
    fn row(&self) -> usize {
        (self.routers as f64).sqrt().ceil() as usize
    }

    /// The radius of the circle of the groups' middles, and the side of a router.
    fn sizes(&self) -> (f64, f64) {
        let radius = ((WIDTH - 2.0 * MARGIN) / 2.0 * 0.62).min(300.0);
        let count = self.groups.len().max(3) as f64;
        // Neighbours on the circle, as far apart as a chord.
        let block = 2.0 * radius * (std::f64::consts::PI / count).sin() * TAKEN;
        (radius, (block / self.row() as f64 / 1.42 * 1.3).min(ROUTER_MAX))
    }

    fn block(&self) -> (f64, f64) {
        let side = self.sizes().1;
        (self.row() as f64 * side, self.routers.div_ceil(self.row()) as f64 * side)
    }

    fn middle(&self, place: usize) -> Point {
        let (radius, _) = self.sizes();
        if self.groups.len() == 1 {
            return (0.0, 0.0);
        }
        let angle = place as f64 / self.groups.len() as f64 * std::f64::consts::TAU - std::f64::consts::FRAC_PI_2;
        let across = (radius * 1.45).min((WIDTH - 2.0 * MARGIN - self.block().0) / 2.0 - CAPTION);
        (across * angle.cos(), radius * angle.sin())
    }

    /// Writes the name of a group on the side that no link comes from.
    fn caption(&self, canvas: &mut dyn Canvas, (x, y): Point, (dx, dy): Point, group: usize) {
        let text = if self.groups.len() > NAMED_MAX { group.to_string() } else { format!("group {group}") };
        let (half_width, half_height) = (self.block().0 / 2.0 + 8.0, self.block().1 / 2.0 + 8.0);
        let (at, label) = match () {
            () if dy.abs() * 1.6 >= dx.abs() && dy <= 0.0 => ((x, y - half_height), Label::MIDDLE),
            () if dy.abs() * 1.6 >= dx.abs() => ((x, y + half_height + 10.0), Label::MIDDLE),
            () if dx < 0.0 => ((x - half_width, y + 4.0), Label::END),
            () => ((x + half_width, y + 4.0), Label::START),
        };
        canvas.text(at, Label { size: 11.0, ..label }, &text);
    }

    fn draw_group(&self, canvas: &mut dyn Canvas, (x, y): Point, group: usize) {
        let ((width, height), (_, side)) = (self.block(), self.sizes());
        let (left, top) = (x - width / 2.0, y - height / 2.0);
        let frame = Place { x: left - 3.0, y: top - 3.0, width: width + 6.0, height: height + 6.0 };
        canvas.rectangle(frame, WHITE, "");
        canvas.frame(frame, 1.0, SOFT);
        for router in 0..self.routers {
            let number = group * self.routers + router;
            let (column, row) = (router % self.row(), router / self.row());
            let at = (left + (column as f64 + 0.5) * side, top + (row as f64 + 0.5) * side);
            let nodes: Vec<usize> = (number * self.nodes..(number + 1) * self.nodes).collect();
            let is_used = nodes[0] < self.look.job;
            let fill = if is_used { self.look.colour(self.loads[number]) } else { UNUSED };
            let place = Place { x: at.0 - side * 0.46, y: at.1 - side * 0.46, width: side * 0.92, height: side * 0.92 };
            canvas.rectangle(place, fill, "");
            if nodes.iter().any(|node| self.look.aggregators[*node] + self.look.io_nodes[*node] > 0) {
                self.look.mark(canvas, at, side * 0.24, &nodes, fill);
            }
        }
    }
}

impl NetworkFigure for Dragonfly<'_> {
    fn height(&self) -> f64 {
        let circle = if self.groups.len() > 1 { 2.0 * self.sizes().0 } else { 0.0 };
        circle + self.block().1 + 52.0
    }

    fn draw(&self, canvas: &mut dyn Canvas, (left, top): (f64, f64)) {
        let centre = (left + (WIDTH - 2.0 * MARGIN) / 2.0, top + self.height() / 2.0);
        let at = |place: usize| {
            let (x, y) = self.middle(place);
            (centre.0 + x, centre.1 + y)
        };
        let cell = |vertex: Vertex| match vertex {
            Vertex::Switch(router) => self.groups.binary_search(&(router / self.routers)).ok(),
            Vertex::Node(_) => None,
        };
        let lines = self.look.between(cell).into_iter().map(|((from, to), load)| (at(from), at(to), load));
        self.look.draw_links(canvas, lines.collect());
        for (place, group) in self.groups.iter().enumerate() {
            let (x, y) = at(place);
            self.draw_group(canvas, (x, y), *group);
            self.caption(canvas, (x, y), (x - centre.0, y - centre.1), *group);
        }
    }

    fn about(&self) -> String {
        let mut about = format!(
            "a dragonfly of {} groups of {} routers of {} nodes: a square is a router, as dark as its busiest link within the group; lines \
             are global links",
            count(self.all as u64),
            self.routers,
            self.nodes
        );
        if self.groups.len() < self.all {
            about.push_str(&format!("; the {} groups with the busiest global links are drawn", self.groups.len()));
        }
        about
    }
}
