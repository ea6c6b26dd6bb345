//! The mount points that a process meets: of several at one place the uppermost, and none that another covers.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use forebay_fuse::MountedAt;

/// By where they are, so that what is below a directory follows it. Forebay's own places are among them, mounted or not.
#[derive(Debug)]
pub struct Points(BTreeMap<PathBuf, Point>);

#[derive(Clone, Copy, Debug)]
struct Point {
    is_writable: bool,
}

impl Points {
    /// Of these mounts, in the order of the kernel's table.
    pub fn new(mounts: &[MountedAt], own_places: &[PathBuf]) -> Self {
        let tops = Tops::new(mounts);
        let met = mounts.iter().filter(|mount| tops.at(&mount.dir) == Some(mount.id));
        let mut points: BTreeMap<PathBuf, Point> =
            met.map(|mount| (mount.dir.clone(), Point { is_writable: !mount.is_read_only })).collect();
        for place in own_places {
            points.entry(place.clone()).or_insert(Point { is_writable: true });
        }
        Self(points)
    }

    /// Those below `dir` that are not below one another.
    pub fn outermost_below(&self, dir: &Path) -> Vec<PathBuf> {
        let after = (Bound::Excluded(dir.to_owned()), Bound::Unbounded);
        let mut found: Vec<PathBuf> = Vec::new();
        for (point, _) in self.0.range(after).take_while(|(point, _)| point.starts_with(dir)) {
            if !found.last().is_some_and(|outer| point.starts_with(outer)) {
                found.push(point.clone());
            }
        }
        found
    }

    /// Whether `dir` is a mount point whose file system takes changes.
    pub fn is_writable_mount(&self, dir: &Path) -> bool {
        self.0.get(dir).is_some_and(|point| point.is_writable)
    }
}

/// Which mount is met at a path: one may be covered by a later one at or above its point.
struct Tops<'a> {
    root: Option<u64>,
    children: HashMap<(u64, &'a Path), u64>,
}

impl<'a> Tops<'a> {
    fn new(mounts: &'a [MountedAt]) -> Self {
        let known: std::collections::HashSet<u64> = mounts.iter().map(|mount| mount.id).collect();
        let is_root = |mount: &&MountedAt| mount.parent == mount.id || !known.contains(&mount.parent);
        let root = mounts.iter().filter(is_root).min_by_key(|mount| mount.dir.as_os_str().len()).map(|mount| mount.id);
        let children = mounts.iter().filter(|mount| mount.parent != mount.id);
        Self { root, children: children.map(|mount| ((mount.parent, mount.dir.as_path()), mount.id)).collect() }
    }

    fn at(&self, path: &Path) -> Option<u64> {
        let mut at = self.root?;
        let ancestors: Vec<&Path> = path.ancestors().collect();
        for prefix in ancestors.into_iter().rev() {
            // Each step goes to a mount made on the one before, so the steps end.
            while let Some(child) = self.children.get(&(at, prefix)) {
                at = *child;
            }
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(id: u64, parent: u64, dir: &str) -> MountedAt {
        let (file_system, source) = ("ext4".to_owned(), "x".to_owned());
        MountedAt {
            id,
            parent,
            dir: dir.into(),
            is_whole: true,
            file_system,
            source,
            device: (0, 1),
            is_read_only: id.is_multiple_of(2),
            user: None,
        }
    }

    #[test]
    fn covered_mounts_are_not_met() {
        let mounts =
            [mount(1, 0, "/"), mount(2, 1, "/a/proc"), mount(3, 1, "/a"), mount(5, 3, "/a"), mount(4, 5, "/a/x y")];
        let points = Points::new(&mounts, &["/own/place".into()]);
        assert_eq!(points.outermost_below(Path::new("/")), [PathBuf::from("/a"), "/own/place".into()]);
        assert_eq!(points.outermost_below(Path::new("/a")), [PathBuf::from("/a/x y")]);
        assert!(points.is_writable_mount(Path::new("/a")) && !points.is_writable_mount(Path::new("/a/x y")));
        assert!(!points.is_writable_mount(Path::new("/b")));
    }

    #[test]
    fn names_that_only_begin_alike_are_apart() {
        let mounts = [mount(1, 0, "/"), mount(2, 1, "/soft-x"), mount(3, 1, "/soft/a"), mount(4, 1, "/softer")];
        assert_eq!(Points::new(&mounts, &[]).outermost_below(Path::new("/soft")), [PathBuf::from("/soft/a")]);
    }
}
