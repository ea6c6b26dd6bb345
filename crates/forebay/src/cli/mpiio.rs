//! `mpiio`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The command's arguments.
#[derive(Args, Debug)]
#[command(after_help = "Hints are FOREBAY_MPIIO_AGGREGATORS, _BUFFER_BYTES, _STRATEGY and _AGGREGATION \
                        (automatic, enable, disable), or forebay_aggregators and so on in the program's MPI_Info; docs/mpiio.md \
                        describes them.\n\nExamples:\n  \
                        mpirun -x LD_PRELOAD=$(forebay mpiio --mpi openmpi) ./ior -a MPIIO -c\n  \
                        mpiexec -genv LD_PRELOAD $(forebay mpiio --mpi mpich) ./solver\n  \
                        forebay mpiio --explain /scratch/checkpoint.7")]
pub struct MpiioArguments {
    /// The program's MPI; auto: the MPI of the mpirun in PATH, or the only one with a library
    #[arg(long, value_enum, default_value = "auto")]
    pub mpi: MpiChoice,
    /// Show how the last run wrote FILE: aggregators, rounds, requests, missing bytes
    #[arg(long, value_name = "FILE")]
    pub explain: Option<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long, requires = "explain")]
    pub json: bool,
}

/// The MPI of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MpiChoice {
    /// Open MPI.
    Openmpi,
    /// MPICH, and what has its ABI: Intel MPI, MVAPICH, Cray MPICH.
    Mpich,
    /// Whichever is there.
    Auto,
}
