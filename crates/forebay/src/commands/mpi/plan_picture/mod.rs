//! A plan as a picture: the network with its links as busy as the plan makes them, who aggregates, where bytes leave, and how long the
//! strategies take.
//!
//! Each shape of network has its drawing: `torus`, `dragonfly`, `pods` (fat trees and switches) and `pairs` (a measured matrix). A large
//! one is summarised, and the picture says how. `look` and `figure` have what they share, `strategies` the bars of all plans.

mod dragonfly;
mod figure;
mod look;
mod pairs;
mod pods;
mod strategies;
mod torus;

use std::path::Path;

use forebay_aggregate::{Case, Plan, Shape};

use crate::columns::count;
use crate::commands::picture::canvas::{Canvas, HEADING, Label, Place, text_width};
use crate::commands::picture::colours::{SOFT, amount};
use crate::commands::picture::scale::bytes;
use crate::commands::picture::{Drawing, encoded};
use figure::{MARGIN, NetworkFigure, WIDTH};
use look::{IO_NODE, Look, NODE_FILL, UNUSED};
use strategies::Strategies;

pub use strategies::seconds;

/// Room for a line of text, and for the legend.
const LINE: f64 = 18.0;
const LEGEND: f64 = 48.0;
const GAP: f64 = 28.0;

/// Draws a mark of the legend.
type Mark<'m> = &'m dyn Fn(&mut dyn Canvas, (f64, f64));

/// The picture.
struct Picture<'a> {
    case: &'a Case,
    plan: &'a Plan,
    look: &'a Look,
    figure: Box<dyn NetworkFigure + 'a>,
    /// Lines about the plan and the figure.
    lines: Vec<String>,
    strategies: Strategies<'a>,
}

/// The picture of a plan, with the times of all plans, as the name of its file says. `reason` is why it is the best.
pub fn picture(case: &Case, (plan, plans): (&Plan, &[Plan]), reason: &str, path: &Path) -> Vec<u8> {
    let look = Look::new(case, plan);
    encoded(&Picture::new(case, &look, (plan, plans), reason), path)
}

/// The lines of a text in a room.
fn wrapped(text: &str, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or("", String::as_str);
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        match lines.last_mut() {
            Some(last) if last.is_empty() || text_width(&longer, Label::START.size) <= room => *last = longer,
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

impl<'a> Picture<'a> {
    fn new(case: &'a Case, look: &'a Look, (plan, plans): (&'a Plan, &'a [Plan]), reason: &str) -> Self {
        let figure: Box<dyn NetworkFigure + 'a> = match case.network().shape() {
            Shape::Torus(lengths) => Box::new(torus::Torus::new(look, &lengths)),
            Shape::Dragonfly { groups, routers, nodes } => {
                Box::new(dragonfly::Dragonfly::new(look, groups, routers, nodes))
            }
            Shape::Pods { of_node, of_switch, above } => Box::new(pods::Pods::new(look, &of_node, &of_switch, &above)),
            Shape::Pairs => Box::new(pairs::Pairs::new(look)),
        };
        let (nodes, ranks) = (count(case.node_count() as u64), count(case.rank_count() as u64));
        let about = format!("{nodes} nodes, {ranks} ranks; {}", figure.about());
        let lines = [reason, &about].into_iter().flat_map(|text| wrapped(text, WIDTH - 2.0 * MARGIN)).collect();
        let strategies = Strategies { case, plan, plans };
        Self { case, plan, look, figure, lines, strategies }
    }
}

impl Picture<'_> {
    fn head(&self) -> f64 {
        MARGIN + HEADING + self.lines.len() as f64 * LINE + 14.0
    }
}

impl Drawing for Picture<'_> {
    fn size(&self) -> (f64, f64) {
        let strategies = self.strategies.height();
        (WIDTH, self.head() + LEGEND + self.figure.height() + GAP + strategies + MARGIN)
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        let predicted = &self.plan.predicted;
        let heading = format!(
            "Plan \"{}\": {} in {} s, {}, {}",
            self.plan.strategy.name(),
            bytes(self.case.bytes() as f64),
            strategies::seconds(predicted.total_s),
            strategies::counted(self.plan.aggregators.len(), "aggregator"),
            strategies::counted(self.plan.rounds, "round"),
        );
        canvas.text((MARGIN, MARGIN + 12.0), Label::HEADING, &heading);
        for (index, line) in self.lines.iter().enumerate() {
            let y = MARGIN + HEADING + 16.0 + index as f64 * LINE;
            canvas.text((MARGIN, y), Label { colour: SOFT, ..Label::START }, line);
        }
        let mut y = self.head();
        self.legend(canvas, y);
        y += LEGEND;
        self.figure.draw(canvas, (MARGIN, y));
        y += self.figure.height() + GAP;
        self.strategies.draw(canvas, (MARGIN, y));
    }
}

