//! The node list of a job and the start of its daemons: on one machine, over a list of hosts, or under Slurm.
//!
//! This crate decides which hosts take part, where a job keeps its files, how a daemon is started there and when a
//! start has failed. It never speaks the overlay's protocol and never mounts: a daemon tells over its standard output
//! that it cannot start, one of them that all are ready, and everything after that goes through the daemon's control
//! socket. A daemon gets secrets by a descriptor or by its standard input, sealed by MUNGE where there is one. Starters differ only in
//! the command they run, so that one piece of code waits, collects the failures and cleans up for all of them.

mod address;
mod base;
mod direct;
mod error;
pub mod exercise;
mod gathered;
mod hostfile;
mod hosts;
mod job_directory;
mod job_end;
mod last_words;
pub mod limits;
mod local;
mod munge;
mod node_file;
mod ports;
mod private;
mod process;
mod records;
mod removal;
mod secret;
mod shared_place;
mod slurm;
mod start;
mod topology;

pub use address::{NodeAddress, ViewLayout};
pub use base::MARK;
pub use direct::{DirectRecord, state_directory, state_home};
pub use error::{LaunchError, MungeProblem};
pub use gathered::{Gathered, Slowest, Trouble};
pub(crate) use hostfile::check_host;
pub use hostfile::{expand_hostlist, parse_hostfile};
pub use hosts::{FailedCall, RemoteCall, host_starter};
pub use job_directory::{JobDirectory, check_job_name, session_base};
pub use job_end::job_end;
pub use local::{bind_listeners, local_starter};
pub use munge::{KeySealing, Munge};
pub use node_file::{NodeFile, check_no_flux_job};
pub use ports::Ports;
pub use process::{Forced, Process, ProcessSpace, end_all, wait_for_end};
pub use records::{JobRecord, Launcher, NodeRecord, Progress, StartTimes};
pub use removal::{CLOSED_MODE, open_closed};
pub use secret::{MemoryFile, handed_key, read_key};
pub use shared_place::SharedPlace;
pub use slurm::{Allocation, batch_script, slurm_starter};
pub use start::{Interrupt, StartFailure, Started, Starter, WhenMissing, start};
pub use topology::{TopologySource, in_order, switches_of, topology_file};
