//! Which directories the view is laid over, and which mounts below them are put back on top.
//!
//! An export is covered as a whole, and what is mounted below it stays what it is, unless that is an export itself. Where
//! something below it is not in the view (kernel file systems, automounter points, Forebay's own places), the directories
//! that lead there are left alone and those beside them are covered, so that nothing is lost. So is it with the whole file
//! system: of it only what holds programs is covered, because what is covered cannot be written to.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use forebay_fuse::MountedAt;
use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use super::plan_points::Points;

/// Directories that parts of the view are laid over in one namespace: the kernel allows 100,000 mounts
/// (`fs.mount-max`).
const COVERED_DIRECTORIES_MAX: usize = 4096;

/// At the top of a file system, where things change or are each host's own (Filesystem Hierarchy Standard 3.0).
const CHANGING: [&str; 9] = ["/etc", "/home", "/media", "/mnt", "/root", "/run", "/srv", "/tmp", "/var"];

/// Variables that name directories in which a program writes.
const WRITTEN: [&str; 4] = ["HOME", "TMPDIR", "SCRATCH", "PWD"];

/// A directory that is covered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cover {
    /// Where, and what of the view.
    pub dir: PathBuf,
    /// Mount points below it that are put back.
    pub kept: Vec<PathBuf>,
    /// Whether it must be there: it was named, not found.
    pub is_named: bool,
}

/// The directories to cover; outer ones come before inner ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// In this order.
    pub covers: Vec<Cover>,
}

impl Plan {
    /// For the mounts of this process. `exports` are without links, sorted; `view` is the root of where they are seen;
    /// `own_places` are Forebay's.
    ///
    /// # Errors
    /// When the view or a directory cannot be looked at, or would take too many mounts.
    pub fn make(exports: &[PathBuf], view: BorrowedFd<'_>, own_places: &[PathBuf]) -> anyhow::Result<Self> {
        let mounts = MountedAt::all().context("the table of mounts cannot be read")?;
        let written: Vec<PathBuf> = WRITTEN.iter().filter_map(std::env::var_os).map(PathBuf::from).collect();
        let look = |path: &Path| look(view, path);
        let planner = Planner { points: Points::new(&mounts, own_places), exports, written, look: &look };
        planner.plan()
    }
}

/// The view's state at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    Shown,
    Hidden,
    /// This user may not go there, neither in the view nor outside.
    Denied,
}

fn look(view: BorrowedFd<'_>, path: &Path) -> anyhow::Result<Look> {
    match statat(view, below_root(path), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(Look::Shown),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(Look::Hidden),
        Err(Errno::ACCESS | Errno::PERM) => Ok(Look::Denied),
        Err(errno) => Err(errno).with_context(|| format!("cannot look at {} in the view", path.display())),
    }
}

/// An absolute path in the view, as seen from its root.
pub(super) fn below_root(path: &Path) -> &Path {
    match path.strip_prefix("/") {
        Ok(below) if below.as_os_str().is_empty() => Path::new("."),
        Ok(below) => below,
        Err(_) => path,
    }
}

struct Planner<'a> {
    points: Points,
    exports: &'a [PathBuf],
    written: Vec<PathBuf>,
    look: &'a dyn Fn(&Path) -> anyhow::Result<Look>,
}

