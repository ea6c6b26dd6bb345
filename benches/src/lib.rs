//! What the demo and the measurements share: nodes and programs to run on them, a Forebay job, the GlusterFS test
//! bed, a modelled network file system, and the ways to write results down.
//!
//! Two rules hold everywhere. A figure is computed from what was measured in the same run, never written by hand. And
//! everything that is started, mounted or made belongs to a guard that gives it back when it is dropped, on success,
//! on failure and on Ctrl-C alike ([`stop`]).

pub mod cpu;
pub mod job;
pub mod machine;
pub mod model;
pub mod overlay_job;
mod place;
pub mod python;
pub mod results;
pub mod run;
pub mod scratch;
pub mod stop;
pub mod storm;
pub mod table;
pub mod testbed;

pub use place::Place;
