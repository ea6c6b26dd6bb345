//! How long requests take: histograms by kind, the requests in flight, the slowest ones.
//!
//! A `Register` stands where requests of one sort begin and end: the kernel's, those at other nodes, those at the backing file system, those
//! at the log. Recording takes two readings of the clock and two short locks that hardly two threads share. Nodes send each other buckets
//! (`Latency`), so that a job's percentiles are those of all its requests.

mod histogram;
mod latency;
mod register;
mod slowest;

pub use histogram::{BUCKETS, Histogram, bucket_end_ns};
pub use latency::Latency;
pub use register::{Guard, Oldest, Register, Started};
pub use slowest::{SLOW_MIN, SLOWEST_MAX, SlowRequest, Subject, WINDOW};
