//! Files and functions stay short, and the exceptions only become fewer.
//!
//! An exception is listed in `xtask/ratchet.toml` with its measured length. A longer one fails, and so does a shorter
//! one until the list is tightened: what was won is not lost again. Nothing here ever raises a number or adds one;
//! whoever must, edits the file, and a reviewer sees it.

use std::collections::BTreeMap;

use crate::Finding;
use crate::source::Source;
use crate::tree::{File, RATCHET, Tree, root};

/// Lines a file may have, tests not counted. Nine in ten files of the code bases we learn from are below it.
const FILE_LINES_MAX: usize = 500;

/// Lines a function may have. More than one screen is more than one thought.
const FUNCTION_LINES_MAX: usize = 60;

/// Lengths by path, or by path and function name.
type Lengths = BTreeMap<String, usize>;

/// A measured length and where the measured thing begins.
#[derive(Clone, Copy, Default)]
struct Measured {
    lines: usize,
    line: usize,
}

type Measures = BTreeMap<String, Measured>;

const RATCHET_HEAD: &str =
    "# Files over 500 lines (tests not counted) and functions over 60, with the length they may have.
# `cargo xtask tidy` fails when one grows and when one has shrunk; `cargo xtask tidy --tighten` lowers the numbers.
# Nothing adds an entry by itself: an entry needs a reason that convinces a reviewer.
";

/// Lengths over their limit or not in step with the list of exceptions.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let (files, functions) = match parse(&tree.ratchet) {
        Ok(listed) => listed,
        Err(error) => return vec![Finding::new(RATCHET, 1, error)],
    };
    let mut findings = against(&file_lengths(tree), &files, FILE_LINES_MAX, "split it by concern");
    findings.extend(against(&function_lengths(tree), &functions, FUNCTION_LINES_MAX, "name its steps"));
    findings
}

/// Lowers the listed lengths to the measured ones and drops those that need no exception any more.
pub fn tighten(tree: &Tree) -> Result<(), String> {
    let (files, functions) = parse(&tree.ratchet)?;
    let text = render(
        &tightened(&file_lengths(tree), files, FILE_LINES_MAX),
        &tightened(&function_lengths(tree), functions, FUNCTION_LINES_MAX),
    );
    std::fs::write(root().join(RATCHET), text).map_err(|error| format!("{RATCHET} cannot be written: {error}"))
}

fn against(measured: &Measures, listed: &Lengths, max: usize, advice: &str) -> Vec<Finding> {
    let mut findings = vec![];
    for (what, &Measured { lines, line }) in measured {
        let allowed = listed.get(what).copied().unwrap_or(max);
        if lines > max && lines > allowed {
            let path = what.split("::").next().unwrap_or(what);
            findings.push(Finding::new(path, line, format!("{what} has {lines} lines, {allowed} allowed; {advice}")));
        }
    }
    for (what, &allowed) in listed {
        let lines = measured.get(what).map_or(0, |measured| measured.lines);
        if lines < allowed {
            let message = format!("{what} is down to {lines} lines: run `cargo xtask tidy --tighten`");
            findings.push(Finding::new(RATCHET, 1, message));
        }
    }
    findings
}

fn tightened(measured: &Measures, listed: Lengths, max: usize) -> Lengths {
    let lower = |(what, allowed): (String, usize)| {
        let lines = measured.get(&what).map_or(0, |measured| measured.lines).min(allowed);
        (lines > max).then_some((what, lines))
    };
    listed.into_iter().filter_map(lower).collect()
}

fn file_lengths(tree: &Tree) -> Measures {
    let product = tree.rust().filter(|(file, _)| !file.is_test());
    let measure = |source: &Source| Measured { lines: source.product_lines(), line: 1 };
    product.map(|(file, source)| (file.path.clone(), measure(source))).collect()
}

/// By path and name; of functions with one name in a file the longest counts.
fn function_lengths(tree: &Tree) -> Measures {
    let mut lengths = Measures::new();
    for (File { path, .. }, source) in tree.rust() {
        for function in source.functions() {
            let longest = lengths.entry(format!("{path}::{}", function.name)).or_default();
            if function.lines > longest.lines {
                *longest = Measured { lines: function.lines, line: function.line };
            }
        }
    }
    lengths
}

fn parse(text: &str) -> Result<(Lengths, Lengths), String> {
    let table: BTreeMap<String, Lengths> =
        text.parse::<toml::Table>().and_then(toml::Table::try_into).map_err(|error| error.to_string())?;
    if let Some(unknown) = table.keys().find(|key| *key != "files" && *key != "functions") {
        return Err(format!("`{unknown}` is no list; there are `files` and `functions`"));
    }
    let list = |name: &str| table.get(name).cloned().unwrap_or_default();
    Ok((list("files"), list("functions")))
}

fn render(files: &Lengths, functions: &Lengths) -> String {
    let list = |name: &str, lengths: &Lengths| {
        let lines: String = lengths.iter().map(|(what, lines)| format!("\"{what}\" = {lines}\n")).collect();
        format!("\n[{name}]\n{lines}")
    };
    format!("{RATCHET_HEAD}{}{}", list("files", files), list("functions", functions))
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
        let (files, functions) = parse(ratchet).unwrap();
        let files = tightened(&file_lengths(&tree), files, FILE_LINES_MAX);
        assert_eq!(files, Lengths::from([("crates/a/src/l.rs".to_owned(), 505)]));
        let functions = tightened(&function_lengths(&tree), functions, FUNCTION_LINES_MAX);
        assert!(functions.is_empty());
        assert_eq!(parse(&render(&files, &functions)).unwrap(), (files, functions));
    }

    #[test]
    fn tightening_never_raises() {
        let listed = Lengths::from([("crates/a/src/l.rs".to_owned(), 501)]);
        assert_eq!(tightened(&file_lengths(&tree(900, 1, "")), listed.clone(), FILE_LINES_MAX), listed);
    }

    #[test]
    fn tests_do_not_count_for_files() {
        let long = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(600));
        let tree = Tree::made_of(&[("crates/a/src/a.rs", &long), ("tests/semantics/b.rs", &"\n".repeat(600))]);
        assert!(messages(&tree).is_empty());
    }

    #[test]
    fn broken_list_is_a_finding() {
        assert_eq!(messages(&tree(1, 1, "[file]\n")).len(), 1);
        assert_eq!(messages(&tree(1, 1, "[files\n")).len(), 1);
    }
}
