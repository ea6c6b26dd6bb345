//! Tests that docs/testing.md names exist: a promise whose test was renamed or removed would be one without a test.

use crate::finding::Finding;
use crate::source::words;
use crate::tree::Tree;

/// The document that says which test fails if a promise is broken.
const LIST: &str = "docs/testing.md";

/// Tests that are named there, and are not where it says. A macro may make a test, so that its name counts wherever it stands.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.get(LIST) else { return vec![] };
    let mut findings = vec![];
    for (index, line) in list.text.lines().enumerate() {
        for (path, name) in named(line) {
            let why = match tree.get(path) {
                None => format!("there is no {path}"),
                Some(file) if name.is_some_and(|name| !words(&file.text).any(|(_, word)| word == name)) => {
                    format!("{path} has no test {}", name.unwrap_or_default())
                }
                Some(_) => continue,
            };
            findings.push(Finding::new(LIST, index + 1, why));
        }
    }
    findings
}

/// The names `FILE.rs` and `FILE.rs::FUNCTION` in a line.
fn named(line: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let code = line.split('`').skip(1).step_by(2).filter(|code| !code.contains([' ', '{', '*']));
    let parts = code.map(|code| code.split_once("::").map_or((code, None), |(path, name)| (path, Some(name))));
    parts.filter(|(path, _)| path.ends_with(".rs") && path.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(list: &str) -> Vec<String> {
        let test = ("tests/semantics/whole.rs", "#[test]\nfn it_holds() {}\nmade!(by_a_macro);\n");
        check(&Tree::made_of(&[(LIST, list), test])).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn tests_that_are_there_are_in_order() {
        let known = "| a | `tests/semantics/whole.rs::it_holds`, `tests/semantics/whole.rs` |\n\
                     `tests/semantics/whole.rs::by_a_macro` and `cargo xtask test --test semantics refresh`\n";
        assert_eq!(messages(known), [] as [String; 0]);
    }

    #[test]
    fn tests_that_are_not_are_named() {
        let gone = "`tests/semantics/whole.rs::it_hold` `tests/gone.rs::it_holds`";
        assert_eq!(messages(gone), ["tests/semantics/whole.rs has no test it_hold", "there is no tests/gone.rs"]);
    }
}
