//! Trials on one machine: programs on several nodes over a modelled network file system, directly and through Forebay. `forebay
//! try`, the demo, the tests and the measurements share it.
//!
//! A trial drives the command as a user does ([`job`]). All that it starts, mounts or makes belongs to a guard that gives it back when it
//! is dropped, on success, on failure and on Ctrl-C alike ([`stop`]). Times count only where the machine was quiet ([`quiet`]).

pub mod cpu;
pub mod job;
pub mod machine;
pub mod model;
pub mod nodes;
mod place;
pub mod quiet;
pub mod run;
pub mod scratch;
pub mod show;
pub mod stop;
pub mod storm;
pub mod table;
pub mod traffic;

pub use place::Place;
