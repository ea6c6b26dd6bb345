//! The read path of nodes that ask each other, in virtual time.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod broadcast;
mod by_hand;
mod cut_off;
mod epochs;
mod node;
mod pages;
mod parcels;
mod priority;
mod spoiled;
