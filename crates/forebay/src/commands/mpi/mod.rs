//! Writes of MPI programs: the library that aggregates them, and the plans that it follows.

pub mod mpiio;
pub mod plan;
mod plan_picture;
mod reason;
