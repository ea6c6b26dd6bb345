//! The scale model: how long a job's start takes on machines that we do not have.
//!
//! The cores are the daemon's (`forebay_read::ReadPath`, `forebay_job::Readiness`, `forebay_overlay::Forest`); what they
//! run on is a model made of queues: links (`network`), the backing file system (`backing`), processors, programs that
//! ask one thing after the other (`program`, with the script from `synthetic` or `replay`). `job` has the nodes; `starting`
//! and `steps` (of programs), `shell` (around cores), `builder` and `filling` (parcels made and taken apart) and `run` (the
//! order of events) bring the two together. The baselines (`baselines`, `copper`) run on the same network and
//! file system.
//!
//! Every number that goes in is in `parameters` and `published`, with its source; every number that comes out is called
//! a model's. docs/scale.md says how far it was checked against real runs, and where it cannot be trusted.
//!
//! All nodes are there, each with a whole core. The script keeps 100,000 of them small: one file or chunk of the
//! model stands for several (`Grain`), the same at every number of nodes.

mod aggregation;
mod backing;
pub mod baselines;
mod bodies;
mod builder;
mod checkpoint;
pub mod copper;
mod cpu;
mod curves;
mod files;
mod filling;
mod job;
mod launch;
mod making;
mod network;
mod pack;
pub mod parameters;
mod plot;
mod predictions;
mod program;
mod published;
mod replay;
mod reproductions;
mod run;
mod scenarios;
mod servers;
mod shell;
mod starting;
mod stated;
mod steps;
mod storm;
mod synthetic;
mod table;
mod tickets;
mod weights;

pub use cpu::Cpu;
pub use curves::default_forest;
pub use job::Loss;
pub use plot::svg;
pub use replay::Replay;
pub use scenarios::{SCENARIOS, Scenario, find};
pub use stated::{
    CopperParameters, DaemonParameters, FileSystemParameters, Machine, ModelParameters, NetworkParameters,
    StartParameters, Stated, Workload,
};
pub use storm::{Figures, Storm};
pub use synthetic::Grain;
pub use table::{Bar, Curve, Outcome};
