//! The library for MPI-IO programs, preloaded into real programs under real MPIs: the same bytes as without it, by fewer requests.
//!
//! Programs are in `programs/`, and compiled for each MPI. Each is run plain and with the library over files of their own,
//! which must be equal.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::OnceLock;

use forebay_tests::job::binary;
use forebay_tests::program::{Finished, file_of_tests, run};
use forebay_tests::require;
use serde_json::Value;
use tempfile::TempDir;

mod bytes;
mod declared;
mod faults;
mod fortran;
mod other_programs;
mod requests;

/// An MPI of the machine.
#[derive(Clone, Copy)]
struct Mpi {
    name: &'static str,
    compiler: &'static str,
    fortran: &'static str,
}

const MPICH: Mpi = Mpi { name: "mpich", compiler: "mpicc.mpich", fortran: "mpif90.mpich" };
const OPEN_MPI: Mpi = Mpi { name: "openmpi", compiler: "mpicc.openmpi", fortran: "mpif90.openmpi" };

macro_rules! require_mpi {
    (mpich) => {
        require!(Command("mpicc.mpich"), Command("mpiexec.mpich"))
    };
    (openmpi) => {
        require!(Command("mpicc.openmpi"), Command("mpirun.openmpi"))
    };
}

pub(crate) use require_mpi;

/// Programs, files and records of one test, gone with it.
struct Bench {
    mpi: Mpi,
    base: TempDir,
}

/// How a program is run.
#[derive(Clone, Default)]
struct Way<'a> {
    ranks: usize,
    /// With the library.
    preloads: bool,
    /// Under Open MPI by its own I/O instead of ROMIO, whose non-blocking collective calls crash there (4.1.4).
    by_ompio: bool,
    /// Of the plain run that it is compared with.
    plain_environment: Vec<(&'a str, String)>,
    environment: Vec<(&'a str, String)>,
}

impl<'a> Way<'a> {
    fn plain(ranks: usize) -> Self {
        Self { ranks, ..Self::default() }
    }

    fn aggregated(ranks: usize) -> Self {
        Self { ranks, preloads: true, ..Self::default() }
    }

    fn by_ompio(mut self) -> Self {
        self.by_ompio = true;
        self
    }

    fn with(mut self, name: &'a str, value: impl ToString) -> Self {
        self.environment.push((name, value.to_string()));
        self
    }
}

/// The libraries beside the command, built once for all tests of this process.
fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = binary().parent().unwrap().to_owned();
        let archive = directory.join("libforebay_mpiio.a");
        assert!(archive.is_file(), "{}: cargo rustc -p forebay-mpiio --lib --crate-type staticlib", archive.display());
        let built = run(Program::new(file_of_tests("../packaging/mpiio.sh")).arg(archive).arg(&directory)).good();
        assert!(!built.stderr.contains("warning"), "{}", built.stderr);
        directory
    })
}

fn library(mpi: Mpi) -> PathBuf {
    libraries().join(format!("libforebay_mpiio_{}.so", mpi.name))
}

impl Bench {
    fn new(mpi: Mpi) -> Self {
        let base = tempfile::Builder::new().prefix("forebay-test-").tempdir().unwrap();
        Self { mpi, base }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn records(&self) -> PathBuf {
        self.path("records")
    }

    /// Compiles a program of `programs/`.
    fn compile(&self, source: &str) -> PathBuf {
        let compiler = if source.ends_with(".c") { self.mpi.compiler } else { self.mpi.fortran };
        let program = self.path(source.split('.').next().unwrap());
        let source = file_of_tests("mpiio/programs").join(source);
        let module = self.base.path();
        let mut compile = Program::new(compiler);
        compile.current_dir(module).args(["-O1", "-o"]).arg(&program).arg(source);
        let _ = run(&mut compile).good();
        program
    }

    /// Runs a program on several ranks.
    fn run(&self, way: &Way<'_>, program: &Path, arguments: &[&str]) -> Finished {
        let mut environment = way.environment.clone();
        environment.push(("FOREBAY_MPIIO_RECORDS", self.records().display().to_string()));
        if way.preloads {
            environment.push(("LD_PRELOAD", library(self.mpi).display().to_string()));
        }
        run(self.launcher(way, &environment).arg(program).args(arguments))
    }

    /// Not in the launcher's own environment, or it would be preloaded itself.
    fn launcher(&self, way: &Way<'_>, environment: &[(&str, String)]) -> Program {
        let ranks = way.ranks.to_string();
        if self.mpi.name == "mpich" {
            let mut launcher = Program::new("mpiexec.mpich");
            launcher.args(["-n", &ranks]);
            launcher.args(environment.iter().flat_map(|(name, value)| ["-genv", name, value]));
            return launcher;
        }
        let mut launcher = Program::new("mpirun.openmpi");
        launcher.args(["--allow-run-as-root", "--oversubscribe", "--quiet", "--mca", "mpi_yield_when_idle", "1"]);
        // The reference is ROMIO under both; a container has neither InfiniBand nor a second host.
        launcher.args([
            "--mca",
            "io",
            if way.by_ompio { "ompio" } else { "romio321" },
            "--mca",
            "btl",
            "self,vader",
            "--mca",
            "plm_rsh_agent",
            "/bin/false",
        ]);
        launcher.args(["--mca", "btl_vader_single_copy_mechanism", "none", "-n", &ranks]);
        launcher.args(environment.iter().flat_map(|(name, value)| ["-x".to_owned(), format!("{name}={value}")]));
        launcher
    }

    /// What `forebay mpiio --explain` says of a file.
    fn explained(&self, file: &Path) -> Value {
        let mut command = Program::new(binary());
        command.env("FOREBAY_MPIIO_RECORDS", self.records()).args(["mpiio", "--json", "--explain"]).arg(file);
        serde_json::from_str(&run(&mut command).text()).unwrap()
    }

    /// Runs a program plain and with the library, each over a file of its own. The files must be equal. Returns what the program
    /// printed, and what the command says of the file, of the second.
    #[track_caller]
    fn compare(&self, way: &Way<'_>, program: &Path, arguments: &[&str]) -> (String, Value) {
        let mut printed = String::new();
        let (plain, aggregated) = (self.path("plain"), self.path("aggregated"));
        let without = Way { preloads: false, environment: way.plain_environment.clone(), ..way.clone() };
        for (file, way) in [(&plain, &without), (&aggregated, way)] {
            let _ = fs::remove_file(file);
            let all: Vec<&str> = [file.to_str().unwrap()].into_iter().chain(arguments.iter().copied()).collect();
            let done = self.run(way, program, &all);
            assert!(done.status.success(), "{} {all:?}: {}: {}", program.display(), done.status, done.stderr);
            printed = done.text();
        }
        let (one, other) = (fs::read(&plain).unwrap(), fs::read(&aggregated).unwrap());
        assert_eq!(one.len(), other.len(), "{} {arguments:?}: sizes", program.display());
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        assert_eq!(differs, None, "{} {arguments:?}: first byte that differs", program.display());
        (printed, self.explained(&aggregated))
    }
}
