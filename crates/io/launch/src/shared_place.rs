//! The place of this user's jobs on a host that is the same on every host, `/tmp/forebay-UID`, and what stands in for it where
//! another user has taken that name.
//!
//! Anybody may make a directory of any name in `/tmp`, but nobody can make one that belongs to somebody else. So a directory
//! of this user that nobody else may enter is his, whatever it is called. A stand-in has a random ending, which nobody can
//! take first. A search for a job goes through all stand-ins that are this user's own. No name has to be passed on or
//! remembered. Names that others planted are passed over. Their number has no limit here: one would be reached by them
//! alone, and hide what is looked for.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::private::{check_private, uid};
use crate::{LaunchError, base};

/// The names that jobs of one user may have their directories below.
#[derive(Debug)]
pub struct SharedPlace {
    /// Where anybody may make directories.
    root: PathBuf,
    /// The usual name.
    name: String,
}

impl SharedPlace {
    /// That of this user.
    #[must_use]
    pub fn of_this_user() -> Self {
        Self { root: "/tmp".into(), name: format!("forebay-{}", uid()) }
    }

    /// Under its usual name.
    #[must_use]
    pub fn usual(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// Where jobs may lie that were started below `base`: there and, if it is a name of this place, under all of its other
    /// names that are this user's.
    #[must_use]
    pub fn instead_of(&self, base: &Path) -> Vec<PathBuf> {
        if !self.is_name(base) {
            return vec![base.to_owned()];
        }
        let mut bases: Vec<PathBuf> = Some(base.to_owned()).filter(|base| !is_foreign(base)).into_iter().collect();
        let others = std::iter::once(self.usual()).chain(self.stand_ins());
        bases.extend(others.filter(|other| other != base && check_private(other).is_ok()));
        bases
    }

    /// Where a new job goes that is to go below `base`: there, unless it is a name of this place that another user has.
    ///
    /// # Errors
    /// `Io` when no stand-in can be made.
    pub fn free(&self, base: &Path) -> Result<PathBuf, LaunchError> {
        if !self.is_name(base) || !is_foreign(base) {
            return Ok(base.to_owned());
        }
        if let Some(found) = self.stand_ins().into_iter().next() {
            return Ok(found);
        }
        let mut ending = [0; 4];
        let failed = |path: &Path, error| LaunchError::io("create the directory", path, error);
        // Of this length the system gives all or fails.
        getrandom(&mut ending, GetRandomFlags::empty()).map_err(|errno| failed(&self.usual(), errno.into()))?;
        let path = self.root.join(format!("{}.{:08x}", self.name, u32::from_ne_bytes(ending)));
        base::make(&path).map_err(|error| failed(&path, error))?;
        Ok(path)
    }

    fn is_name(&self, base: &Path) -> bool {
        let name = base.file_name().and_then(|name| name.to_str());
        base.parent() == Some(&self.root) && name.is_some_and(|name| name == self.name || self.is_stand_in(name))
    }

    fn is_stand_in(&self, name: &str) -> bool {
        name.strip_prefix(&self.name).is_some_and(|ending| ending.starts_with('.'))
    }

    /// Those that are this user's and nobody else may enter.
    fn stand_ins(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| self.is_stand_in(name)));
        let mut own: Vec<PathBuf> =
            named.map(|entry| entry.path()).filter(|path| check_private(path).is_ok()).collect();
        own.sort();
        own
    }
}

/// Whether somebody else has that name.
fn is_foreign(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.uid() != uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobDirectory;

    /// A place whose usual name another user has, with a job of that name in it.
    fn taken() -> Option<(tempfile::TempDir, SharedPlace)> {
        if uid() != 0 {
            println!("skipped: only root can make a directory of somebody else");
            assert!(std::env::var_os("CI").is_none(), "must not be skipped in CI");
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let place = SharedPlace { root: root.path().to_owned(), name: "forebay-0".into() };
        for planted in [place.usual(), root.path().join("forebay-0.planted")] {
            fs::create_dir_all(planted.join("job")).unwrap();
            std::os::unix::fs::chown(&planted, Some(65_534), None).unwrap();
        }
        std::os::unix::fs::symlink("forebay-0.planted", root.path().join("forebay-0.link")).unwrap();
        Some((root, place))
    }

    #[test]
    fn another_users_directory_is_passed_over_and_the_stand_in_found_again() {
        let Some((root, place)) = taken() else { return };
        assert_eq!(place.instead_of(&place.usual()), [] as [PathBuf; 0], "nothing that was planted is believed");
        let stand_in = place.free(&place.usual()).unwrap();
        assert_ne!(stand_in, place.usual());
        assert!(JobDirectory::create(&stand_in, "job").unwrap().is_some());
        assert_eq!(place.free(&place.usual()).unwrap(), stand_in, "one is enough");
        let bases = place.instead_of(&place.usual());
        let found = JobDirectory::find(&bases, "job").unwrap().unwrap();
        assert_eq!(found.base(), stand_in);
        // The name is free again: the job is still found, by whatever name it is looked for.
        fs::remove_dir_all(place.usual()).unwrap();
        fs::create_dir(place.usual()).unwrap();
        for base in [place.usual(), stand_in.clone(), root.path().join("forebay-0.00000000")] {
            let found = JobDirectory::find(&place.instead_of(&base), "job").unwrap().unwrap();
            assert_eq!(found.base(), stand_in, "{base:?}");
        }
        found.remove().unwrap();
        assert!(!stand_in.exists(), "it goes with its last job");
    }

    #[test]
    fn a_directory_that_the_user_chose_has_no_stand_in() {
        let Some((root, place)) = taken() else { return };
        let chosen = root.path().join("chosen");
        assert_eq!(place.free(&chosen).unwrap(), chosen);
        assert_eq!(place.instead_of(&chosen), [chosen]);
    }
}
