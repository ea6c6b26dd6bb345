//! The parts that all paths of a daemon share: its node, its clock, its connections, its part in the start of the job,
//! and requests about the job. This module knows no path.

pub mod gather;
pub mod node;
pub mod pool_task;
pub mod readiness;
