//! Patterns of files, for more files than a command line may have: `'run/*.csv'`, in quotes so that the shell leaves it alone.
//!
//! As in a shell, `*`, `?` and `[a-z]` stand for parts of a name, never for a slash or for the dot that hides a file, and files come in the
//! order of their names. A file whose name is the pattern itself wins. `-` is standard input.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use forebay_offload::files::STANDARD_INPUT;

use crate::settings::UsageError;

/// Files of a query at most: a file takes some hundred bytes of memory.
const FILES_MAX: usize = 1_000_000;

/// The files that were named, patterns replaced by what they match, and `-` by the path of standard input.
///
/// # Errors
/// A pattern matches no file, a directory cannot be read, or standard input is named with others by which its place is not clear.
pub fn expanded(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let inputs = named.iter().filter(|name| is_input(name)).count();
    if inputs > 1 {
        return Err(UsageError("standard input (-) comes once, but is named several times".to_owned()).into());
    }
    if inputs == 1 && named.iter().any(|name| is_pattern(name)) {
        return Err(
            UsageError("standard input (-) cannot be beside a pattern: name the files one by one".to_owned()).into()
        );
    }
    let mut files = vec![];
    for name in named {
        if is_input(name) {
            files.push(STANDARD_INPUT.into());
            continue;
        }
        match is_pattern(name) && fs::symlink_metadata(name).is_err() {
            true => files.append(&mut matching(name)?),
            false => files.push(name.clone()),
        }
        if files.len() > FILES_MAX {
            bail!("more than {FILES_MAX} files; query a part of them at a time");
        }
    }
    Ok(files)
}

fn is_input(path: &Path) -> bool {
    [Path::new("-"), Path::new(STANDARD_INPUT)].contains(&path)
}

fn is_pattern(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
}

fn matching(pattern: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let part = Path::new(component.as_os_str());
        let mut next = vec![];
        for begin in found {
            match component {
                Component::Normal(_) if is_pattern(part) => entries(&begin, &part.to_string_lossy(), &mut next)?,
                _ => next.push(begin.join(part)),
            }
            if next.len() > FILES_MAX {
                bail!("{} matches more than {FILES_MAX} files; query a part of them at a time", pattern.display());
            }
        }
        found = next;
    }
    found.retain(|path| fs::symlink_metadata(path).is_ok());
    if found.is_empty() {
        bail!("no file matches {}, and none has that name", pattern.display());
    }
    Ok(found)
}

/// Appends the entries of a directory that match, in order.
fn entries(directory: &Path, pattern: &str, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let place = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    // The part before it may have matched a file too.
    if !place.is_dir() {
        return Ok(());
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let unread = || format!("the files of {} cannot be listed", place.display());
    let mut names = vec![];
    for entry in fs::read_dir(place).with_context(unread)? {
        let name = entry.with_context(unread)?.file_name();
        let text: Vec<char> = name.to_string_lossy().chars().collect();
        let is_hidden = text.first() == Some(&'.') && pattern.first() != Some(&'.');
        if !is_hidden && matches(&pattern, &text) {
            names.push(name);
        }
    }
    names.sort_unstable();
    found.extend(names.into_iter().map(|name| directory.join(name)));
    Ok(())
}

/// Whether a name matches. The part that the last star took is tried again with a letter more, so that a name costs at most its length times that
/// of the pattern.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while here < name.len() {
        let step = match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, here));
                at += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => class(&pattern[at..], name[here]),
            Some(letter) => (*letter == name[here]).then_some(1),
            None => None,
        };
        match (step, &mut star) {
            (Some(step), _) => (at, here) = (at + step, here + 1),
            (None, Some((behind, taken))) => {
                *taken += 1;
                (at, here) = (*behind, *taken);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

/// The length of the class that a pattern begins with, if the letter is in it. A bracket that is not closed stands for itself.
fn class(pattern: &[char], letter: char) -> Option<usize> {
    let is_negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = 1 + usize::from(is_negated);
    let Some(len) = pattern.iter().skip(first + 1).position(|end| *end == ']') else {
        return (letter == '[').then_some(1);
    };
    let members = &pattern[first..first + 1 + len];
    let mut is_member = false;
    let mut at = 0;
    while at < members.len() {
        match members[at..] {
            [from, '-', to, ..] => {
                is_member |= (from..=to).contains(&letter);
                at += 3;
            }
            [one, ..] => {
                is_member |= one == letter;
                at += 1;
            }
            [] => break,
        }
    }
    (is_member != is_negated).then_some(first + 1 + len + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    #[test]
    fn letters_and_classes() {
        let is = |pattern: &str, name: &str| {
            let [pattern, name] = [pattern, name].map(|text| text.chars().collect::<Vec<_>>());
            matches(&pattern, &name)
        };
        for (pattern, name) in [
            ("*.csv", "a.csv"),
            ("*", "a"),
            ("a*b*c", "aXbbXc"),
            ("r?n", "r\u{fc}n"),
            ("[a-c]x[!0-9]", "bxy"),
            ("[]]", "]"),
            ("[a-]", "-"),
            ("a[", "a["),
            ("**", "ab"),
        ] {
            assert!(is(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*.csv", "a.csvx"), ("?", ""), ("[a-c]", "d"), ("[!a]", "a"), ("a*b", "ac"), ("", "a"), ("a", "")]
        {
            assert!(!is(pattern, name), "{pattern} {name}");
        }
        assert!(!is(&"*a".repeat(50), &"a".repeat(49)), "and soon");
    }

    #[test]
    fn files_in_the_order_of_their_names() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        ["run2/b.csv", "run1/c.csv", "run1/a.csv", "run1/.hidden.csv", "run1/x.txt", "notes", "[a].csv"]
            .into_iter()
            .for_each(make);
        let of = |pattern: &str| {
            let found = expanded(&[root.path().join(pattern)]).unwrap();
            found.iter().map(|path| path.strip_prefix(root.path()).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("*/*.csv"), ["run1/a.csv", "run1/c.csv", "run2/b.csv"]);
        assert_eq!(of("run[2-9]/../run1/?.csv"), ["run2/../run1/a.csv", "run2/../run1/c.csv"]);
        assert_eq!(of("[a].csv"), ["[a].csv"], "the file of that name");
        assert_eq!(of("missing"), ["missing"], "no pattern; whoever opens it says so");
        let none = expanded(&[root.path().join("*.parquet")]).unwrap_err().to_string();
        assert!(none.contains("no file matches") && none.contains("*.parquet"), "{none}");
    }
}
