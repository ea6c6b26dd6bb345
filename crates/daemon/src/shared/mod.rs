//! What all paths of a daemon share: who this node is, its clock, its connections, its part in the start of the job, and
//! asking nodes about the job. Nothing here knows a path.

pub mod gather;
pub mod node;
pub mod readiness;
