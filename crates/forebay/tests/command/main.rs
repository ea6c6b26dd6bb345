//! The command as a user runs it: real processes, real mounts, real files.

// Tests may panic: that is how they fail.
#![allow(clippy::unwrap_used)]

mod admission;
mod descriptions;
mod direct;
mod explained;
mod failed_start;
mod first_program;
mod hosts;
mod init;
mod interface;
mod landing_places;
mod leftovers;
mod local_job;
mod logs;
mod messages;
mod missing;
mod objects;
mod packed;
mod place;
mod plots;
mod profiles;
mod queries;
mod readiness;
mod reports;
mod settings;
mod silent_nodes;
mod taken_ports;
mod top;
mod tutorial;
mod usage;
