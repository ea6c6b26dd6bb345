//! Messages of the library to people: complaints on standard error, and on standard output what they asked for.
//!
//! No message is printed by many ranks: callers are rank 0. A program that closed its output goes on.

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Variables by which launchers tell a process its rank; as in `shim/mpi_table.c`.
const LAUNCHERS: [&str; 4] = ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];

/// A complaint.
pub fn complain(what: impl Display) {
    let _ = writeln!(std::io::stderr(), "forebay-mpiio: {what}");
}

/// A complaint of which one is enough, by one process of the job as far as its launcher tells which it is.
pub fn complain_once(what: impl Display) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let is_first = LAUNCHERS.iter().find_map(|name| std::env::var(name).ok()).is_none_or(|rank| rank == "0");
    if is_first && !SAID.swap(true, Ordering::Relaxed) {
        complain(what);
    }
}

/// A hint that holds, as ROMIO prints its own with `ROMIO_PRINT_HINTS`.
pub fn print_hint(key: &str, value: impl Display) {
    let _ = writeln!(std::io::stdout(), "key = {key:<25} value = {value:<10}");
}
