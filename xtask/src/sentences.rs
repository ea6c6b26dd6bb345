//! Sentences of the pages for users and staff that are too long to be read at once. How many a page may have is held by the
//! `ratchet`.
//!
//! Headings, tables and code are left out. The list of promises and the decisions are for developers, and not counted.

use crate::measure::{Measured, Measures};
use crate::tree::Tree;

/// More words than this are two ideas.
const WORDS_MAX: usize = 25;

/// Long sentences by page.
pub fn long(tree: &Tree) -> Measures {
    let mut measures = Measures::new();
    for file in tree.files.iter().filter(|file| is_page(&file.path)) {
        let found: Vec<usize> = paragraphs(&file.text)
            .into_iter()
            .flat_map(|(line, text)| lengths(&text).into_iter().filter(|length| *length > WORDS_MAX).map(move |_| line))
            .collect();
        if let Some(&line) = found.first() {
            let advice = format!("at most {WORDS_MAX} words, one idea each");
            measures.insert(file.path.clone(), Measured { amount: found.len(), line, advice });
        }
    }
    measures
}

/// README.md and what lies directly in docs.
fn is_page(path: &str) -> bool {
    let page = path.strip_prefix("docs/").unwrap_or(path);
    path == "README.md" || (page != path && page.ends_with(".md") && !page.contains('/') && page != "testing.md")
}

/// Paragraphs and items of lists, with the line in which each begins.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = vec![];
    let (mut is_code, mut goes_on) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence || line.is_empty() || line.starts_with(['#', '|', '<']) {
            goes_on = false;
            continue;
        }
        let item = line
            .strip_prefix("- ")
            .or_else(|| line.split_once(". ").filter(|(number, _)| is_number(number)).map(|(_, item)| item));
        match all.last_mut().filter(|_| goes_on && item.is_none()) {
            Some((_, paragraph)) => *paragraph = format!("{paragraph} {line}"),
            None => all.push((index + 1, item.unwrap_or(line).to_owned())),
        }
        goes_on = true;
    }
    all
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The number of words of each sentence. A span of code is one word, and so is a link's target none.
fn lengths(paragraph: &str) -> Vec<usize> {
    let text = without_targets(&without_code(paragraph));
    let mut words = text.split_whitespace().peekable();
    let (mut lengths, mut length) = (vec![], 0);
    while let Some(word) = words.next() {
        length += usize::from(word.contains(char::is_alphanumeric));
        let next_begins = words.peek().is_none_or(|next| !next.starts_with(char::is_lowercase));
        let end = word.trim_end_matches([')', '*', '"', '\'', ']']);
        if words.peek().is_none() || end.ends_with(';') || (end.ends_with(['.', '!', '?', ':']) && next_begins) {
            lengths.push(std::mem::take(&mut length));
        }
    }
    lengths
}

fn without_code(text: &str) -> String {
    text.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "CODE" }).collect()
}

fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push(']');
        kept.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_a_reader_pauses() {
        assert_eq!(lengths("One two. Three `a b c` five! six; seven eight: nine [ten eleven](a.md#b)."), [2, 4, 5]);
        assert_eq!(lengths("It took 1.5 s (2 s before). **All** of it: Yes."), [7, 3, 1]);
    }

    #[test]
    fn only_prose_of_pages_counts() {
        let long = "word ".repeat(26);
        let text = format!("# {long}\n{long}\n| {long} |\n```\n{long}\n```\n- {long}\nshort.\n\n1. {long}\n");
        let amounts = |path: &str| long_of(path, &text);
        assert_eq!(amounts("docs/a.md"), Some((3, 2)));
        assert_eq!(amounts("README.md"), Some((3, 2)));
        for path in ["docs/testing.md", "docs/adr/0001-a.md", "ARCHITECTURE.md", "docs/a.txt"] {
            assert_eq!(amounts(path), None, "{path}");
        }
    }

    fn long_of(path: &str, text: &str) -> Option<(usize, usize)> {
        long(&Tree::made_of(&[(path, text)])).get(path).map(|measured| (measured.amount, measured.line))
    }
}
