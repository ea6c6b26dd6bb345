//! The files of a table, as a shell would have them: `*` stops at a directory's end, and names that begin with a point match none.
//!
//! The engine lists what is below a path by patterns of its own, which cross directories. Where these find more, it is told each file.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::context::SessionState;
use datafusion::object_store::path::Path as ObjectPath;
use futures::TryStreamExt;
use glob::MatchOptions;
use url::Url;

use crate::inflate::uncompressed;

/// As shells match names.
const AS_SHELLS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// The files of a table.
#[derive(Debug, Default)]
pub struct Files {
    /// In the order of their names; all have one ending.
    pub paths: Vec<ObjectPath>,
    /// It, or nothing if the path is a file's own.
    pub ending: String,
    /// These end so, too, and are not the table's.
    others: Vec<ObjectPath>,
    /// A note about files with other endings.
    pub note: Option<String>,
}

impl Files {
    /// Of the files at a URL. `path` is for messages.
    ///
    /// # Errors
    /// They cannot be listed, those that match a pattern have several endings, or one is a link to nothing.
    pub async fn at(url: &ListingTableUrl, path: &str, state: &SessionState) -> Result<Self> {
        let store = state.runtime_env().object_store(url)?;
        // The engine's own look for a pattern knows no `=` in names.
        let below = match url.get_glob() {
            Some(_) => ListingTableUrl::try_new(url_of(url.prefix(), true)?, None)?,
            None => url.clone(),
        };
        let listed = below.list_all_files(state, store.as_ref(), "").await?;
        let mut listed: Vec<ObjectPath> = listed.map_ok(|file| file.location).try_collect().await?;
        listed.sort();
        let found = Self::of(url, path, listed)?;
        if url.is_collection() {
            let above = Path::new("/").join(url.prefix().as_ref());
            let own = |link: &ObjectPath| is_own(url, link) && link.as_ref().ends_with(&found.ending);
            #[expect(clippy::disallowed_methods, reason = "a command may end where it has no thread")]
            let links = tokio::task::spawn_blocking(move || links_to_nothing(&above));
            let links = links.await.map_err(|error| DataFusionError::External(error.into()))?;
            if let Some(link) = links.iter().find(|link| own(link)) {
                return plan_err!(
                    "table '{path}': /{link} is a link to nothing: remove it, or name the files beside it"
                );
            }
        }
        Ok(found)
    }

    fn of(url: &ListingTableUrl, path: &str, listed: Vec<ObjectPath>) -> Result<Self> {
        if !url.is_collection() {
            return Ok(Self { paths: listed, ..Self::default() });
        }
        let (own, mut left): (Vec<_>, Vec<_>) = listed.into_iter().partition(|file| is_own(url, file));
        let Some(first) = own.first().map(ToString::to_string) else {
            return Ok(Self::default());
        };
        let (name, _) = uncompressed(&first);
        let ending = match Path::new(name).extension().and_then(|extension| extension.to_str()) {
            Some(extension) => first[name.len() - extension.len() - 1..].to_owned(),
            None => String::new(),
        };
        let (paths, others): (Vec<_>, Vec<_>) = own.into_iter().partition(|file| file.as_ref().ends_with(&ending));
        if let Some(other) = others.first().filter(|_| url.get_glob().is_some()) {
            return plan_err!(
                "table '{path}': /{first} ends in '{ending}', and /{other} does not: make a table of each kind, or a pattern of one ending"
            );
        }
        let note = others.first().map(|other| {
            let count = others.len();
            format!("table '{path}': {count} of its files, /{other} first, do not end in '{ending}' and are left out")
        });
        // The engine keeps to the ending itself.
        left.retain(|file| file.as_ref().ends_with(&ending));
        Ok(Self { paths, ending, others: left, note })
    }

    /// A file that is the table's and none of those that the engine lists at some URLs, or the other way round.
    pub fn differing(&self, urls: &[ListingTableUrl]) -> Option<&ObjectPath> {
        let is_listed = |file: &ObjectPath| urls.iter().any(|url| url.contains(file, false));
        let missed = self.paths.iter().find(|file| !is_listed(file));
        missed.or_else(|| self.others.iter().find(|file| is_listed(file)))
    }

    /// The URL of each.
    ///
    /// # Errors
    /// None.
    pub fn urls(&self) -> Result<Vec<ListingTableUrl>> {
        self.paths.iter().map(|path| ListingTableUrl::try_new(url_of(path, false)?, None)).collect()
    }
}

/// A path as stores have it; one that is there would be followed.
fn object_path(path: &Path) -> Option<ObjectPath> {
    let url = Url::from_file_path(path).ok()?;
    ObjectPath::from_url_path(url.path()).ok()
}

