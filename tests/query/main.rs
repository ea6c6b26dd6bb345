//! Queries near the data, in real jobs: answers are the same bits whoever makes them, and whoever is lost meanwhile.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod arrays;
mod bed;
mod column;
mod decision;
mod lost;
mod near;
mod oracle;
mod refusals;
mod several;
mod sql;
mod zarr;
