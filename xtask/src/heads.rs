//! Every Rust file opens with `//!`: a few sentences on what the module decides, what it never does, and why.

use crate::finding::Finding;
use crate::tree::Tree;

/// Files that do not open with module documentation. Test modules beside their code need none: the code has it.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let headless = |text: &str| {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("#!["));
        !lines.next().is_some_and(|line| line.starts_with("//!") && line.len() > "//! ".len())
    };
    let files = tree.rust().filter(|(file, _)| !file.is_test_module() && headless(&file.text));
    let message = "opens without `//!`: say what the module decides, what it never does, and why";
    files.map(|(file, _)| Finding::new(&file.path, 1, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wants_a_head() {
        let tree = Tree::made_of(&[
            ("crates/a/src/good.rs", "//! Why.\nfn f() {}\n"),
            ("fuzz/fuzz_targets/good.rs", "#![no_main]\n//! Why.\n"),
            ("crates/a/src/tests.rs", "use super::*;\n"),
            ("crates/a/src/start_tests.rs", "use super::*;\n"),
            ("crates/a/src/bad.rs", "// Why.\nfn f() {}\n"),
            ("crates/a/src/empty.rs", ""),
            ("crates/a/src/blank.rs", "//!\nfn f() {}\n"),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["crates/a/src/bad.rs", "crates/a/src/empty.rs", "crates/a/src/blank.rs"]);
    }
}
