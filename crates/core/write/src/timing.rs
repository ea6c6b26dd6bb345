//! How long nodes wait for each other about the tree, in one place: which of them outlasts which is what makes them right.
//!
//! A node's clock may be slower or faster than another's by a tenth. All times are by the clock of the node that keeps them.

use std::time::Duration;

/// How long a member of the council keeps to the tenure that it has granted.
pub const TENURE: Duration = Duration::from_secs(3);

/// How long the owner counts on it, from when it asked.
pub const TENURE_HELD: Duration = Duration::from_millis(2700);

/// How often the owner asks a member for the next tenure: one question may be lost.
pub const RENEW_EVERY: Duration = Duration::from_millis(500);

/// How long it waits for the answer.
pub const RENEWED_WITHIN: Duration = Duration::from_secs(1);

/// The same while the owner has no tenure.
pub const RENEW_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// How long a member is asked for its vote.
pub const VOTED_WITHIN: Duration = Duration::from_secs(1);

/// How long the second home's question waits at the owner for something to happen.
pub const FOLLOWED_AFTER: Duration = Duration::from_millis(400);

/// How long the second home waits for the answer.
pub const FOLLOWED_WITHIN: Duration = Duration::from_secs(1);

/// How long the second home pauses where the owner did not answer.
pub const FOLLOW_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// A second home that has said nothing for so long is not waited for.
pub const SECOND_HOME_SILENT: Duration = Duration::from_secs(5);

/// How long a new owner asks each node for changes that the owner before has carried out: others may act against those that it does not
/// know. The owner before is not asked, so that this is waited for only where another node is silent, too.
pub const HANDED_WITHIN: Duration = Duration::from_secs(5);

/// How long a node may believe what the owner has told it. A node that is lost holds up changes of what it was told of for so long.
pub const BELIEVED: Duration = Duration::from_secs(5);

/// How long the owner takes the node as believing that.
pub const BELIEVED_HELD: Duration = Duration::from_millis(5500);

/// How long the kernel of an owner before may believe what that told it, from when another one owns the tree: the owner tells its own kernel
/// nothing that outlasts its tenure.
pub const BELIEVED_BY_OWNER_BEFORE: Duration = Duration::from_millis(500);

/// How long a daemon that owns a tree which another node has owned changes nothing on the backing file system: calls that the owner before has
/// begun while it had a tenure are over then, unless they hang.
pub const LANDS_AFTER: Duration = Duration::from_secs(6);

const _: () = {
    // No member votes while the owner may count on its tenure, also where its clock is slower by a tenth.
    assert!(TENURE_HELD.as_millis() * 10 <= TENURE.as_millis() * 9);
    // A renewal may be lost, and the next one is in time.
    assert!(RENEW_EVERY.as_millis() + RENEWED_WITHIN.as_millis() < TENURE_HELD.as_millis());
    // The owner answers before the second home stops waiting.
    assert!(FOLLOWED_AFTER.as_millis() * 2 < FOLLOWED_WITHIN.as_millis());
    // A node whose daemon starts again is asked more than once.
    assert!(FOLLOWED_WITHIN.as_millis() * 3 < HANDED_WITHIN.as_millis());
    // A second home is not given up while it would rather take the tree over.
    assert!(TENURE.as_millis() + FOLLOWED_WITHIN.as_millis() < SECOND_HOME_SILENT.as_millis());
    // A node forgets before the owner goes on without telling it, also where the owner's clock is faster by a tenth.
    assert!(BELIEVED.as_millis() * 11 <= BELIEVED_HELD.as_millis() * 10);
};
