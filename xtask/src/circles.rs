//! No two modules of a crate import each other in a circle.
//!
//! Modules in a circle can be read, tested and moved only together; one that imports only what stands below it can be
//! understood by itself. `modules` tells which text counts as an import. Two things count:
//!
//! - A circle of files. A parent and a child are files like any others: a child that takes something from its parent's
//!   file, while the parent takes something from the child, is in a circle with it. Shared items belong into a module
//!   of its own. A parent may use its children or serve them, or pass on what they define, as long as it is one of these.
//! - A circle of folders. A module with all that is below it must not import, by way of whatever file, a neighbour that
//!   imports it in the same way; nor may it do so with its parent's file.
//!
//! Circles that are known stand in `xtask/ratchet.toml`: for each crate how many of its modules are in one. As with
//! lengths, the number only shrinks.

use std::collections::{BTreeSet, VecDeque};

use crate::measure::{Measured, Measures};
use crate::modules::{Edges, Modules, roots};
use crate::tree::Tree;

/// How many modules of each crate are in circles, by the path of its root, and the shortest circle of each knot.
pub fn of_crates(tree: &Tree) -> Measures {
    roots(tree).map(|root| (root.path.clone(), of_crate(&Modules::of(tree, root)))).collect()
}

fn of_crate(modules: &Modules<'_>) -> Measured {
    let edges = modules.edges();
    let (mut within, mut shown) = (BTreeSet::new(), vec![]);
    for knot in knots(&edges) {
        shown.push(show(modules, &edges, &knot));
        within.extend(knot);
    }
    for parent in 0..edges.len() {
        let folded = folded(modules, &edges, parent);
        for knot in knots(&folded) {
            // Circles that the files themselves show are not reported twice.
            if !knot.iter().all(|module| within.contains(module)) {
                shown.push(format!("with what is below them, {}", show(modules, &folded, &knot)));
                within.extend(knot);
            }
        }
    }
    Measured { amount: within.len(), line: 1, advice: shown.join("; ") }
}

/// The imports between a module and its children, where each child stands for all that is below it.
fn folded(modules: &Modules<'_>, edges: &[Edges], parent: usize) -> Vec<Edges> {
    let stands_for = |module: usize| {
        let mut up = std::iter::successors(Some(module), |module| modules.0[*module].parent);
        up.find(|above| modules.0[*above].parent == Some(parent)).or((module == parent).then_some(parent))
    };
    let mut folded = vec![Edges::new(); edges.len()];
    for (from, edges) in edges.iter().enumerate() {
        for (to, line) in edges {
            if let (Some(from), Some(to)) = (stands_for(from), stands_for(*to))
                && from != to
            {
                folded[from].entry(to).or_insert(*line);
            }
        }
    }
    folded
}

/// The sets of modules each of which leads to every other.
fn knots(edges: &[Edges]) -> Vec<Vec<usize>> {
    let reached: Vec<Vec<bool>> = (0..edges.len()).map(|from| reached(edges, from)).collect();
    let mut knots: Vec<Vec<usize>> = vec![];
    for module in (0..edges.len()).filter(|module| reached[*module][*module]) {
        let same = |knot: &&mut Vec<usize>| reached[knot[0]][module] && reached[module][knot[0]];
        match knots.iter_mut().find(same) {
            Some(knot) => knot.push(module),
            None => knots.push(vec![module]),
        }
    }
    knots
}

/// The modules that one module reaches by one import or more.
fn reached(edges: &[Edges], from: usize) -> Vec<bool> {
    let mut reached = vec![false; edges.len()];
    let mut left = vec![from];
    while let Some(module) = left.pop() {
        for &next in edges[module].keys() {
            if !std::mem::replace(&mut reached[next], true) {
                left.push(next);
            }
        }
    }
    reached
}

/// The shortest circle of a knot, with the line of each import, and the size of the knot.
fn show(modules: &Modules<'_>, edges: &[Edges], knot: &[usize]) -> String {
    let shortest = knot.iter().filter_map(|module| circle(edges, *module)).min_by_key(Vec::len).unwrap_or_default();
    let mut text: Vec<String> = shortest
        .windows(2)
        .map(|pair| format!("{} (line {})", modules.0[pair[0]].path, edges[pair[0]][&pair[1]]))
        .collect();
    text.extend(shortest.last().map(|last| modules.0[*last].path.to_owned()));
    let names: Vec<&str> = knot.iter().map(|module| modules.0[*module].name.as_str()).collect();
    format!("{} [{}]", text.join(" -> "), names.join(", "))
}

/// The shortest way from a module back to itself.
fn circle(edges: &[Edges], module: usize) -> Option<Vec<usize>> {
    let mut ways = VecDeque::from([vec![module]]);
    let mut seen = vec![false; edges.len()];
    while let Some(way) = ways.pop_front() {
        for &next in edges[*way.last()?].keys() {
            let longer = [way.as_slice(), &[next]].concat();
            if next == module {
                return Some(longer);
            }
            if !std::mem::replace(&mut seen[next], true) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(usize, String)> {
        let measured = of_crates(&Tree::made_of(files)).into_values();
        measured.filter(|measured| measured.amount > 0).map(|measured| (measured.amount, measured.advice)).collect()
    }

    const CIRCLE: [(&str, &str); 4] = [
        ("x/src/lib.rs", "mod a;\nmod b;\nmod c;"),
        ("x/src/a.rs", "use crate::b::B;\nuse crate::c::C;\npub struct A;"),
        ("x/src/b.rs", "pub struct B;\nfn f(a: crate::a::A) {}"),
        ("x/src/c.rs", "pub struct C;"),
    ];

    #[test]
    fn modules_that_know_each_other_are_found() {
        let message = "x/src/a.rs (line 1) -> x/src/b.rs (line 2) -> x/src/a.rs [a, b]".to_owned();
        assert_eq!(found(&CIRCLE), [(2, message)]);
    }

    #[test]
    fn parents_and_children_are_like_others() {
        let child = ("x/src/a.rs", "use super::Shared;\npub fn f(_: Shared) {}");
        assert_eq!(found(&[("x/src/lib.rs", "mod a;\npub struct Shared;\npub use a::f;"), child]).len(), 1);
        assert!(found(&[("x/src/lib.rs", "mod a;\npub struct Shared;"), child]).is_empty());
    }

    #[test]
    fn one_way_is_no_circle() {
        let files = [
            ("x/src/main.rs", "mod a;\nmod b;\nfn main() { a::f(); b::g(); }"),
            ("x/src/a.rs", "use crate::b;\npub fn f() { b::g(); }"),
            ("x/src/b.rs", "pub fn g() {}"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn folders_in_a_circle_are_found() {
        let files = [
            ("x/src/lib.rs", "mod a;\nmod b;"),
            ("x/src/a/mod.rs", "mod up;\npub mod down;"),
            ("x/src/a/up.rs", "use crate::b::B;"),
            ("x/src/a/down.rs", "pub struct Down;"),
            ("x/src/b.rs", "use crate::a::down::Down;\npub struct B;"),
        ];
        let found = found(&files);
        assert_eq!(found.len(), 1);
        assert!(found[0].0 == 2 && found[0].1.ends_with("[a, b]"), "{found:?}");
    }
}
