//! The core of what concerns the job as a whole: when it is up, and who is missing.
//!
//! # Order of calls
//! Time comes in as `now`, decisions go out of `poll_effect`. A node calls `Readiness::handle_ready` once it serves, hands
//! over every report of a node below (`handle_report`) and every answer to its own (`handle_answer`), and calls `run_timers`
//! when `poll_timeout` has passed; after each call it carries out what `poll_effect` gives.

mod merge;
mod readiness;
mod upstream;

pub use readiness::{Readiness, ReadinessEffect, ReadinessOptions, ReportAnswer};
pub use upstream::ReportTicket;
