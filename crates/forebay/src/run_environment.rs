//! Variables that programs of `run` find because of the burst tier.

use std::ffi::{OsStr, OsString};

use forebay_keeper::own_paths::BurstPlaces;

/// Where the burst mount is.
const BURST: &str = "FOREBAY_BURST";

/// Variables that have MPI libraries lock what they read and write. Bytes on the burst tier are seen on other nodes when their writer gives a lock
/// back, and MPI programs rely on a barrier alone, or on less.
const MPI_LOCKS: [(&str, &str); 2] = [
    // ROMIO, in MPICH and what is made from it, and in Open MPI: as on NFS, whose clients cache too.
    ("ROMIO_FSTYPE_FORCE", "nfs:"),
    // Open MPI's own: the ranges that are accessed.
    ("OMPI_MCA_fs_ufs_lock_algorithm", "3"),
];

/// Variables and their values, where the environment as it `is` does not have them.
pub fn of_burst_tier(
    burst: Option<&BurstPlaces>,
    locks: bool,
    is: impl Fn(&str) -> Option<OsString>,
) -> Vec<(&'static str, OsString)> {
    let Some(burst) = burst else { return vec![] };
    let of_mpi = MPI_LOCKS.iter().filter(|(name, _)| locks && burst.is_shared && is(name).is_none());
    let of_mpi = of_mpi.map(|(name, value)| (*name, OsStr::new(value).to_owned()));
    std::iter::once((BURST, burst.base().into())).chain(of_mpi).collect()
}
