//! `top`: a job's state on a terminal, live. A state machine: keys and answers come in with the time, a frame comes out. It
//! asks no daemon, reads no key and knows no clock; `commands/job/top.rs` does.
//!
//! A frame formats only the rows that the screen has, so that a job of thousands of nodes costs no more than a small one.

mod answer;
mod paint;
mod rates;
mod rows;
mod screens;
mod state;
#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use screens::draw;
pub use state::{Input, Key, Screen, Step, Top};
