//! Links between documents lead somewhere: the file exists, and the heading in it. A folder with an index has all its documents there.
//!
//! Links into the web are not followed: a test must not depend on somebody else's server.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// Directories of documents, and the documents that list them. The book has only pages that its summary lists.
const INDEXES: [(&str, &str); 3] =
    [("docs/adr/", "docs/adr/README.md"), ("docs/adr/", "docs/SUMMARY.md"), ("docs/", "docs/SUMMARY.md")];

/// Relative links of Markdown files that lead nowhere, and documents that nothing leads to.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = unlisted(tree);
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in targets(&file.text) {
            let why = broken(tree, file, &target);
            findings.extend(why.map(|why| Finding::new(&file.path, line, format!("link to `{target}`: {why}"))));
        }
    }
    findings
}

/// Documents that no reader would find, because the index of their directory leaves them out.
fn unlisted(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    for (directory, index) in INDEXES {
        let Some(index) = tree.get(index) else { continue };
        let listed: Vec<_> =
            targets(&index.text).iter().filter_map(|(_, target)| resolve(&index.path, target)).collect();
        let below = |file: &&File| file.path.strip_prefix(directory).is_some_and(|name| !name.contains('/'));
        let documents =
            tree.files.iter().filter(below).filter(|file| file.path.ends_with(".md") && file.path != index.path);
        for file in documents.filter(|file| !listed.contains(&file.path)) {
            findings.push(Finding::new(&file.path, 1, format!("is not in {}", index.path)));
        }
    }
    findings
}

/// The lines of a document outside fenced code, numbered, inline code blanked.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let code = |(index, part): (usize, &str)| {
            if index % 2 == 0 { part.to_owned() } else { " ".to_owned() }
        };
        (!fenced && !fence).then(|| (index + 1, line.split('`').enumerate().map(code).collect()))
    })
}

/// Targets of `[text](target)`, `![text](target)` and `[label]: target`.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = vec![];
    for (line, text) in prose(text) {
        let inline = text.match_indices("](").filter_map(|(at, open)| text[at + open.len()..].split(')').next());
        let label = text.starts_with('[').then(|| text.split_once("]: ").map(|(_, target)| target)).flatten();
        for target in inline.chain(label) {
            let target = target.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>']);
            targets.push((line, target.to_owned()));
        }
    }
    targets
}

fn broken(tree: &Tree, from: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let path = if path.is_empty() { Some(from.path.clone()) } else { resolve(&from.path, path) };
    let Some(path) = path.filter(|path| tree.exists(path)) else {
        return Some("there is no such file".to_owned());
    };
    let heading = heading.filter(|_| path.ends_with(".md"))?;
    let known = tree.get(&path).is_some_and(|file| headings(&file.text).iter().any(|known| known == heading));
    (!known).then(|| format!("{path} has no heading `#{heading}`"))
}

/// The path from the repository's root; `None` if it leads out of it.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if let Some(absolute) = target.strip_prefix('/') {
        return Some(absolute.trim_end_matches('/').to_owned());
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors that a document's headings get.
fn headings(text: &str) -> Vec<String> {
    let mut fenced = false;
    let outside = text.lines().filter(|line| {
        fenced ^= line.trim_start().starts_with("```");
        !fenced
    });
    let titles =
        outside.filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    titles.map(anchor).collect()
}

fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter(|&c| c.is_alphanumeric() || "-_ ".contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: (&str, &str) = ("docs/semantics.md", "# What a view *promises*\n```\n# no heading\n```\n");

    fn messages(text: &str) -> Vec<String> {
        let files = [("docs/adr/README.md", text), OTHER, ("README.md", "# Forebay\n")];
        check(&Tree::made_of(&files)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn follows_relative_links() {
        assert!(
            messages("[a](../semantics.md) ![b](../../README.md) [c](../) [d](/docs/adr)\n[e]: ../semantics.md\n")
                .is_empty()
        );
        assert_eq!(messages("[a](semantics.md)\n").len(), 1);
        assert_eq!(messages("[a](../../../README.md)\n").len(), 1, "leads out of the repository");
        assert_eq!(messages("[e]: ../nowhere.md\n").len(), 1);
    }

    #[test]
    fn documents_are_in_their_index() {
        let index = "[a](0001-a.md)\n";
        let files =
            [("docs/adr/README.md", index), ("docs/adr/0001-a.md", ""), ("docs/adr/0002-b.md", ""), ("a.md", "")];
        let found: Vec<_> = check(&Tree::made_of(&files)).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["docs/adr/0002-b.md"]);
    }

    #[test]
    fn follows_headings() {
        assert!(messages("# Here it is\n[a](#here-it-is) [b](../semantics.md#what-a-view-promises)\n").is_empty());
        assert_eq!(messages("[a](#there) [b](../semantics.md#no-heading)\n").len(), 2);
    }

    #[test]
    fn leaves_the_web_and_code_alone() {
        assert!(messages("[a](https://x.org/y) `[b](gone.md)`\n```\n[c](gone.md)\n```\n<mailto:a@b>\n").is_empty());
    }
}
