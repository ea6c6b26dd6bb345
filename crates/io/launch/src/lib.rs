//! The node list of a job and the start of its daemons: on one machine, or on hosts by one of the launchers.
//!
//! This crate decides which hosts take part, where a job keeps its files, how a daemon is started there and when a
//! start has failed. It never speaks the overlay's protocol and never mounts: a daemon tells over its standard output
//! that it cannot start, one of them that all are ready, and everything after that goes through the daemon's control
//! socket. A daemon gets secrets by a descriptor, by its standard input or in a file of the start alone, sealed by MUNGE where there is
//! one. Starters differ only in the command they run, so that one piece of code waits, collects the failures and cleans up for all of them.

mod address;
mod allocation;
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
mod launchers;
pub mod limits;
mod local;
mod munge;
mod ports;
mod private;
mod process;
mod records;
mod removal;
mod script;
mod secret;
mod shared_files;
mod shared_place;
mod start;
mod topology;

pub use address::{NodeAddress, ViewLayout};
pub use allocation::{Allocation, Scheduler};
pub use base::MARK;
pub use direct::{DirectRecord, state_directory, state_home};
pub use error::{LaunchError, MungeProblem};
pub use gathered::{Gathered, Slowest, Trouble};
pub(crate) use hostfile::check_host;
pub use hostfile::{expand_hostlist, parse_hostfile};
pub use hosts::{FailedCall, Reach, RemoteCall};
pub use job_directory::{JobDirectory, check_job_name, session_base};
pub use job_end::job_end;
pub use launchers::{
    Launcher, LauncherName, NewJob, Spec, Surroundings, attach_to_pbs, batch_script, launcher, usual_launcher,
};
pub use local::{bind_listeners, local_starter};
pub use munge::{KeySealing, Munge};
pub use ports::Ports;
pub use process::{Forced, Process, ProcessSpace, end_all, wait_for_end};
pub use records::{JobRecord, Launched, NodeRecord, Progress, StartId, StartTimes};
pub use removal::{CLOSED_MODE, open_closed};
pub use script::job_script;
pub use secret::{MemoryFile, handed_key, read_key};
pub use shared_files::SharedFiles;
pub use shared_place::SharedPlace;
pub use start::{Interrupt, StartFailure, StartOptions, Started, Starter, Waiting, WhenMissing, start};
pub use topology::{TopologySource, in_order, switches_of, topology_file};
