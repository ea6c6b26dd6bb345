//! Aggregation: few large writes, from the best placed nodes.
//!
//! Thousands of ranks that write small pieces of one file are gathered on aggregators first (two-phase I/O). This crate
//! plans that: how many aggregators, which part of the file each writes (its file domain), in how many rounds, and on which
//! nodes of the network. It moves no byte and asks nobody: what it needs is in the `Case`, and the same case gives the same
//! plan on every machine, so that ranks may each plan for themselves.
//!
//! A model scores each plan by flows that share links fairly (`flow`); `portfolio` tries every strategy and
//! keeps the best, so a plan is never worse, by the model, than any strategy alone.
//!
//! # Usage
//! Describe the case (`CaseDescription`), check it (`Case::new`), then `plan_best`, or `plan` for one strategy, or
//! `plan_all` to compare. With the `Plan`, rank and aggregator both find what goes from one to the other in a round by
//! `Aggregator::part`, each from the extents of the rank.

mod case;
mod checked;
mod described_network;
mod description;
mod division;
mod divisions;
mod domains;
mod error;
pub mod exercise;
mod extents;
mod flow;
mod formula;
pub mod limits;
mod plan;
mod portfolio;
mod seat;
mod strategy;
mod topology;

pub use case::Case;
pub use description::{
    Any, CaseDescription, FatTreeLevel, HostNames, IoNode, Nvme, RankDescription, RanksAlike, RanksDescription, Serves,
    SlurmSwitches, TopologyDescription,
};
pub use error::{CaseError, PlanError, UnknownStrategy};
pub use extents::{Extent, union, within};
pub use flow::Flowed;
pub use plan::{Aggregator, Plan, Predicted};
pub use portfolio::{Portfolio, plan, plan_all, plan_best};
pub use strategy::Strategy;
pub use topology::{Links, Network, Shape, Vertex};
