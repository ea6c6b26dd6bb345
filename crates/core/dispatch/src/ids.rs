//! Numbers of requests, attempts and holds, and who waits.

use std::fmt::Debug;

/// The number of a request, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// The number of an attempt, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptId(pub u64);

/// A reason not to ask a request yet, by a number of the caller's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HoldId(pub u64);

/// A waiter for a request.
pub trait Waiter {
    /// The number by which it is withdrawn, or its priority raised.
    type Id: Copy + Ord + Debug;

    /// `None` if it is never withdrawn or raised.
    fn id(&self) -> Option<Self::Id>;
}
