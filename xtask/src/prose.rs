//! Sentences of comments and documents whose subject is no noun. How many there may be is held by the `ratchet`.
//!
//! A sentence that begins with one of `SUBJECTS` makes its reader wait for the thing that it is about. Headings and questions may.

use crate::measure::{Measured, Measures};
use crate::tree::{File, Tree};

/// Words that begin such a sentence.
const SUBJECTS: [&str; 7] = ["What", "Who", "Whoever", "Somebody", "Nobody", "Everybody", "Nothing"];

/// Characters before a word that is quoted, or the title of a link.
const QUOTES: [char; 5] = ['[', '"', '`', '\'', '('];

/// Such sentences by crate, folder or file of the root.
pub fn without_nouns(tree: &Tree) -> Measures {
    let mut measures = Measures::new();
    for file in &tree.files {
        let lines = prose(file);
        let amount: usize = lines.iter().map(|line| sentences(line)).sum();
        if amount > 0 {
            let advice = "begin each sentence with the noun that it is about".to_owned();
            let line = lines.iter().position(|line| sentences(line) > 0).map_or(1, |index| index + 1);
            let measured = measures.entry(place(file)).or_insert(Measured { amount: 0, line, advice });
            measured.amount += amount;
        }
    }
    measures
}

/// The crate, the first folder, or the file.
fn place(file: &File) -> String {
    let mut parts = file.path.split('/');
    let count = match (file.krate(), file.group()) {
        (Some(_), Some(_)) => 3,
        (Some(_), None) => 2,
        (None, _) => 1,
    };
    parts.by_ref().take(count).collect::<Vec<_>>().join("/")
}

/// The lines of a file that people read: comments of Rust, and documents without headings and code.
fn prose(file: &File) -> Vec<&str> {
    match &file.source {
        Some(source) => source.comments.lines().collect(),
        None if file.path.ends_with(".md") => {
            let mut is_code = false;
            let of_document = |line| {
                let is_fence = str::starts_with(line, "```");
                is_code ^= is_fence;
                if is_code || is_fence || line.starts_with('#') { "" } else { line }
            };
            file.text.lines().map(of_document).collect()
        }
        None => vec![],
    }
}

/// Sentences of a line that begin so. A capital letter begins a sentence.
fn sentences(line: &str) -> usize {
    let is_such = |word: &str| SUBJECTS.contains(&word);
    let words = line.split(|c: char| c.is_whitespace() || "|*".contains(c));
    words.filter(|word| !word.starts_with(QUOTES) && is_such(word.trim_end_matches([',', ':', '.']))).count()
        - usize::from(line.trim_end().ends_with('?') && line.split_whitespace().any(is_such))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        without_nouns(&Tree::made_of(&[(path, text)])).values().map(|measured| measured.amount).sum()
    }

    #[test]
    fn sentences_of_comments_count_and_code_does_not() {
        let text =
            "/// What is there. Nobody knows.\nfn f() { let Nothing = \"What is there.\"; }\n// `What` for, or what.\n";
        assert_eq!(count("crates/a/src/a.rs", text), 2);
    }

    #[test]
    fn headings_and_questions_and_code_of_documents_do_not_count() {
        let text = "# What is there\nWho is it?\n```\nNobody\n```\n[What a program sees](x.md)\n| a | Whoever |\n";
        assert_eq!(count("docs/a.md", text), 1);
    }

    #[test]
    fn crates_folders_and_files_are_counted_apart() {
        let text = "// What.\n";
        let paths = ["crates/core/a/src/a.rs", "crates/core/a/tests/a.rs", "crates/b/src/b.rs", "benches/c.rs", "X.md"];
        let files = paths.map(|path| (path, if path.ends_with("md") { "What." } else { text }));
        let measures = without_nouns(&Tree::made_of(&files));
        let amounts: Vec<(&str, usize)> = measures.iter().map(|(place, found)| (&**place, found.amount)).collect();
        assert_eq!(amounts, [("X.md", 1), ("benches", 1), ("crates/b", 1), ("crates/core/a", 2)]);
    }
}
