//! Text that belongs to a desk and not into the repository: paths of one machine, notes to oneself, debug output, a second word for
//! a thing that has one.

use crate::finding::Finding;
use crate::source::words;
use crate::tree::{File, Tree};

/// Beginnings of paths that exist on somebody's machine only. Written in two parts so that this file passes.
const MACHINE_PATHS: [&str; 3] = [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")];

/// Notes that something is not done.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Macros that stand for code that is not there, or that print for its author.
const MACROS: [&str; 3] = [concat!("to", "do"), concat!("unimple", "mented"), "dbg"];

/// Two words for one thing, and the one that is used here.
const OTHER_WORDS: [(&str, &str); 2] = [
    (concat!("remote file", " system"), "backing file system"),
    (concat!("remote file", "system"), "backing file system"),
];

/// Lines with what should not be committed.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let generated = |file: &&File| !file.path.ends_with(".lock") && file.path != "LICENSE";
    tree.files
        .iter()
        .filter(generated)
        .flat_map(|file| [paths(file), notes(file), macros(file), other_words(file)].concat())
        .collect()
}

fn paths(file: &File) -> Vec<Finding> {
    let mut findings = vec![];
    for (line, text) in numbered(&file.text) {
        let own = |path: &&&str| text.match_indices(**path).any(|(at, _)| starts_path(&text[..at]));
        for path in MACHINE_PATHS.iter().filter(own) {
            findings.push(Finding::new(&file.path, line, format!("`{path}` is a path of one machine")));
        }
    }
    findings
}

/// Whether a path can begin after this text: not in the middle of a longer one.
fn starts_path(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || "_-.~}*>)".contains(c))
}

fn notes(file: &File) -> Vec<Finding> {
    let noted = |(line, text): (usize, &str)| {
        let (_, word) = words(text).find(|(_, word)| NOTES.contains(word))?;
        Some(Finding::new(&file.path, line, format!("`{word}`: do it, or say what is and why")))
    };
    numbered(&file.text).filter_map(noted).collect()
}

fn macros(file: &File) -> Vec<Finding> {
    let Some(source) = &file.source else { return vec![] };
    let uses =
        source.words().filter(|&(at, word)| MACROS.contains(&word) && source.code[at + word.len()..].starts_with('!'));
    uses.map(|(at, word)| Finding::new(&file.path, source.line_of(at), format!("`{word}!` is not for committed code")))
        .collect()
}

fn other_words(file: &File) -> Vec<Finding> {
    let said = |(line, text): (usize, &str)| {
        let text = text.to_lowercase();
        let (word, ours) = OTHER_WORDS.iter().find(|(word, _)| text.contains(word))?;
        Some(Finding::new(&file.path, line, format!("`{word}`: the word is `{ours}`")))
    };
    numbered(&file.text).filter_map(said).collect()
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::made_of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_paths_of_one_machine() {
        let text = format!("cd {}x\nVIEW{}a\n/scratch{}b\n", MACHINE_PATHS[0], MACHINE_PATHS[1], MACHINE_PATHS[1]);
        assert_eq!(lines("docs/a.md", &text), [1]);
        assert_eq!(lines("Makefile", &format!("a = \"{}me\"\n", MACHINE_PATHS[2])), [1]);
    }

    #[test]
    fn finds_notes_anywhere() {
        let text = format!("# {}: later\nmktemp a.{}{}\nx {}\n", NOTES[0], NOTES[2], NOTES[2], NOTES[1]);
        assert_eq!(lines("benches/a.sh", &text), [1, 3]);
    }

    #[test]
    fn one_word_a_thing() {
        assert_eq!(lines("docs/a.md", &format!("A {} is read.\nA backing file system is.\n", OTHER_WORDS[0].0)), [1]);
    }

    #[test]
    fn finds_macros_in_code_only() {
        let text = format!("// {0}!()\nfn f() {{ {0}!(\"x\"); }}\nlet dbg = 1; dbg!(dbg);\n", MACROS[1]);
        assert_eq!(lines("crates/a/src/a.rs", &text), [2, 3]);
    }
}
