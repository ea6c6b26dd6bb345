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
mod declared;
mod faults;
mod fortran;
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

/// What `forebay mpiio --explain` says of a file.
fn explained(bench: &Bench, file: &Path) -> Value {
    let mut command = Program::new(binary());
    command.env("FOREBAY_MPIIO_RECORDS", bench.records()).args(["mpiio", "--json", "--explain"]).arg(file);
    serde_json::from_str(&run(&mut command).text()).unwrap()
}

/// Runs a program plain and with the library, each over a file of its own. The files must be equal. Returns what the program
/// printed, and what the command says of the file, of the second.
#[track_caller]
fn compare(bench: &Bench, way: &Way<'_>, program: &Path, arguments: &[&str]) -> (String, Value) {
    let mut printed = String::new();
    let (plain, aggregated) = (bench.path("plain"), bench.path("aggregated"));
    let without = Way { preloads: false, environment: way.plain_environment.clone(), ..way.clone() };
    for (file, way) in [(&plain, &without), (&aggregated, way)] {
        let _ = fs::remove_file(file);
        let all: Vec<&str> = [file.to_str().unwrap()].into_iter().chain(arguments.iter().copied()).collect();
        let done = bench.run(way, program, &all);
        assert!(done.status.success(), "{} {all:?}: {}: {}", program.display(), done.status, done.stderr);
        printed = done.text();
    }
    let (one, other) = (fs::read(&plain).unwrap(), fs::read(&aggregated).unwrap());
    assert_eq!(one.len(), other.len(), "{} {arguments:?}: sizes", program.display());
    let differs = one.iter().zip(&other).position(|(one, other)| one != other);
    assert_eq!(differs, None, "{} {arguments:?}: first byte that differs", program.display());
    (printed, explained(bench, &aggregated))
}
