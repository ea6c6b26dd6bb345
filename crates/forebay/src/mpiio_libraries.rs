//! Where the libraries for MPI-IO programs are: beside this command, as `make build` leaves them, or in the `lib` beside its
//! `bin`, as `make install` does. The static binary is copied alone and has none.

use std::path::PathBuf;

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