impl Picture<'_> {
    /// The marks of nodes, and the colours of loads.
    fn legend(&self, canvas: &mut dyn Canvas, y: f64) {
        let mut x = MARGIN;
        let mut mark = |canvas: &mut dyn Canvas, draw: Mark<'_>, text: &str| {
            draw(canvas, (x + 8.0, y + 6.0));
            canvas.text((x + 20.0, y + 10.0), Label::START, text);
            x += 20.0 + text_width(text, Label::START.size) + 18.0;
        };
        mark(canvas, &|canvas, at| look::square(canvas, at, 5.0, NODE_FILL, ""), "node");
        if self.look.has_unused() {
            mark(canvas, &|canvas, at| look::square(canvas, at, 5.0, UNUSED, ""), "place outside the job");
        }
        mark(canvas, &|canvas, at| look::aggregator(canvas, at, 5.0, NODE_FILL, ""), "aggregator");
        mark(canvas, &|canvas, at| canvas.diamond(at, 8.0, IO_NODE, ""), "I/O node");
        self.scale(canvas, y);
    }

    /// The colours of loads, from the right.
    fn scale(&self, canvas: &mut dyn Canvas, y: f64) {
        const STEPS: i32 = 50;
        const WIDE: f64 = 200.0;
        let x = WIDTH - MARGIN - WIDE - 30.0;
        let caption = "bytes over a link:";
        canvas.text((x - 10.0, y + 10.0), Label::END, caption);
        let step = WIDE / f64::from(STEPS);
        for index in 0..STEPS {
            let place = Place { x: x + f64::from(index) * step, y: y - 1.0, width: step, height: 12.0 };
            canvas.rectangle(place, amount((f64::from(index) + 0.5) / f64::from(STEPS)), "");
        }
        for part in [0.0, 0.5, 1.0] {
            let text = bytes(self.look.most as f64 * part);
            canvas.text((x + part * WIDE, y + 26.0), Label::MIDDLE, &text);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use forebay_aggregate::{Strategy, plan};
    use serde_json::{Value, json};

    use super::*;
    use crate::commands::picture::checked::texts;

    #[test]
    fn words_stay_whole_on_lines() {
        assert_eq!(wrapped("one two three", 80.0), ["one two", "three"]);
        assert_eq!(wrapped("aaaaaaaaaaaaaaaaaaaa b", 10.0), ["aaaaaaaaaaaaaaaaaaaa", "b"]);
    }

    /// The texts of the picture of a network, of which the job has so many nodes, with an I/O node at either end.
    fn drawn(topology: &Value, nodes: usize, last: usize) -> Vec<String> {
        let io_node = |node: usize| json!({"node": node, "bytes_per_s": 1e9, "serves": "any"});
        let case = json!({
            "topology": topology, "link_bytes_per_s": 1e9, "link_latency_s": 1e-6, "nodes": nodes, "aggregators": nodes.min(8),
            "io_nodes": [io_node(0), io_node(last)], "ranks": {"per_node": 1, "bytes": 1 << 20}, "stripe_bytes": 65536,
        });
        let case = Case::new(serde_json::from_value(case).unwrap()).unwrap();
        let plans: Vec<Plan> =
            [Strategy::First, Strategy::Romio, Strategy::Nearest].map(|one| plan(&case, one).unwrap()).to_vec();
        let look = Look::new(&case, &plans[0]);
        texts(&Picture::new(&case, &look, (&plans[0], &plans), "Best: first, since it is a test."))
    }

    /// All sizes: captions are whole and beside each other, and a summary says so.
    #[test]
    fn every_network_is_drawn_and_a_large_one_summarised() {
        let fat = |down: [usize; 3]| json!({"fat_tree": {"levels": down.map(|down| json!({"down": down, "up": 2}))}});
        let pairs = |nodes: usize| json!({"matrix": {"latency_s": vec![vec![1e-6; nodes]; nodes], "bytes_per_s": vec![vec![1e9; nodes]; nodes]}});
        let hosts = |hosts: &str| json!({"host_names": {"pattern": "r#/n#", "hosts": hosts, "oversubscription": 2}});
        let dragonfly =
            |groups: usize, routers: usize| json!({"dragonfly": {"groups": groups, "routers": routers, "nodes": 2}});
        for (topology, nodes, places, words) in [
            (json!({"torus": [8]}), 8, 8, "a ring"),
            (json!({"torus": [300]}), 256, 300, "place outside the job"),
            (json!({"torus": [4, 4, 2]}), 32, 32, "*,*,1"),
            (json!({"torus": [8, 8, 8, 4, 2]}), 4096, 4096, "slices of its first two dimensions"),
            (json!({"torus": [4, 4, 4, 4, 4]}), 512, 1024, "*,*,0,3,0"),
            (json!({"torus": [2, 2, 100]}), 64, 400, "of 100 slices the 64 with the busiest links are drawn"),
            (json!({"torus": [130, 70]}), 4096, 9100, "a square is 3 x 2 nodes"),
            (dragonfly(1, 4), 8, 8, "group 0"),
            (dragonfly(9, 4), 72, 72, "group 8"),
            (dragonfly(33, 16), 1000, 1056, "32"),
            (dragonfly(64, 4), 512, 512, "the 48 groups with the busiest global links"),
            (fat([4, 2, 1]), 8, 8, "a node is as dark as its own link"),
            (fat([16, 16, 16]), 4096, 4096, "a square is a switch with its nodes"),
            (fat([4, 8, 64]), 2048, 2048, "groups of switches with less busy links are left out"),
            (hosts("r[1-4]n[1-6]"), 24, 24, "switch"),
            (pairs(24), 24, 24, "23"),
            (pairs(200), 200, 200, "a cell is 3 x 3 nodes"),
        ] {
            let texts = drawn(&topology, nodes, places - 1);
            // A sentence may stand on two lines.
            assert!(texts.join(" ").contains(words), "{words}: {texts:?}");
            for caption in [
                "Plan \"first\"",
                "Best: first",
                "aggregator",
                "I/O node",
                "bytes over a link:",
                "I/O floor",
                "romio",
                "seconds",
            ] {
                assert!(texts.iter().any(|text| text.contains(caption)), "{caption}: {texts:?}");
            }
        }
    }
}
