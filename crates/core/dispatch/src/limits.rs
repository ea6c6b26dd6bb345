//! The limits of dispatch, each with its reason.

use std::time::Duration;

/// How long nothing may be heard of a node that is asked something before it is asked whether it is there.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// How long a node may take to say that it is there; then it is bypassed. A node that is merely busy answers in a few
/// milliseconds, also while the backing file system hangs.
pub const PING_DEADLINE: Duration = Duration::from_secs(1);

/// How often silent nodes, slow requests and what else depends on time are looked for.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How long a bypassed node is left alone before it is asked again whether it is there: doubled each time, up to the
/// second. A node that comes back is used again within the first seconds; one that does not costs next to nothing.
pub const SUSPICION_FIRST: Duration = Duration::from_millis(250);
/// The longest of these times.
pub const SUSPICION_LONGEST: Duration = Duration::from_secs(15);

/// The budget of hedges: one for so many requests, and so many at once after a quiet time.
pub const REQUESTS_PER_HEDGE: u32 = 50;
/// Hedges that may be saved up.
pub const HEDGES_SAVED_MAX: u32 = 16;

/// Fallback reads: reads of the backing file system by a node that is cut off from all that may be root, so many a second,
/// and so many at once after a quiet time. A whole job that is cut off must not become the storm it was started against.
pub const FALLBACK_READS_PER_SECOND: u32 = 20;
/// Fallback reads that may be saved up: the files of a small program.
pub const FALLBACK_READS_SAVED_MAX: u32 = 64;

/// How much longer than others a node takes to send a chunk, at least, before others are asked in its place. Links that carry the same
/// differ by less.
pub const STRAGGLER_FACTOR: u32 = 8;
/// How long it takes at least: a shorter time holds nobody up.
pub const STRAGGLER_MIN: Duration = Duration::from_millis(100);
/// For how long all that it sends is so slow: a busy processor may stop a daemon for a second.
pub const STRAGGLER_AFTER: Duration = Duration::from_millis(1500);
/// Chunks within this time, at least.
pub const STRAGGLER_BODIES_MIN: usize = 2;
/// After this time without a slow chunk it counts as new.
pub const STRAGGLER_FORGOTTEN_AFTER: Duration = Duration::from_secs(5);
/// After so long without a look at the time, this node itself may have stood still.
pub const STOOD_STILL: Duration = Duration::from_millis(500);
/// Chunks of a node from which its pace is known.
pub const PACE_MIN: u32 = 4;
/// How long it is left alone: doubled each time, up to the second. A reader that asks it again waits about two seconds to find it as slow.
pub const LEFT_ALONE_FIRST: Duration = Duration::from_secs(30);
/// The longest of these times.
pub const LEFT_ALONE_LONGEST: Duration = Duration::from_secs(300);

/// How often a request follows a referral: nodes that have a chunk in turn form chains of up to 16, and some may be lost on the way.
pub const REFERRALS_MAX: u32 = 40;

/// How much earlier than a deadline a peer may give up that was told it in whole milliseconds, with a moment on the way.
pub const DEADLINE_ROUNDING: Duration = Duration::from_millis(2);

/// How often a node that asks nothing asks its parent whether it is there: so it learns of a refresh that it missed, and
/// of a parent that is lost before a program waits for it.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// How long a node is not asked again for something of which it sent spoilt bytes: longer than any request may take.
pub const PASSED_OVER_FOR: Duration = Duration::from_secs(60);

/// For how many things: a node whose memory fails spoils few, and the oldest may be tried again.
pub const PASSED_OVER_MAX: usize = 256;
