//! Writes of MPI programs: the library that aggregates them, and the plans that it follows.

pub mod mpiio;
pub mod plan;
pub mod plan_svg;
