//! The core of a node: the state machines of its paths. Today that is one, the read path (`forebay_read`).
//!
//! # Order of calls
//! A shell has one node and drives each path of it as that path's head says. What the paths of a node share lies in the
//! crates below: who asks whom (`forebay_overlay`), requests and attempts (`forebay_dispatch`), what is kept within one
//! budget (`forebay_cache`). What concerns the job and no path, such as when it is up, is `forebay_job`'s.

pub use forebay_read::*;
