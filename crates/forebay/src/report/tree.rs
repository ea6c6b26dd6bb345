//! The tree of a job's nodes as a drawing: roots above, below each node those that ask it first.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Nodes that are drawn at most; more would be dots.
const NODES_MAX: usize = 128;

/// Nodes of one level that are drawn at most.
const LEVEL_MAX: usize = 40;

/// Width of the drawing, and the height of a level.
const WIDTH: f64 = 720.0;
const LEVEL: f64 = 64.0;

/// The drawing as SVG; `None` for one node, and for more than can be told apart. `has_trouble` marks nodes.
pub fn svg(parents: &[(u64, Option<u64>)], has_trouble: &dyn Fn(u64) -> bool) -> Option<String> {
    if !(2..=NODES_MAX).contains(&parents.len()) {
        return None;
    }
    let levels = levels(parents);
    let widest = levels.iter().map(Vec::len).max().filter(|widest| *widest <= LEVEL_MAX)?;
    let radius = (WIDTH / widest as f64 / 2.6).min(16.0);
    let mut places = BTreeMap::new();
    for (depth, level) in levels.iter().enumerate() {
        for (index, rank) in level.iter().enumerate() {
            let x = WIDTH * (index as f64 + 0.5) / level.len() as f64;
            places.insert(*rank, (x, LEVEL * (depth as f64 + 0.5)));
        }
    }
    let height = LEVEL * levels.len() as f64;
    let mut svg = format!(
        "<svg role=\"img\" aria-labelledby=\"tree-title\" viewBox=\"0 0 {WIDTH} {height}\">\
         <title id=\"tree-title\">Tree of {} nodes in {} levels, roots above</title>",
        parents.len(),
        levels.len()
    );
    for (rank, parent) in parents {
        if let (Some((x, y)), Some((to_x, to_y))) = (places.get(rank), parent.and_then(|parent| places.get(&parent))) {
            write!(svg, "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\"/>").ok();
        }
    }
    for (rank, (x, y)) in &places {
        let class = if has_trouble(*rank) { " class=\"bad\"" } else { "" };
        let (size, base) = ((radius * 0.9).min(12.0), y + radius * 0.3);
        write!(
            svg,
            "<g{class}><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/>\
             <text x=\"{x:.1}\" y=\"{base:.1}\" font-size=\"{size:.1}\">{rank}</text></g>"
        )
        .ok();
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// Nodes by their distance from a root, children in the order of their parents. A node whose parent is not there stands
/// with the roots, and so does the first of a ring, which a status could have by mistake.
fn levels(parents: &[(u64, Option<u64>)]) -> Vec<Vec<u64>> {
    let known: BTreeMap<u64, Option<u64>> = parents.iter().copied().collect();
    let is_top = |rank: u64| known[&rank].is_none_or(|parent| parent == rank || !known.contains_key(&parent));
    let mut rest: Vec<u64> = known.keys().copied().collect();
    let mut levels = vec![];
    let mut level: Vec<u64> = rest.iter().copied().filter(|rank| is_top(*rank)).collect();
    while !rest.is_empty() {
        if level.is_empty() {
            level = vec![rest[0]];
        }
        rest.retain(|rank| !level.contains(rank));
        let below = level.iter().flat_map(|parent| rest.iter().filter(|rank| known[*rank] == Some(*parent)));
        let next = below.copied().collect();
        levels.push(std::mem::replace(&mut level, next));
    }
    levels
}
