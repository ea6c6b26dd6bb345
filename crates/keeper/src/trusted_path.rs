//! Whether a path leads where it does whatever other users do: no other user may rename or replace a component of it.
//!
//! A view is used by its path: by programs, and by `forebay run --view`. A user who may write to a directory on that path can put a
//! directory of his own in the view's place. The programs that the job's user then runs from it are his. So every directory must be the
//! user's or root's and writable by no other user. In a directory with the sticky bit, such as `/tmp`, only a component's owner may rename
//! it, so the component must be the user's or root's.
//!
//! The components are checked from the root downwards. When one is found safe, no other user can change where the path up
//! to it leads. So each result holds afterwards too, and no component is checked twice.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};
use rustix::process::geteuid;

const STICKY: u32 = 0o1000;
/// Bits of a mode that let others write. With an ACL those of the group bound what it grants.
const OTHERS_WRITE: u32 = 0o022;

/// Whose files look like when their owner has no number in this user namespace (`/proc/sys/kernel/overflowuid`).
const UNMAPPED: u32 = 65_534;

/// The length of the only line of `/proc/self/uid_map` in the namespace that the machine started with.
const ALL_USERS: &str = "4294967295";

/// Checks `path`, absolute and without links, as far as it exists.
///
/// # Errors
/// With the first directory that others may change, and what to do.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let unmapped_is_root = is_in_user_namespace();
    let is_trusted = |owner: u32| owner == geteuid().as_raw() || owner == 0 || unmapped_is_root && owner == UNMAPPED;
    let components: Vec<&Path> = path.ancestors().collect();
    for component in components.into_iter().rev() {
        let found = match fs::symlink_metadata(component) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found.with_context(|| format!("cannot look at {}", component.display()))?,
        };
        let shown = component.display();
        if found.is_symlink() {
            bail!("{shown} has just become a symbolic link; somebody else may have made it");
        }
        if !is_trusted(found.uid()) {
            bail!("{shown} belongs to user {}, who could put something else in its place", found.uid());
        }
        if found.is_dir() && found.mode() & OTHERS_WRITE != 0 && found.mode() & STICKY == 0 {
            let mode = found.mode() & 0o7777;
            bail!("others may write to it: {shown} has mode {mode:04o}; chmod go-w it");
        }
    }
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
}
