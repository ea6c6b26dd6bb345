//! Paths that code names: those that `use` trees bring in, and those that stand in the code itself.
//!
//! Text in, text out: what a path leads to is another module's affair (`modules`).

use crate::source::words;

/// A path that `use` brings in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// Where its `use` begins.
    pub at: usize,
    pub path: Vec<String>,
    /// The name it has here; `*` for all that is there.
    pub name: String,
}

/// A path that stands in the code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mentioned {
    pub at: usize,
    pub path: Vec<String>,
}

/// Every path that a `use` of the code brings in.
pub fn imported(code: &str) -> Vec<Imported> {
    let mut found = vec![];
    for (at, end) in use_trees(code) {
        let text: String = code[at + "use".len()..end].split_whitespace().collect::<Vec<_>>().join(" ");
        expand("", text.trim_start_matches("::"), &mut |path, renamed| {
            let mut path: Vec<String> = path.split("::").map(str::to_owned).collect();
            // `a::{self}` is `a`.
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let name = renamed.or_else(|| path.last().cloned()).unwrap_or_default();
            found.push(Imported { at, path, name });
        });
    }
    found
}

/// Every path of more than one part that the code names outside of `use`.
pub fn mentioned(code: &str) -> Vec<Mentioned> {
    let trees = use_trees(code);
    let words: Vec<(usize, &str)> = words(code).collect();
    let joins = |left: usize| match (words.get(left), words.get(left + 1)) {
        (Some((at, word)), Some((next, _))) => code[at + word.len()..*next].trim() == "::",
        _ => false,
    };
    let mut found = vec![];
    let mut index = 0;
    while index < words.len() {
        let first = index;
        while joins(index) {
            index += 1;
        }
        index += 1;
        let (at, _) = words[first];
        let is_used = trees.iter().any(|(start, end)| (*start..*end).contains(&at));
        let is_member = code[..at].trim_end().ends_with('.');
        if index - first > 1 && !is_used && !is_member {
            let path = words[first..index].iter().map(|(_, word)| (*word).to_owned()).collect();
            found.push(Mentioned { at, path });
        }
    }
    found
}

/// Where each `use` begins and ends; not the `use<..>` of a type.
fn use_trees(code: &str) -> Vec<(usize, usize)> {
    let trees = words(code).filter(|&(at, word)| word == "use" && !code[at + 3..].trim_start().starts_with('<'));
    trees.map(|(at, _)| (at, code[at..].find(';').map_or(code.len(), |len| at + len))).collect()
}

/// Takes a `use` tree apart; stops at what belongs to none. Each path with the name it is given, if it is given one.
/// Returns what is left after it.
pub fn expand<'a>(prefix: &str, text: &'a str, found: &mut impl FnMut(String, Option<String>)) -> &'a str {
    let word_len = |text: &str| text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let text = text.trim_start();
    let len = if text.starts_with('*') { 1 } else { word_len(text) };
    let path = if prefix.is_empty() { text[..len].to_owned() } else { format!("{prefix}::{}", &text[..len]) };
    let rest = text[len..].trim_start();
    let Some(rest) = rest.strip_prefix("::") else {
        let Some(renamed) = rest.strip_prefix("as ") else {
            found(path, None);
            return rest;
        };
        let len = word_len(renamed);
        found(path, Some(renamed[..len].to_owned()));
        return &renamed[len..];
    };
    let Some(mut rest) = rest.trim_start().strip_prefix('{') else {
        return expand(&path, rest, found);
    };
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return rest;
        }
        if let Some(after) = rest.strip_prefix('}') {
            return after;
        }
        let before = rest.len();
        rest = expand(&path, rest, found).trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest);
        if rest.len() == before {
            return rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(code: &str) -> Vec<String> {
        imported(code).into_iter().map(|each| format!("{} {}", each.path.join("::"), each.name)).collect()
    }

    #[test]
    fn takes_use_trees_apart() {
        assert_eq!(imports("use a::b;"), ["a::b b"]);
        assert_eq!(imports("pub use a::{self, b::{C as D, *}, e,};"), ["a a", "a::b::C D", "a::b::* *", "a::e e"]);
        assert_eq!(imports("use super::x as _;\nuse ::std::fs;"), ["super::x _", "std::fs fs"]);
        assert_eq!(imports("fn f() -> impl Iterator + use<'_> { g() }"), [""; 0]);
    }

    #[test]
    fn finds_paths_in_code() {
        let code = "use a::b; fn f(x: crate::c::D) -> e::F { x.g::<u8>(); super::h(i)\n    ::j }";
        let paths: Vec<_> = mentioned(code).into_iter().map(|each| each.path.join("::")).collect();
        assert_eq!(paths, ["crate::c::D", "e::F", "super::h"]);
    }
}
