//! Finding programs as a shell finds them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where a shell would find it.
pub fn find_program(program: &OsStr, search: Option<OsString>) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return std::path::absolute(program).ok();
    }
    let directories: Vec<PathBuf> = std::env::split_paths(&search?).collect();
    let found = directories.into_iter().map(|directory| directory.join(program)).find(|path| is_program(path))?;
    std::path::absolute(found).ok()
}

/// Where a shell would find it, by this process' `PATH`.
pub fn in_path(program: &str) -> Option<PathBuf> {
    find_program(program.as_ref(), std::env::var_os("PATH"))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let temporary = tempfile::tempdir().unwrap();
        let search = std::env::join_paths(["first", "second"].map(|name| temporary.path().join(name))).unwrap();
        for (name, mode) in [("first/tool", 0o644), ("second/tool", 0o755)] {
            let path = temporary.path().join(name);
            std::fs::create_dir(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "x").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(find_program("tool".as_ref(), Some(search.clone())), Some(temporary.path().join("second/tool")));
        assert_eq!(find_program("none".as_ref(), Some(search.clone())), None);
        assert_eq!(find_program("/a/tool".as_ref(), Some(search)), Some("/a/tool".into()));
    }
}
