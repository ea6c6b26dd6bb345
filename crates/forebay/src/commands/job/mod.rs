//! A job as a whole: its start and end, its nodes, its state, and what it knows of a path.

pub mod debug;
mod debug_archive;
pub mod down;
pub mod escaping_paths;
pub mod explain;
pub mod host_ends;
pub mod logs;
pub mod metrics;
pub mod refresh;
pub mod replace;
pub mod report;
pub mod selection;
pub mod status;
pub mod status_jobs;
pub mod top;
mod unlanded_lines;
pub mod up;
pub mod up_direct;
mod up_report;
pub mod up_stopped;
mod users;
pub mod warmup;
