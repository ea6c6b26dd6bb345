//! Shared parts of the demo and the measurements beside the test kit: measured jobs and programs, storms of processes, cores
//! over a network in memory, requests and times of MPI programs, whether the machine was quiet, and tables.

pub mod cpu;
pub mod job;
pub mod latencies;
pub mod mpi_grid;
pub mod mpi_requests;
pub mod mpi_time;
pub mod overlay_job;
pub mod python;
pub mod quiet;
pub mod storm;
pub mod table;
