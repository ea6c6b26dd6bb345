//! The tests' names for what they share with the measurements.

pub use forebay_testkit::*;
