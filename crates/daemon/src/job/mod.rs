//! The job as a whole, over all paths: status, shutdown, explain, probe. They are asked for in two ways: other nodes'
//! requests (`incoming`) and the socket of the command (`control`).

pub mod control;
pub mod history;
pub mod incoming;
mod kept_file;
pub mod last_status;
pub mod latencies;
pub mod metrics;
pub mod metrics_server;
pub mod open_metrics;
mod query;
pub mod requests;
pub mod sampling;
pub mod status;
pub mod summed;
