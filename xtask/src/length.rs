//! How long files and functions are. The `ratchet` holds the limits.

use crate::measure::{Measured, Measures};
use crate::source::Source;
use crate::tree::{File, Tree};

/// Lines a file may have, tests not counted. Nine in ten files of the code bases we learn from are below it.
pub const FILE_LINES_MAX: usize = 500;

/// Lines a function may have. More than one screen is more than one thought.
pub const FUNCTION_LINES_MAX: usize = 60;

/// Lines of files, tests not counted.
pub fn of_files(tree: &Tree) -> Measures {
    let product = tree.rust().filter(|(file, _)| !file.is_test());
    let measure = |source: &Source| Measured {
        amount: source.product_lines(),
        line: 1,
        advice: "split it by concern".to_owned(),
    };
    product.map(|(file, source)| (file.path.clone(), measure(source))).collect()
}

/// Lines of functions, by path and name; of functions with one name in a file the longest counts.
pub fn of_functions(tree: &Tree) -> Measures {
    let mut lengths = Measures::new();
    for (File { path, .. }, source) in tree.rust() {
        for function in source.functions() {
            let longest = lengths.entry(format!("{path}::{}", function.name)).or_default();
            if function.lines > longest.amount {
                let advice = "name its steps".to_owned();
                *longest = Measured { amount: function.lines, line: function.line, advice };
            }
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count_for_files() {
        let long = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(600));
        let tree = Tree::made_of(&[("crates/a/src/a.rs", &long), ("tests/semantics/b.rs", &"\n".repeat(600))]);
        assert!(of_files(&tree).values().all(|measured| measured.amount == 0));
    }
}