impl Planner<'_> {
    fn plan(&self) -> anyhow::Result<Plan> {
        let mut plan = Plan::default();
        for export in self.exports {
            self.cover(export, true, &mut plan)?;
        }
        // Exports within one another: each after the one around it. A directory that both found is covered once.
        plan.covers.sort_by(|one, other| one.dir.cmp(&other.dir).then(other.is_named.cmp(&one.is_named)));
        plan.covers.dedup_by(|later, earlier| later.dir == earlier.dir);
        Ok(plan)
    }

    fn cover(&self, dir: &Path, is_named: bool, plan: &mut Plan) -> anyhow::Result<()> {
        let is_named_inside = |point: &Path| {
            self.exports.iter().any(|export| export != dir && export.starts_with(dir) && point.starts_with(export))
        };
        let (mut kept, mut hidden) = (Vec::new(), Vec::new());
        for point in self.points.outermost_below(dir) {
            if is_named_inside(&point) {
                continue;
            }
            match (self.look)(&point)? {
                Look::Shown => kept.push(point),
                Look::Hidden => hidden.push(point),
                Look::Denied => {}
            }
        }
        if !hidden.is_empty() || dir.parent().is_none() {
            return self.cover_around(dir, &hidden, plan);
        }
        ensure!(
            plan.covers.len() < COVERED_DIRECTORIES_MAX,
            "more than {} directories would have to be covered to go around what is mounted below the exports; export \
             smaller directories",
            COVERED_DIRECTORIES_MAX
        );
        plan.covers.push(Cover { dir: dir.to_owned(), kept, is_named });
        Ok(())
    }

    /// Covers what is in `dir` instead of `dir`, but for `hidden` and what leads there.
    fn cover_around(&self, dir: &Path, hidden: &[PathBuf], plan: &mut Plan) -> anyhow::Result<()> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            // A user who may not list it sees none of the tier there, and as much as before.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
            Err(error) => bail!("cannot list {}: {error}", dir.display()),
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", dir.display()))?;
            let path = entry.path();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_left = hidden.contains(&path) || dir.parent().is_none() && self.may_be_written(&path);
            if is_dir && !is_left {
                self.cover(&path, false, plan)?;
            }
        }
        Ok(())
    }

    /// Whether programs may want to write to `path`, a directory at the top of the file system.
    fn may_be_written(&self, path: &Path) -> bool {
        CHANGING.iter().any(|changing| path == Path::new(changing))
            || self.points.is_writable_mount(path)
            || self.written.iter().any(|written| written.starts_with(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(points: &[(&str, bool)]) -> Vec<MountedAt> {
        let mount = |id: u64, parent: u64, dir: &str, is_read_only: bool| MountedAt {
            id,
            parent,
            dir: dir.into(),
            is_whole: true,
            file_system: "ext4".into(),
            source: "x".into(),
            device: (0, 1),
            is_read_only,
            user: None,
        };
        let mut mounts = vec![mount(1, 0, "/", false)];
        for ((dir, is_read_only), id) in points.iter().zip(2..) {
            // In the order of their paths, so that the last one above is the nearest.
            let on = mounts.iter().rfind(|other| Path::new(dir).starts_with(&other.dir)).map_or(1, |other| other.id);
            mounts.push(mount(id, on, dir, *is_read_only));
        }
        mounts
    }

    fn planned(
        exports: &[&Path],
        points: &[(&str, bool)],
        hidden: &[&Path],
        written: &[&str],
    ) -> Vec<(PathBuf, Vec<PathBuf>)> {
        let exports: Vec<PathBuf> = exports.iter().map(PathBuf::from).collect();
        let look = |path: &Path| Ok(if hidden.contains(&path) { Look::Hidden } else { Look::Shown });
        let own: Vec<PathBuf> = hidden.iter().map(PathBuf::from).collect();
        let points = Points::new(&mounts(points), &own);
        let written = written.iter().map(PathBuf::from).collect();
        let plan = Planner { points, exports: &exports, written, look: &look }.plan().unwrap();
        plan.covers.into_iter().map(|cover| (cover.dir, cover.kept)).collect()
    }

    #[test]
    fn mounts_below_an_export_are_put_back_unless_they_are_exports() {
        let points =
            [("/soft", false), ("/soft/a", false), ("/soft/a/b", false), ("/soft/c", false), ("/softer", false)];
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let soft = Path::new("/soft");
        assert_eq!(planned(&[soft], &points, &[], &[]), [("/soft".into(), paths(&["/soft/a", "/soft/c"]))]);
        assert_eq!(
            planned(&[soft, Path::new("/soft/a")], &points, &[], &[]),
            [("/soft".into(), paths(&["/soft/c"])), ("/soft/a".into(), paths(&["/soft/a/b"]))]
        );
        // Not a mount point itself: it is covered again where its mount hides the one around it.
        assert_eq!(
            planned(&[soft, Path::new("/soft/a/x")], &points, &[], &[]),
            [("/soft".into(), paths(&["/soft/a", "/soft/c"])), ("/soft/a/x".into(), vec![])]
        );
    }

    #[test]
    fn files_hidden_by_the_view_are_reached_around_it() {
        let temporary = tempfile::tempdir().unwrap();
        let base = temporary.path().canonicalize().unwrap();
        for dir in ["a/inner", "b/hidden", "b/beside", "c"] {
            fs::create_dir_all(base.join(dir)).unwrap();
        }
        std::os::unix::fs::symlink("a", base.join("link")).unwrap();
        fs::write(base.join("file"), "x").unwrap();
        let covers = planned(&[&base], &[], &[&base.join("b/hidden")], &[]);
        let dirs: Vec<PathBuf> = covers.into_iter().map(|(dir, _)| dir).collect();
        assert_eq!(dirs, ["a", "b/beside", "c"].map(|name| base.join(name)));
    }

    #[test]
    fn of_the_whole_file_system_what_holds_programs_is_covered() {
        let points = [("/proc", false), ("/usr/local", true)];
        let covers = planned(&[Path::new("/")], &points, &[Path::new("/proc")], &["/opt/me/x"]);
        let dirs: Vec<&Path> = covers.iter().map(|(dir, _)| dir.as_path()).collect();
        assert!(dirs.contains(&Path::new("/usr")), "{dirs:?}");
        for left in ["/", "/etc", "/tmp", "/proc", "/opt", "/home", "/var"] {
            assert!(!dirs.contains(&Path::new(left)), "{left}: {dirs:?}");
        }
        let usr = covers.iter().find(|(dir, _)| dir == Path::new("/usr")).unwrap();
        assert_eq!(usr.1, [PathBuf::from("/usr/local")]);
        let writable = planned(&[Path::new("/")], &[("/usr", false)], &[], &[]);
        assert!(!writable.iter().any(|(dir, _)| dir == Path::new("/usr")), "mounted writable");
        let read_only = planned(&[Path::new("/")], &[("/usr", true)], &[], &[]);
        assert!(read_only.iter().any(|(dir, _)| dir == Path::new("/usr")), "mounted read-only");
    }
}
