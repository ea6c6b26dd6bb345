//! Names tell. A file, a crate or an item may not be called by a word that fits anything.

use crate::finding::Finding;
use crate::tree::Tree;

/// Words that no name may have as a part, and what to do instead.
const BANNED: [(&str, &str); 9] = [
    ("manager", "name what it decides"),
    ("managers", "name what they decide"),
    ("util", "name what it does"),
    ("utils", "name what they do"),
    ("helper", "name what it does"),
    ("helpers", "name what they do"),
    ("common", "name what is shared"),
    ("misc", "put each thing where it belongs"),
    ("info", "name what is known"),
];

/// Words that say nothing unless another word stands beside them.
const BANNED_ALONE: [&str; 1] = ["data"];

/// Files, directories and items with banned names.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    let paths = tree.files.iter().map(|file| &file.path).chain(&tree.others);
    for path in paths {
        let parts = path.split('/').filter_map(|part| why_banned(part.split('.').find(|stem| !stem.is_empty())?));
        findings.extend(parts.map(|why| Finding::new(path, 1, why)));
    }
    for (file, source) in tree.rust() {
        for item in source.items() {
            findings.extend(why_banned(item.name).map(|why| Finding::new(&file.path, item.line, why)));
        }
    }
    findings
}

fn why_banned(name: &str) -> Option<String> {
    let parts = parts(name);
    let banned = BANNED.iter().find(|(word, _)| parts.iter().any(|part| part == word));
    let alone = BANNED_ALONE.iter().find(|word| parts.len() == 1 && parts[0] == **word);
    banned
        .map(|(word, instead)| format!("`{name}`: `{word}` tells nothing; {instead}"))
        .or_else(|| alone.map(|word| format!("`{name}`: `{word}` alone tells nothing; say which")))
}

/// The words of a name in any of the usual ways to join them, in small letters.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before_small = false;
    for c in name.chars() {
        let starts = c.is_uppercase() && before_small;
        if starts || !c.is_alphanumeric() {
            parts.push(String::new());
        }
        if let Some(last) = parts.last_mut().filter(|_| c.is_alphanumeric()) {
            last.extend(c.to_lowercase());
        }
        before_small = c.is_lowercase() || c.is_numeric();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_names() {
        assert_eq!(parts("DirManager"), ["dir", "manager"]);
        assert_eq!(parts("MISC_LIMIT"), ["misc", "limit"]);
        assert_eq!(parts("path-utils"), ["path", "utils"]);
        assert_eq!(parts("_helper2"), ["helper2"]);
    }

    #[test]
    fn bans_words_not_letters() {
        assert!(why_banned("futile").is_none() && why_banned("commons_log").is_none());
        assert!(why_banned("database").is_none() && why_banned("test_data").is_none());
        assert!(why_banned("data").is_some() && why_banned("CacheManager").is_some());
    }

    #[test]
    fn finds_files_and_items() {
        let tree = Tree::made_of(&[
            ("crates/core/cache/src/utils.rs", "//! X.\n"),
            ("crates/misc/src/lib.rs", "//! X.\n"),
            ("crates/core/read/src/lib.rs", "//! X.\n\nstruct ReadManager;\n// a helper\nfn f() { let helper = 1; }\n"),
            ("crates/core/read/data/x.txt", ""),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        let expected = [
            ("crates/core/cache/src/utils.rs", 1),
            ("crates/misc/src/lib.rs", 1),
            ("crates/core/read/data/x.txt", 1),
            ("crates/core/read/src/lib.rs", 3),
        ];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }
}
