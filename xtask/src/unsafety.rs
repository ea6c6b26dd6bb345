//! `unsafe` stands only in the crates that talk to the kernel or to C, and each use says why it is sound.

use crate::finding::Finding;
use crate::source::Source;
use crate::tree::Tree;

/// Crates that may hold `unsafe`: they pass raw memory to the kernel or across the C ABI, or stand in the kernel's place.
const ALLOWED: [&str; 5] = ["fuse", "transport", "store", "mpiio", "burst"];

/// Lines of one statement that may stand between the safety comment and the word `unsafe`.
const STATEMENT_LINES_MAX: usize = 6;

/// Uses of `unsafe` in other crates, and uses that do not say why they are sound.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    for (file, source) in tree.rust() {
        let allowed = file.krate().is_some_and(|krate| ALLOWED.contains(&krate));
        let uses = source.words().filter(|&(_, word)| word == "unsafe").map(|(at, _)| source.line_of(at));
        for line in uses {
            if !allowed {
                let message = format!("`unsafe` is only for crates {}; use a safe interface", ALLOWED.join(", "));
                findings.push(Finding::new(&file.path, line, message));
            } else if !is_justified(&file.text, source, line) {
                findings.push(Finding::new(&file.path, line, "`unsafe` without a `// SAFETY:` comment above it"));
            }
        }
    }
    findings
}

/// Whether a safety comment stands on the line or in the block of comments above the statement it is part of.
fn is_justified(text: &str, source: &Source, line: usize) -> bool {
    let text: Vec<&str> = text.lines().collect();
    let comments: Vec<&str> = source.comments.lines().collect();
    let says_why = |index: usize| comments[index].contains("SAFETY:") || comments[index].contains("# Safety");
    let mut index = line - 1;
    if says_why(index) {
        return true;
    }
    let mut statement_lines = 0;
    while index > 0 {
        index -= 1;
        let above = text[index].trim();
        if above.starts_with("//") {
            if says_why(index) {
                return true;
            }
        } else if !above.starts_with("#[") {
            statement_lines += 1;
            if statement_lines > STATEMENT_LINES_MAX || above.is_empty() || above.ends_with([';', '}', '{']) {
                return false;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::made_of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn only_where_allowed() {
        let text = "fn f() {\n    // SAFETY: sound.\n    unsafe { g() }\n}\n";
        assert!(lines("crates/io/fuse/src/a.rs", text).is_empty());
        assert_eq!(lines("crates/core/cache/src/a.rs", text), [3]);
        assert_eq!(lines("tests/semantics/a.rs", text), [3]);
    }

    #[test]
    fn only_with_a_reason() {
        let text = "fn f() {\n    unsafe { g() }\n}\n// SAFETY: of h.\nfn h() {\n    unsafe { g() }\n}\n";
        assert_eq!(lines("crates/io/store/src/a.rs", text), [2, 6]);
    }

    #[test]
    fn reason_stands_above_the_statement() {
        let text = "    // SAFETY: the buffer outlives the call,\n    // as it is owned here.\n    #[allow(x)]\n    \
                    let a = call(\n        b,\n        unsafe { c() },\n    );\n";
        assert!(lines("crates/io/transport/src/a.rs", text).is_empty());
        let text = "    /// Reads.\n    /// # Safety\n    /// Sound if aligned.\n    pub unsafe fn f() {}\n";
        assert!(lines("crates/io/transport/src/a.rs", text).is_empty());
    }

    #[test]
    fn words_and_comments_are_not_uses() {
        assert!(lines("crates/core/cache/src/a.rs", "#![deny(unsafe_op_in_unsafe_fn)]\n// unsafe\n").is_empty());
    }
}
