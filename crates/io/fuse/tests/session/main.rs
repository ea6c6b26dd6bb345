//! Sessions on real mounts, and against a kernel played over a socket.
//!
//! Tests that need what a machine may lack say so and are skipped; with `CI=true` a skip is a failure.

#![allow(clippy::unwrap_used)]

mod caching;
mod children;
mod contents;
mod fixture;
mod invalidations;
mod locks;
mod mounting;
mod notifications;
mod protocol;
mod resume;
mod tree;
mod unprivileged;
mod waiting;
