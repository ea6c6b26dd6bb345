//! Faults under load: a job of seven nodes, a reader on each of them, and something that breaks while they read.

mod contents;
pub mod kinds;
pub mod outcome;
mod readers;
pub mod trial;
