//! Connections between nodes over real sockets and over the network of simulated nodes.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod admission;
mod bodies;
mod calls;
mod corpora;
mod limits;
mod net;
mod pending;
mod ports;
mod promotion;
mod simulated;
