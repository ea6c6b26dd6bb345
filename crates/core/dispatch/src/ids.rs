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

/// Somebody who waits for a request.
pub trait Waiter {
    /// By what he is found again, to withdraw him or to raise his priority.
    type Id: Copy + Ord + Debug;

    /// `None` for one who never does either.
    fn id(&self) -> Option<Self::Id>;
}
