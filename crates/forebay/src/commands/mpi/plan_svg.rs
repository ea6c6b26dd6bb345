//! Placements as SVG: a panel a strategy, a square a node, dark where a node aggregates.
//!
//! Squares stand in the order of the nodes, rows as long as the first dimensions of the network that make about a square.
//! A node's colour is that of its I/O node, so that one sees at once whether the aggregators are spread over all of them.

use std::fmt::Write;

use forebay_aggregate::{Case, Plan};

/// Colours that are told apart in print and by most eyes (Okabe and Ito), light.
const COLOURS: [&str; 7] = ["#9ecae9", "#f5b58a", "#8fd6c0", "#e8bfd6", "#f3d27f", "#b5b5e5", "#cccccc"];

/// The longest side of a panel of squares.
const PANEL: f64 = 320.0;

/// The height of the text above the squares of a panel.
const HEAD: f64 = 40.0;

/// Panels beside each other.
const ACROSS: usize = 3;

const GAP: f64 = 20.0;

/// Appends a line of SVG. Writing into a string cannot fail.
macro_rules! element {
    ($text:expr, $($argument:tt)*) => {
        let _ = writeln!($text, $($argument)*);
    };
}

/// The plot of some plans of a case.
pub fn svg(case: &Case, plans: &[Plan]) -> String {
    let nodes = case.node_count();
    let row = (nodes as f64).sqrt().ceil() as usize;
    let row = row.next_power_of_two().min(nodes.max(1));
    let side = (PANEL / row as f64).min(24.0);
    let (width, height) = (row as f64 * side + GAP, nodes.div_ceil(row) as f64 * side + HEAD + GAP);
    let across = plans.len().clamp(1, ACROSS);
    let mut text = String::new();
    let (all_width, all_height) =
        (width.max(200.0) * across as f64 + GAP, height * plans.len().div_ceil(across) as f64 + GAP);
    element!(
        text,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {all_width:.0} {all_height:.0}" font-family="sans-serif" font-size="12">"#
    );
    element!(text, r#"<rect width="{all_width:.0}" height="{all_height:.0}" fill="white"/>"#);
    for (number, plan) in plans.iter().enumerate() {
        let x = GAP + (number % across) as f64 * width.max(200.0);
        let y = GAP + (number / across) as f64 * height;
        element!(text, r#"<g transform="translate({x:.1} {y:.1})">"#);
        panel(&mut text, case, plan, row, side);
        element!(text, "</g>");
    }
    text.push_str("</svg>\n");
    text
}

fn panel(text: &mut String, case: &Case, plan: &Plan, row: usize, side: f64) {
    element!(text, r#"<text y="10" font-size="14">{}</text>"#, plan.strategy.name());
    element!(
        text,
        r##"<text y="26" fill="#555">{:.4} s, {} aggregators, {} rounds</text>"##,
        plan.predicted.total_s,
        plan.aggregators.len(),
        plan.rounds
    );
    let corner = |node: usize| ((node % row) as f64 * side, HEAD + (node / row) as f64 * side);
    for node in 0..case.node_count() {
        let (x, y) = corner(node);
        let fill = case.io_of_node(node).map_or("white", |io| COLOURS[io % COLOURS.len()]);
        element!(
            text,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}" fill="{fill}"/>"#,
            side * 0.9,
            side * 0.9
        );
    }
    for aggregator in &plan.aggregators {
        let (x, y) = corner(aggregator.node);
        let (inset, size) = (side * 0.15, side * 0.6);
        element!(
            text,
            r##"<rect x="{:.1}" y="{:.1}" width="{size:.1}" height="{size:.1}" fill="#222"><title>rank {} on node {}</title></rect>"##,
            x + inset,
            y + inset,
            aggregator.rank,
            aggregator.node
        );
    }
    for io in case.io_nodes().iter().filter(|io| io.node < case.node_count()) {
        let (x, y) = corner(io.node);
        let (side, radius) = (side * 0.9, side * 0.45);
        element!(
            text,
            r##"<circle cx="{:.1}" cy="{:.1}" r="{radius:.1}" fill="none" stroke="#d00" stroke-width="{:.1}"/>"##,
            x + side / 2.0,
            y + side / 2.0,
            side * 0.12
        );
    }
}
