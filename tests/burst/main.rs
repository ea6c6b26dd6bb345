//! The burst tier: what programs write is there at once, lands by itself, and survives the death of daemons; on one node and on
//! four.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod bed;
mod calls;
mod checkpoints;
mod conflicts;
mod deaths;
mod description_locks;
mod down;
mod extended;
mod four;
mod full;
mod holes;
mod in_place;
mod known;
mod large_trees;
mod lent_rights;
mod lesser_calls;
mod limits;
mod maps;
mod mpi;
mod order;
mod other_logs;
mod owed;
mod own_paths;
mod pages;
mod partner;
mod power_cuts;
mod power_of_a_writer;
mod promise;
mod query;
mod random;
mod refusals;
mod removed;
mod reserved;
mod rights;
mod room;
mod salvage;
mod stage;
mod stripes;
mod takeover;
mod unnamed;
mod vanishing;
mod waits;
mod whole;
