//! The report of a job that has ended: from the last `status` of its daemons and the outcome of `down`.
//!
//! The report keeps the status as it was; figures come from it when it is shown, by the model that `status` itself uses (`health`).
//! This module asks no daemon and prints nothing.

mod chart;
mod end;
pub mod figures;
mod findings;
mod history;
mod html;
mod markup;
mod model;
mod pictures;
#[cfg(test)]
mod tests;
mod text;
mod tree;

pub use end::{End, Known};
pub use html::page;
pub use model::Report;
pub use text::{lines, side_by_side};
