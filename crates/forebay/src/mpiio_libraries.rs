//! Where the libraries for MPI-IO programs are: beside this command, as `make build` leaves them, or in the `lib` beside its
//! `bin`, as `make install` does. The static binary is copied alone and has none.

use std::path::{Path, PathBuf};

/// The MPIs that there can be a library for.
pub const MPIS: [&str; 2] = ["openmpi", "mpich"];

/// From the directory of this command.
const PLACES: [&str; 3] = [".", "../lib", "../lib64"];

/// The library for an MPI.
#[must_use]
pub fn find(mpi: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let path = |place: &&str| program.parent().map(|directory| directory.join(place).join(name(mpi)));
    // Without `..` in it: it is shown, and travels to other hosts.
    PLACES.iter().filter_map(path).find(|path| path.is_file())?.canonicalize().ok()
}

/// All that are there, with their MPIs.
pub fn found() -> impl Iterator<Item = (&'static str, PathBuf)> {
    MPIS.into_iter().filter_map(|mpi| Some((mpi, find(mpi)?)))
}

/// The name of the library for an MPI.
#[must_use]
pub fn name(mpi: &str) -> String {
    format!("libforebay_mpiio_{mpi}.so")
}

/// Why a library cannot be preloaded by this path, if it cannot: the loader would take the parts of the path for several
/// libraries, ignore each, and run the program without this one.
#[must_use]
pub fn why_not_preloadable(path: &Path) -> Option<String> {
    let path = path.display().to_string();
    path.contains([' ', ':']).then(|| {
        format!(
            "LD_PRELOAD cannot name {path}: blanks and colons separate its entries; copy the library to a directory without \
             them, and preload that"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_loader_would_take_for_several_is_refused() {
        assert_eq!(why_not_preloadable(Path::new("/opt/forebay/lib/libforebay_mpiio_mpich.so")), None);
        for path in ["/opt/my tools/lib.so", "/opt/a:b/lib.so"] {
            let why = why_not_preloadable(Path::new(path)).unwrap();
            assert!(why.contains(path) && why.contains("copy the library"), "{why}");
        }
    }
}
