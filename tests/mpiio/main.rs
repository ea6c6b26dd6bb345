//! The library for MPI-IO programs, preloaded into real programs under real MPIs: the same bytes as without it, by fewer requests.
//!
//! Programs are in `programs/`, and compiled for each MPI. Each is run plain and with the library over files of their own,
//! which must be equal.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use forebay_tests::job::binary;
use forebay_tests::mpi::{Bench, MPICH, Mpi, OPEN_MPI, Way, libraries};
use forebay_tests::program::{file_of_tests, run};
use forebay_tests::require;
use serde_json::Value;

mod bytes;
mod corners;
mod declared;
mod ends;
mod faults;
mod fortran;
mod gates;
mod order;
mod other_programs;
mod requests;

macro_rules! require_mpi {
    (mpich) => {
        require!(Command("mpicc.mpich"), Command("mpiexec.mpich"))
    };
    (openmpi) => {
        require!(Command("mpicc.openmpi"), Command("mpirun.openmpi"))
    };
}

pub(crate) use require_mpi;

/// For an MPI of this machine.
fn bench(mpi: Mpi) -> Bench {
    Bench::new(mpi, &file_of_tests(".."))
}

/// With the library, which holds what it can until a sync: so every call of a program goes through it, whatever comes between.
fn held<'a>(ranks: usize) -> Way<'a> {
    Way::aggregated(ranks).with("FOREBAY_MPIIO_HOLD", "yes")
}

/// The output of `forebay mpiio --explain` about a file.
fn explained(bench: &Bench, file: &Path) -> Value {
    let mut command = Program::new(binary());
    command.env("FOREBAY_MPIIO_RECORDS", bench.records()).args(["mpiio", "--json", "--explain"]).arg(file);
    serde_json::from_str(&run(&mut command).text()).unwrap()
}

/// Runs a program plain and with the library, each over a file of its own. The files must be equal. Returns what the program
/// printed, and what the command says of the file, of the second.
#[track_caller]
fn compare(bench: &Bench, way: &Way<'_>, program: &Path, arguments: &[&str]) -> (String, Value) {
    let (printed, mut records) = compare_all(bench, way, program, arguments, 1);
    (printed, records.remove(0))
}

/// The same for a program that writes several files, whose names it numbers: `FILE`, `FILE.1` and so on.
#[track_caller]
fn compare_all(bench: &Bench, way: &Way<'_>, program: &Path, arguments: &[&str], files: usize) -> (String, Vec<Value>) {
    let mut printed = String::new();
    let without = Way { preloads: false, environment: way.plain_environment.clone(), ..way.clone() };
    let numbered =
        |name: &str, file: usize| bench.path(&if file == 0 { name.into() } else { format!("{name}.{file}") });
    for (name, way) in [("plain", &without), ("aggregated", way)] {
        (0..files).for_each(|file| drop(fs::remove_file(numbered(name, file))));
        let first = numbered(name, 0);
        let all: Vec<&str> = [first.to_str().unwrap()].into_iter().chain(arguments.iter().copied()).collect();
        let done = bench.run(way, program, &all);
        assert!(done.status.success(), "{} {all:?}: {}: {}", program.display(), done.status, done.stderr);
        printed = done.text();
    }
    for file in 0..files {
        let (one, other) =
            (fs::read(numbered("plain", file)).unwrap(), fs::read(numbered("aggregated", file)).unwrap());
        assert_eq!(one.len(), other.len(), "{} {arguments:?}, file {file}: sizes", program.display());
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        assert_eq!(differs, None, "{} {arguments:?}, file {file}: first byte that differs", program.display());
    }
    (printed, (0..files).map(|file| explained(bench, &numbered("aggregated", file))).collect())
}
