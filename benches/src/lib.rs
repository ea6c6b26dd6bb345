//! Shared parts of the demo and the measurements beside the test kit and the trials: measured programs, cores over a network in
//! memory, requests and times of MPI programs.

pub mod latencies;
pub mod mpi_grid;
pub mod mpi_requests;
pub mod mpi_time;
pub mod overlay_job;
pub mod python;

pub use forebay_trial::{cpu, job, quiet, storm, table};
