//! Whether a path leads where it does whatever other users do: no other user may rename or replace a component of it.
//!
//! A view is used by its path: by programs, and by `forebay run --view`. A user who may write to a directory on that path can put a
//! directory of his own in the view's place. The programs that the job's user then runs from it are his. So every directory must be the
//! user's or root's and writable by no other user. In a directory with the sticky bit, such as `/tmp`, only a component's owner may rename
//! it, so the component must be the user's or root's.
//!
//! The components are checked from the root downwards. When one is found safe, no other user can change where the path up
//! to it leads. So each result holds afterwards too, and no component is checked twice.
//!
//! The directory where a burst tier lands is often below one that belongs to a project: its owner and its group work there, and are trusted
//! with what the job writes. Only directories into which every user may write are unsafe on the way to it.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::process::geteuid;

const STICKY: u32 = 0o1000;
/// Bits of a mode that let others write. With an ACL those of the group bound what it grants.
const OTHERS_WRITE: u32 = 0o022;
/// The bit of a mode that lets every user write.
const ALL_WRITE: u32 = 0o002;

/// Whose files look like when their owner has no number in this user namespace (`/proc/sys/kernel/overflowuid`).
const UNMAPPED: u32 = 65_534;

/// Links that are followed one after the other, as `path_resolution(7)` has it.
const LINKS_MAX: usize = 40;

/// The length of the only line of `/proc/self/uid_map` in the namespace that the machine started with.
const ALL_USERS: &str = "4294967295";

/// Checks `path`, absolute and without links, as far as it exists.
///
/// # Errors
/// With the first directory that others may change, and what to do.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let components: Vec<&Path> = path.ancestors().collect();
    for component in components.into_iter().rev() {
        let found = match fs::symlink_metadata(component) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.with_context(|| format!("cannot look at {}", component.display()))?,
        };
        if found.is_symlink() {
            bail!("{} has just become a symbolic link; somebody else may have made it", component.display());
        }
        check_owner(component, &found)?;
        check_mode(component, &found, OTHERS_WRITE)?;
    }
    Ok(())
}

/// Checks that not every user can change what `path` leads to, with links followed. The directory itself may be open to all.
///
/// # Errors
/// With the first directory that every user may change, and what to do.
pub fn check_way_to(path: &Path) -> anyhow::Result<()> {
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let mut rest: Vec<PathBuf> = parts(path);
    while let Some(part) = rest.pop() {
        let next = at.join(&part);
        match part.components().next() {
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::Normal(_)) => {
                let look = |path: &Path| {
                    fs::symlink_metadata(path).with_context(|| format!("cannot look at {}", path.display()))
                };
                let (above, found) = (look(&at)?, look(&next)?);
                check_mode(&at, &above, ALL_WRITE)?;
                if found.is_symlink() {
                    links += 1;
                    ensure!(links <= LINKS_MAX, "{} is one of too many links", next.display());
                    rest.extend(parts(&fs::read_link(&next)?));
                } else {
                    at = next;
                }
            }
            _ => at = next,
        }
    }
    Ok(())
}

/// The components of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

fn check_owner(path: &Path, found: &Metadata) -> anyhow::Result<()> {
    let owner = found.uid();
    let is_trusted = owner == geteuid().as_raw() || owner == 0 || owner == UNMAPPED && is_in_user_namespace();
    ensure!(is_trusted, "{} belongs to user {owner}, who could put something else in its place", path.display());
    Ok(())
}

fn check_mode(path: &Path, found: &Metadata, writable: u32) -> anyhow::Result<()> {
    let mode = found.mode() & 0o7777;
    let is_open = found.is_dir() && mode & writable != 0 && mode & STICKY == 0;
    let remedy = if writable == ALL_WRITE { "chmod o-w or chmod +t" } else { "chmod go-w" };
    ensure!(!is_open, "others may write to it: {} has mode {mode:04o}; {remedy} it", path.display());
    Ok(())
}

/// Whether there are users who have no number here. Root, whose the directories at the top are, may be one of them.
fn is_in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().nth(2).is_some_and(|length| length != ALL_USERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn every_directory_counts_and_what_is_missing_does_not() {
        let temporary = tempfile::tempdir().unwrap();
        let base = temporary.path().canonicalize().unwrap();
        let middle = base.join("middle");
        fs::create_dir_all(middle.join("view")).unwrap();
        let with_mode = |mode| {
            fs::set_permissions(&middle, fs::Permissions::from_mode(mode)).unwrap();
            check(&middle.join("view")).map_err(|error| error.to_string())
        };
        for safe in [0o755, 0o700, 0o1777] {
            assert_eq!(with_mode(safe), Ok(()), "{safe:o}");
        }
        for open in [0o777, 0o775, 0o757] {
            let refused = with_mode(open).unwrap_err();
            assert!(refused.contains("others may write to it") && refused.contains("middle has mode"), "{refused}");
        }
        assert!(check(&middle.join("none/view")).is_err(), "what is there counts");
        assert_eq!(with_mode(0o755), Ok(()));
        check(&middle.join("none/view")).unwrap();
        std::os::unix::fs::symlink("view", middle.join("link")).unwrap();
        assert!(check(&middle.join("link/x")).unwrap_err().to_string().contains("symbolic link"));
    }

    #[test]
    fn a_way_counts_with_its_links_and_without_its_end() {
        let temporary = tempfile::tempdir().unwrap();
        let base = temporary.path().canonicalize().unwrap();
        let [safe, open, end] = ["safe", "open", "open/end"].map(|name| base.join(name));
        fs::create_dir(&safe).unwrap();
        fs::create_dir_all(&end).unwrap();
        let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let is_refused = |path: &Path| check_way_to(path).is_err_and(|error| error.to_string().contains("others may"));
        chmod(&end, 0o777);
        check_way_to(&end).unwrap();
        std::os::unix::fs::symlink("../open/end", safe.join("link")).unwrap();
        std::os::unix::fs::symlink(&safe, open.join("back")).unwrap();
        for mode in [0o777, 0o757] {
            chmod(&open, mode);
            assert!(is_refused(&end) && is_refused(&safe.join("link")), "{mode:o}");
            assert!(is_refused(&open.join("back")), "{mode:o}: others may exchange the link");
            check_way_to(&open.join("../safe")).unwrap();
        }
        // A project's group writes to its directory.
        for mode in [0o1777, 0o2775] {
            chmod(&open, mode);
            for way in [&end, &safe.join("link"), &open.join("back"), &open] {
                check_way_to(way).unwrap();
            }
        }
        std::os::unix::fs::symlink("loop", safe.join("loop")).unwrap();
        assert!(check_way_to(&safe.join("loop")).unwrap_err().to_string().contains("too many links"));
    }
}
