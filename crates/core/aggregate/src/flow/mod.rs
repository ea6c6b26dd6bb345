//! The flow model: how long a placed exchange takes.
//!
//! Bytes move as flows that share links max-min fairly (`fluid`); which flows there are when is the exchange's own logic
//! (`exchange`): rounds, buffers, I/O nodes. Both are exact but for rounding; nothing is sampled and nothing is random.

mod exchange;
mod fluid;

pub use exchange::{Flowed, simulate};

#[cfg(test)]
mod tests;
