//! Paths that users give: those in a view mean what they show, and links and `..` on the way mean where they lead, because
//! daemons know files by their places.

use std::path::{Path, PathBuf};

use forebay_launch::{JobDirectory, JobRecord, NodeRecord};
use forebay_types::NodeRank;

use crate::patience::{Waiting, after_a_second};

/// Says what is looked at when it takes long: the user asks because a file system hangs, and then so does a look at it.
pub(super) fn looking_at(path: &Path) -> Waiting {
    let shown = path.display().to_string();
    after_a_second(move || format!("looking at {shown}; its file system has not answered yet"))
}

/// The views on this host, each with its node.
pub(super) fn views(directory: &JobDirectory) -> Vec<(NodeRank, PathBuf)> {
    let own: Vec<_> = NodeRecord::read_all(directory).into_iter().map(|node| (node.rank, node.view)).collect();
    if !own.is_empty() {
        return own;
    }
    let views = JobRecord::read(directory).ok().flatten().map(|record| record.views).unwrap_or_default();
    (0..).map(NodeRank).zip(views).collect()
}

/// The node whose view holds `path`, and what the path is on the backing file system.
pub(super) fn within_view(path: &Path, views: &[(NodeRank, PathBuf)]) -> (Option<NodeRank>, PathBuf) {
    for (rank, view) in views {
        if let Ok(rest) = path.strip_prefix(view) {
            return (Some(*rank), Path::new("/").join(rest));
        }
    }
    (None, path.to_owned())
}

/// The place that `path` names: with links on the way to it followed, but not the one that it may be itself. A path
/// that does not exist stays as it is.
pub(super) fn place_of(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => resolved(path),
    }
}

/// Where `path` leads, as far as it exists.
pub(super) fn resolved(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(found), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return found.components().chain(rest.components()).collect();
        }
    }
    path.to_owned()
}

/// Whether a view of these exports has `path`: in one of them, or on the way to one.
pub(super) fn is_shown(exports: &[PathBuf], path: &Path) -> bool {
    let canonical = path.canonicalize();
    let paths: Vec<&Path> = std::iter::once(path).chain(canonical.as_deref().ok()).collect();
    let has = |export: &Path| paths.iter().any(|path| path.starts_with(export) || export.starts_with(path));
    exports.iter().any(|export| has(export) || export.canonicalize().is_ok_and(|export| has(&export)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_view_is_its_original_and_names_the_node() {
        let views = [(NodeRank(0), PathBuf::from("/v/0")), (NodeRank(5), PathBuf::from("/v/5"))];
        let found = |path: &str| within_view(Path::new(path), &views);
        assert_eq!(found("/v/5/soft/x"), (Some(NodeRank(5)), "/soft/x".into()));
        assert_eq!(found("/v/0"), (Some(NodeRank(0)), "/".into()));
        assert_eq!(found("/v/55/x"), (None, "/v/55/x".into()));
        assert_eq!(found("/soft/x"), (None, "/soft/x".into()));
    }

    #[test]
    fn links_on_the_way_are_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let base = temporary.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("real/below")).unwrap();
        std::fs::write(base.join("real/file"), "x").unwrap();
        std::os::unix::fs::symlink("real", base.join("link")).unwrap();
        std::os::unix::fs::symlink("file", base.join("real/alias")).unwrap();
        for (path, place, end) in [
            ("link/alias", "real/alias", "real/file"),
            ("link/below/../file", "real/file", "real/file"),
            ("link/none/x", "real/none/x", "real/none/x"),
            ("link", "link", "real"),
            ("real/below/..", "real", "real"),
        ] {
            assert_eq!((place_of(&base.join(path)), resolved(&base.join(path))), (base.join(place), base.join(end)));
        }
        assert_eq!(place_of(Path::new("/")), Path::new("/"));
    }

    #[test]
    fn files_outside_exports_are_not_shown() {
        let temporary = tempfile::tempdir().unwrap();
        let base = temporary.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("soft/a")).unwrap();
        std::fs::create_dir(base.join("other")).unwrap();
        std::os::unix::fs::symlink("soft", base.join("link")).unwrap();
        for export in ["soft", "link"] {
            let shown = |path: &str| is_shown(&[base.join(export)], &base.join(path));
            for path in ["", "soft", "soft/a", "link/a"] {
                assert!(shown(path), "{export}: {path}");
            }
            assert!(!shown("other") && !shown("softer"), "{export}");
        }
    }
}
