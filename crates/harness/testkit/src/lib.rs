//! Shared parts of the product's tests and measurements: real jobs of the real command over real files, nodes
//! and programs to run on them, the test beds, and results to write down. The parts that `forebay try`
//! needs too are in `forebay-trial`, among them the modelled network file system.
//!
//! A test asks for what it needs (`require!`), builds a `Tree` of odd files, starts a `Job` over it and compares what
//! the views show with the source. A job that goes out of scope is taken down, and whatever it left behind fails the
//! test. The crate does not know Forebay's internals; it sees what a user sees.
//!
//! Two rules hold for measurements. A figure is computed from what was measured in the same run, never written by hand.
//! And everything that is started, mounted or made belongs to a guard that gives it back when it is dropped, on success,
//! on failure and on Ctrl-C alike ([`stop`]).

pub mod compare;
pub mod disk;
pub mod job;
pub mod memory_group;
pub mod mpi;
pub mod mpi_cluster;
pub mod need;
pub mod power;
pub mod processes;
pub mod program;
pub mod results;
pub mod sandbox;
pub mod site;
pub mod testbed;
pub mod tree;

pub use forebay_trial::{Place, machine, model, run, scratch, stop};
pub use job::{Failure, Job};
pub use program::Finished;
pub use sandbox::Sandbox;
pub use site::Site;
pub use tree::Tree;
