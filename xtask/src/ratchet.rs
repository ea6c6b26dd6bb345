//! Files and functions stay short, modules out of circles, sentences short and about nouns, and the exceptions only become fewer.
//!
//! An exception is listed in `xtask/ratchet.toml` with its measured amount. A larger one fails, and so does a smaller
//! one until the list is tightened: what was won is not lost again. No code here raises a number or adds one;
//! an author who must edits the file, and a reviewer sees it.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::measure::Measures;
use crate::tree::{RATCHET, Tree, root};
use crate::{circles, length, prose, sentences};

/// Exceptions: the allowed amounts by what is measured.
type Allowed = BTreeMap<String, usize>;

/// A list of exceptions from one limit.
struct List {
    name: &'static str,
    /// The largest amount that need not be listed.
    max: usize,
    unit: &'static str,
    measure: fn(&Tree) -> Measures,
}

const LISTS: [List; 5] = [
    List { name: "files", max: length::FILE_LINES_MAX, unit: "lines", measure: length::of_files },
    List { name: "functions", max: length::FUNCTION_LINES_MAX, unit: "lines", measure: length::of_functions },
    List { name: "circles", max: 0, unit: "modules that import each other in circles", measure: circles::of_crates },
    List { name: "sentences", max: 0, unit: "sentences whose subject is no noun", measure: prose::without_nouns },
    List { name: "long_sentences", max: 0, unit: "long sentences", measure: sentences::long },
];

const HEAD: &str =
    "# Files over 500 lines (tests not counted), functions over 60, crates with circles among their modules, sentences that begin
# with `What`, `Who`, `Nobody` and the like, and long sentences of the pages for users, with the length or number that those may have.
# `cargo xtask tidy` fails when one grows and when one has shrunk; `cargo xtask tidy --tighten` lowers the numbers.
# Nothing adds an entry by itself: an entry needs a reason that convinces a reviewer.
";

/// Amounts over their limit or not in step with the list of exceptions.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let listed = match parse(&tree.ratchet) {
        Ok(listed) => listed,
        Err(error) => return vec![Finding::new(RATCHET, 1, error)],
    };
    let of_list = |(list, allowed): (&List, &Allowed)| against(list, &(list.measure)(tree), allowed);
    LISTS.iter().zip(&listed).flat_map(of_list).collect()
}

/// Lowers the listed amounts to the measured ones and drops those that need no exception any more.
pub fn tighten(tree: &Tree) -> Result<(), String> {
    let listed = parse(&tree.ratchet)?.into_iter().zip(&LISTS);
    let lower: Vec<Allowed> =
        listed.map(|(allowed, list)| tightened(&(list.measure)(tree), allowed, list.max)).collect();
    std::fs::write(root().join(RATCHET), render(&lower))
        .map_err(|error| format!("{RATCHET} cannot be written: {error}"))
}

fn against(list: &List, measured: &Measures, listed: &Allowed) -> Vec<Finding> {
    let mut findings = vec![];
    for (what, measured) in measured {
        let amount = measured.amount;
        let allowed = listed.get(what).copied().unwrap_or(list.max);
        if amount > list.max && amount > allowed {
            let path = what.split("::").next().unwrap_or(what);
            let message = format!("{what} has {amount} {}, {allowed} allowed; {}", list.unit, measured.advice);
            findings.push(Finding::new(path, measured.line, message));
        }
    }
    for (what, &allowed) in listed {
        let amount = measured.get(what).map_or(0, |measured| measured.amount);
        if amount < allowed {
            let message = format!("{what} is down to {amount} {}: run `cargo xtask tidy --tighten`", list.unit);
            findings.push(Finding::new(RATCHET, 1, message));
        }
    }
    findings
}

fn tightened(measured: &Measures, listed: Allowed, max: usize) -> Allowed {
    let lower = |(what, allowed): (String, usize)| {
        let amount = measured.get(&what).map_or(0, |measured| measured.amount).min(allowed);
        (amount > max).then_some((what, amount))
    };
    listed.into_iter().filter_map(lower).collect()
}

