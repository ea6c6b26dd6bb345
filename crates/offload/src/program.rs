//! Where `forebay-sql` is: the program that has the engine of SQL, which neither the command nor the daemon links.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Its name.
const NAME: &str = "forebay-sql";

/// Names it where it lies elsewhere.
const VARIABLE: &str = "FOREBAY_SQL";

/// Bits of a mode: somebody may execute it, and all may write to it.
const EXECUTE: u32 = 0o111;
const OTHERS_WRITE: u32 = 0o002;

/// The one that is named, else beside this program, else in `PATH`. One that another user has put there is passed over.
pub fn sql_program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return Some(named.into());
    }
    let own = std::env::current_exe().ok();
    let owner = own.as_ref().and_then(|own| own.metadata().ok()).map(|metadata| metadata.uid());
    let beside = own.map(|own| own.with_file_name(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let places = beside.into_iter().chain(in_path.map(|directory| directory.join(NAME)));
    let users = [Some(0), Some(rustix::process::geteuid().as_raw()), owner];
    places.into_iter().find(|place| is_trusted(place, &users))
}

/// Whether a file is a program of one of these users, which no other may change.
fn is_trusted(place: &Path, users: &[Option<u32>]) -> bool {
    place.metadata().is_ok_and(|found| {
        let (mode, owner) = (found.mode(), found.uid());
        found.is_file() && mode & EXECUTE != 0 && mode & OTHERS_WRITE == 0 && users.contains(&Some(owner))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_that_others_made_or_may_change_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join(NAME);
        fs::write(&place, "").unwrap();
        let own = Some(rustix::process::geteuid().as_raw());
        let is_trusted_as = |mode: u32, users: &[Option<u32>]| {
            fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
            is_trusted(&place, users)
        };
        assert!(is_trusted_as(0o755, &[own]));
        assert!(!is_trusted_as(0o644, &[own]), "no program");
        assert!(!is_trusted_as(0o757, &[own]), "others may write");
        assert!(!is_trusted_as(0o755, &[own.map(|uid| uid + 1), None]), "another user's");
        assert!(!is_trusted(directory.path(), &[own]), "a directory");
    }
}
