//! How long nodes wait for each other about the tree and its copies, in one place: which of them outlasts which is what makes them right.
//!
//! A node's clock may be slower or faster than another's by a tenth. All times are by the clock of the node that keeps them.

use std::time::Duration;

/// How long a voter keeps to the leader lease that it has granted.
pub const LEADER_LEASE: Duration = Duration::from_secs(3);

/// How long the leader counts on it, from when it asked.
pub const LEADER_LEASE_HELD: Duration = Duration::from_millis(2700);

/// How often the leader asks a member for the next leader lease: one question may be lost.
pub const RENEW_EVERY: Duration = Duration::from_millis(500);

/// How long it waits for the answer.
pub const RENEWED_WITHIN: Duration = Duration::from_secs(1);

/// The same while the leader has no leader lease.
pub const RENEW_RETRY_DELAY: Duration = Duration::from_millis(50);

/// How long a member is asked for its vote.
pub const VOTED_WITHIN: Duration = Duration::from_secs(1);

/// How long a follower's question waits at the leader for something to happen: the standby and the partners of logs follow alike.
pub const FOLLOWED_AFTER: Duration = Duration::from_millis(400);

/// How long an answer with room for more waits for that, while nobody waits for the follower.
pub const FOLLOWED_TOGETHER: Duration = Duration::from_millis(20);

/// How long the follower waits for the answer.
pub const FOLLOWED_WITHIN: Duration = Duration::from_secs(1);

/// How long the follower pauses where the leader did not answer.
pub const FOLLOW_RETRY_DELAY: Duration = Duration::from_millis(200);

/// A follower that has said nothing for so long is not waited for.
pub const FOLLOWER_SILENT: Duration = Duration::from_secs(5);

/// How often a caller that waits for the follower looks whether it is still waited for.
pub const FOLLOWER_LOOKED_AT_EVERY: Duration = Duration::from_millis(250);

/// A tree of which the standby has asked for no parts for so long is not kept for them.
pub const PARTS_KEPT: Duration = Duration::from_secs(10);

/// How often a partner asks which of its copies are needed.
pub const COPIES_LOOKED_AT_EVERY: Duration = Duration::from_millis(500);

/// How long it asks the node that has written them.
pub const COPIES_LOOKED_AT_WITHIN: Duration = Duration::from_secs(2);

/// How long the leader asks a node that begins, or that did not answer, whether its log has what the tree says.
pub const VERIFIED_WITHIN: Duration = Duration::from_millis(500);

/// The pause before it asks again.
pub const VERIFY_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How long a new leader asks each node for changes that the leader before has carried out: others may act against those that it does not
/// know. The leader before is not asked, so that this is waited for only where another node is silent, too.
pub const REPLAYED_WITHIN: Duration = Duration::from_secs(5);

/// How long a node may believe what the leader has told it. A node that is lost holds up changes of what it was told of for so long.
pub const LEASE_TTL: Duration = Duration::from_secs(5);

/// Within that a program has taken an answer that the daemon has given to the kernel.
pub const ANSWER_TAKEN_IN: Duration = Duration::from_secs(1);

/// How long the leader takes the node as believing that.
pub const LEASE_TTL_HELD: Duration = Duration::from_millis(5500);

/// How long the kernel of a leader before may believe what that told it, from when another one leads the tree: the leader tells its own kernel
/// nothing that outlasts its leader lease.
pub const BELIEVED_BY_LEADER_BEFORE: Duration = Duration::from_millis(500);

/// How long a daemon that owns a tree which another node has owned changes nothing on the backing file system: calls that the leader before has
/// begun while it had a leader lease are over then, unless they hang.
pub const LANDS_AFTER: Duration = Duration::from_secs(6);

/// How long a node that writes a stripe for the leader may begin calls for it, from when it asked the leader and that led the tree.
pub const STRIPE_LEASE: Duration = Duration::from_millis(2700);

const _: () = {
    // No member votes while the leader may count on its leader lease, also where its clock is slower by a tenth.
    assert!(LEADER_LEASE_HELD.as_millis() * 10 <= LEADER_LEASE.as_millis() * 9);
    // A renewal may be lost, and the next one is in time.
    assert!(RENEW_EVERY.as_millis() + RENEWED_WITHIN.as_millis() < LEADER_LEASE_HELD.as_millis());
    // The leader answers before the follower stops waiting.
    assert!((FOLLOWED_AFTER.as_millis() + FOLLOWED_TOGETHER.as_millis()) * 2 < FOLLOWED_WITHIN.as_millis());
    // A follower that misses an answer is heard of again, and more than once, before it is not waited for.
    assert!((FOLLOWED_WITHIN.as_millis() + FOLLOW_RETRY_DELAY.as_millis()) * 3 < FOLLOWER_SILENT.as_millis());
    // A caller notices soon that the follower is not waited for any more.
    assert!(FOLLOWER_LOOKED_AT_EVERY.as_millis() * 10 <= FOLLOWER_SILENT.as_millis());
    // A standby that comes back while it is still waited for goes on with the parts that it has.
    assert!(FOLLOWER_SILENT.as_millis() < PARTS_KEPT.as_millis());
    // A standby is not given up while it would rather take the tree over.
    assert!(LEADER_LEASE.as_millis() + FOLLOWED_WITHIN.as_millis() < FOLLOWER_SILENT.as_millis());
    // A question that a node asks beside a stripe may be lost, and the next one is in time.
    assert!(RENEW_EVERY.as_millis() + RENEWED_WITHIN.as_millis() < STRIPE_LEASE.as_millis());
    // Its last call has as long to end as it had to begin, before the next leader lands anything.
    assert!(STRIPE_LEASE.as_millis() * 2 < LANDS_AFTER.as_millis());
    // A node forgets before the leader goes on without telling it, also where the leader's clock is faster by a tenth.
    assert!(LEASE_TTL.as_millis() * 11 <= LEASE_TTL_HELD.as_millis() * 10);
};