/// The exceptions of each list, in the order of the lists.
fn parse(text: &str) -> Result<Vec<Allowed>, String> {
    let mut table: BTreeMap<String, Allowed> =
        text.parse::<toml::Table>().and_then(toml::Table::try_into).map_err(|error| error.to_string())?;
    let listed = LISTS.iter().map(|list| table.remove(list.name).unwrap_or_default()).collect();
    match table.keys().next() {
        Some(unknown) => {
            let known: Vec<String> = LISTS.iter().map(|list| format!("`{}`", list.name)).collect();
            Err(format!("`{unknown}` is no list; there are {}", known.join(", ")))
        }
        None => Ok(listed),
    }
}

fn render(listed: &[Allowed]) -> String {
    let list = |(list, allowed): (&List, &Allowed)| {
        let lines: String = allowed.iter().map(|(what, amount)| format!("\"{what}\" = {amount}\n")).collect();
        format!("\n[{}]\n{lines}", list.name)
    };
    let lists: String = LISTS.iter().zip(listed).map(list).collect();
    format!("{HEAD}{lists}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(file_lines: usize, function_lines: usize, ratchet: &str) -> Tree {
        let body = "    x();\n".repeat(function_lines.saturating_sub(2));
        let function = format!("//! X.\nfn long() {{\n{body}}}\n");
        let mut tree =
            Tree::made_of(&[("crates/a/src/f.rs", &function), ("crates/a/src/l.rs", &"\n".repeat(file_lines))]);
        tree.ratchet = ratchet.to_owned();
        tree
    }

    fn messages(tree: &Tree) -> Vec<String> {
        check(tree).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn holds_the_limits() {
        assert!(messages(&tree(500, 60, "")).is_empty());
        let found = messages(&tree(501, 61, ""));
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("l.rs has 501 lines, 500 allowed"), "{found:?}");
        assert!(found[1].contains("f.rs::long has 61 lines, 60 allowed"), "{found:?}");
    }

    #[test]
    fn exceptions_may_not_grow() {
        let ratchet = "[files]\n\"crates/a/src/l.rs\" = 510\n[functions]\n\"crates/a/src/f.rs::long\" = 70\n";
        assert!(messages(&tree(510, 70, ratchet)).is_empty());
        assert_eq!(messages(&tree(511, 71, ratchet)).len(), 2);
    }

    #[test]
    fn exceptions_must_shrink_with_what_they_allow() {
        let ratchet = "[files]\n\"crates/a/src/l.rs\" = 510\n[functions]\n\"crates/a/src/gone.rs::f\" = 70\n";
        let tree = tree(505, 60, ratchet);
        assert_eq!(messages(&tree).len(), 2, "one shrank, one is gone");
        let mut listed = parse(ratchet).unwrap();
        for (allowed, list) in listed.iter_mut().zip(&LISTS) {
            *allowed = tightened(&(list.measure)(&tree), std::mem::take(allowed), list.max);
        }
        let files = Allowed::from([("crates/a/src/l.rs".to_owned(), 505)]);
        assert_eq!(listed, [files, Allowed::new(), Allowed::new(), Allowed::new(), Allowed::new()]);
        assert_eq!(parse(&render(&listed)).unwrap(), listed);
    }

    #[test]
    fn tightening_never_raises() {
        let listed = Allowed::from([("crates/a/src/l.rs".to_owned(), 501)]);
        assert_eq!(tightened(&length::of_files(&tree(900, 1, "")), listed.clone(), 500), listed);
    }

    #[test]
    fn circles_are_held_like_lengths() {
        let files = [
            ("x/src/lib.rs", "mod a;\nmod b;"),
            ("x/src/a.rs", "use crate::b::B;\npub struct A;"),
            ("x/src/b.rs", "use crate::a::A;\npub struct B;"),
        ];
        let with = |ratchet: &str| messages(&Tree { ratchet: ratchet.to_owned(), ..Tree::made_of(&files) });
        assert!(with("[circles]\n\"x/src/lib.rs\" = 2").is_empty());
        assert!(with("")[0].starts_with("x/src/lib.rs has 2 modules that import each other in circles, 0 allowed; "));
        assert_eq!(with("[circles]\n\"x/src/lib.rs\" = 3").len(), 1);
    }

    #[test]
    fn broken_list_is_a_finding() {
        assert_eq!(messages(&tree(1, 1, "[file]\n")).len(), 1);
        assert_eq!(messages(&tree(1, 1, "[files\n")).len(), 1);
    }
}