/// The links below a directory whose files are not there; the engine passes over them. A directory behind links is looked at once: links
/// may be a ring.
fn links_to_nothing(above: &Path) -> Vec<ObjectPath> {
    let (mut links, mut seen) = (vec![], BTreeSet::new());
    let mut directories = vec![above.to_owned()];
    while let Some(directory) = directories.pop() {
        // The engine has read it, or has said why not.
        for entry in directory.read_dir().into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_symlink() {
                match path.metadata() {
                    Ok(behind) if behind.is_dir() && seen.insert((behind.dev(), behind.ino())) => {
                        directories.push(path)
                    }
                    Ok(_) => {}
                    Err(_) => links.extend(object_path(&path)),
                }
            }
        }
    }
    links.sort();
    links
}

/// Whether a file is the table's. Names that begin with a point or `_` belong to the programs that write the others.
fn is_own(url: &ListingTableUrl, file: &ObjectPath) -> bool {
    let parts: Vec<&str> = url.strip_prefix(file).into_iter().flatten().collect();
    let Some(pattern) = url.get_glob() else {
        return !parts.iter().any(|part| part.starts_with(['.', '_']));
    };
    let is_matched = |parts: &[&str]| pattern.matches_with(&parts.join("/"), AS_SHELLS);
    // Directories that are columns need not be in it.
    let last = parts.len().saturating_sub(1);
    let others = parts.iter().enumerate().filter(|(at, part)| *at == last || !part.contains('='));
    is_matched(&parts) || is_matched(&others.map(|(_, part)| *part).collect::<Vec<_>>())
}

/// The URL of a path, whose names may have signs that a pattern or a URL has a meaning for.
///
/// # Errors
/// None.
pub fn url_of(path: &ObjectPath, is_directory: bool) -> Result<Url> {
    let mut own = Url::parse("file:///").map_err(|error| DataFusionError::External(error.into()))?;
    if let Ok(mut parts) = own.path_segments_mut() {
        parts.clear().extend(path.parts().map(|part| part.as_ref().to_owned()));
        if is_directory {
            parts.push("");
        }
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(url: &ListingTableUrl, files: &[&str]) -> Result<(Vec<String>, usize)> {
        let files = Files::of(url, "t", files.iter().map(|file| ObjectPath::from(*file)).collect())?;
        Ok((files.paths.iter().map(ToString::to_string).collect(), files.others.len()))
    }

    #[test]
    fn patterns_are_those_of_shells() {
        let url = |above: &str, pattern: &str| ListingTableUrl::parse(above).unwrap().with_glob(pattern).unwrap();
        let all = ["d/.h.csv", "d/a.csv", "d/sub/b.csv", "d/sub/deep/c.csv"];
        assert_eq!(found(&url("/d/", "*.csv"), &all).unwrap(), (vec!["d/a.csv".to_owned()], 3));
        assert_eq!(found(&url("/d/", "*/*.csv"), &all).unwrap(), (vec!["d/sub/b.csv".to_owned()], 3));
        assert_eq!(found(&url("/d/", "**/*.csv"), &all).unwrap().0, all[1..].to_vec());
        let named = ["d/a.csv", "d/lr=1/a.csv", "d/run=2.csv"];
        let own = |pattern: &str| found(&url("/d/", pattern), &named).unwrap().0;
        assert_eq!(own("run=*.csv"), named[2..].to_vec());
        assert_eq!(own("*/*.csv"), named[1..2].to_vec());
        assert_eq!(own("*.csv"), named.to_vec());
        let columns = ["d/year=1/.x.csv", "d/year=1/a.csv", "d/year=1/b/c.csv"];
        assert_eq!(found(&url("/d/", "*.csv"), &columns).unwrap(), (vec![columns[1].to_owned()], 2));
        let said = found(&url("/d/", "*"), &["d/a.csv", "d/b.csv.gz"]).unwrap_err().to_string();
        assert!(said.contains("/d/a.csv ends in '.csv', and /d/b.csv.gz does not"), "{said}");
    }

    #[test]
    fn links_to_nothing_are_found_and_rings_of_links_end() {
        let temporary = tempfile::tempdir().unwrap();
        let own = |name: &str| temporary.path().join(name);
        std::fs::create_dir(own("sub")).unwrap();
        for (target, name) in [(".", "a"), ("..", "sub/b"), (".", "sub/c"), ("gone", "sub/d"), ("gone", "e=1")] {
            std::os::unix::fs::symlink(target, own(name)).unwrap();
        }
        let found = links_to_nothing(temporary.path());
        for name in ["sub/d", "e=1"] {
            assert!(found.contains(&object_path(&own(name)).unwrap()), "{name}: {found:?}");
        }
        assert!(found.len() < 20, "{found:?}");
    }

    #[test]
    fn a_directory_is_all_files_that_end_as_its_first_one() {
        let url = ListingTableUrl::parse("/d/").unwrap();
        let all = ["d/._a.csv", "d/_SUCCESS", "d/_temporary/0.csv", "d/a.csv", "d/readme", "d/sub/b.csv"];
        assert_eq!(found(&url, &all).unwrap(), (vec!["d/a.csv".to_owned(), "d/sub/b.csv".to_owned()], 2));
        assert_eq!(found(&url, &["d/_SUCCESS"]).unwrap(), (vec![], 0));
    }
}
