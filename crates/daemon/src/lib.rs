//! The daemon of one node: cores, and the shells that carry out what they decide.
//!
//! `environment` says what all of it stands on: its `machine`, or a simulated one. `shared` is what all paths have in common: the node, its clock and connections, its part in the start of the job. `read`
//! is the read path, `write` the write path; others stand beside them, each with its own core, and none knows another. `job` is what concerns
//! the job over all paths, and hands other nodes' requests to the path that they are about. `driver` puts them together, and `run` is the daemon's life
//! around it.
//!
//! A daemon has a keeper (`forebay_keeper`), which gives it the mount and the sockets, and starts another when it dies.

mod driver;
pub mod environment;
pub mod exercise;
mod job;
pub mod limits;
mod machine;
mod options;
mod panics;
pub mod query;
mod read;
mod run;
mod shared;
mod walk;
mod write;

pub use driver::Driver;
pub use job::last_status::{LastEnd, LastStatus, LastStore};
pub use job::open_metrics::{Format as MetricsFormat, encode as encode_metrics};
pub use machine::{Threads as BackingPool, memory_bytes};
pub use options::{
    BurstOptions, CacheStoreOptions, Copied, DaemonOptions, DrainPolicy, JobLabels, Plan, ProfileOptions, ProfilePlace,
    ReportOptions, ShownLinks,
};
pub use panics::end_the_process;
pub use read::{ReadCore, Refreshed};
pub use run::run;
pub use walk::walk;
pub use write::{NotLanded, Progress, Salvage, SalvageEnd, WriteParts, holds_store, job_of_store};
