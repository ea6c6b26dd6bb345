//! Holds: a file below a prefix of `--private` belongs to the node that writes it, until its programs have closed it.
//!
//! A hold is an exclusive lock of the node on a range that no program can lock, so the tree keeps it, its second home has it, and it
//! ends with the node as other locks do. Its owner is the number that the node's kernel knows the file's contents by (`identity`):
//! the next daemon finds it there.
//!
//! A file may have a name elsewhere, too. Nodes that write it there have shared locks on the same range (`refusal`), which end in the
//! same way: nobody holds it meanwhile.
//!
//! A hold that others end, since its node is given up, lapses: the node may be back, with writes of its programs. It goes on with a lapsed
//! hold as long as no other node has had the file. Once one has, the hold is void. Uncommitted writes of the first node are then refused
//! (`REFUSED`), until it holds the file anew. Both are locks of their own, beyond the range of holds, so that the tree keeps them and they
//! conflict with no other lock.

use forebay_types::{Errno, NodeRank};
use forebay_wire::write::{FileState, HeldLock, LockKind, LockRequest};

/// Where the range begins: programs' locks end before, at the largest offset of a file.
pub(crate) const START: u64 = 1 << 63;

/// Where lapsed holds begin, one offset for each node: above the range of holds.
const LAPSED_START: u64 = START | 1 << 62;

/// The identity of a lapsed hold that is void. No contents have it.
const VOID: u64 = u64::MAX - 2;

/// The error for a write under a hold that ended before the commit, if another node has had the file since. The write cannot be
/// committed any more.
pub const REFUSED: Errno = Errno::ECANCELED;

/// The lock that is a hold of a file whose contents the kernel knows by `identity`.
#[must_use]
pub fn request(identity: u64) -> LockRequest {
    LockRequest {
        owner: identity,
        start: START,
        end: LAPSED_START - 1,
        kind: Some(LockKind::Exclusive),
        pid: 0,
        is_flock: false,
        handle: 0,
    }
}

/// The end of such a hold.
#[must_use]
pub fn end_of(identity: u64) -> LockRequest {
    LockRequest { kind: None, ..request(identity) }
}

/// A request for any node's hold of a file. No contents have its identity.
#[must_use]
pub fn any() -> LockRequest {
    request(u64::MAX)
}

/// The lock of a node that writes a file elsewhere than below a prefix, where it has a name below one. No contents have its identity.
#[must_use]
pub fn refusal() -> LockRequest {
    LockRequest { kind: Some(LockKind::Shared), ..request(u64::MAX - 1) }
}

/// The request of a node that has taken a file without opening it: its hold ends, unless it has the file open. No contents have its identity.
///
/// One operation does both, so a daemon that dies and the next one that repeats the request do no harm.
#[must_use]
pub fn unless_open() -> LockRequest {
    end_of(u64::MAX - 3)
}

/// A request for the lapsed hold of a node.
#[must_use]
pub fn lapsed_of(node: NodeRank) -> LockRequest {
    let at = LAPSED_START + u64::from(node.0);
    LockRequest { start: at, end: at, ..any() }
}

/// By which number the kernel of a node knows the contents that it held, if nobody has had the file since; of what `lapsed_of` has found.
#[must_use]
pub fn resumable(lapsed: &HeldLock) -> Option<u64> {
    (lapsed.owner != VOID).then_some(lapsed.owner)
}

/// The lock that remains when others end all locks of its node: a hold becomes a lapsed one.
pub(crate) fn lapse(held: HeldLock) -> Option<HeldLock> {
    if is_lapsed(&held) {
        return Some(held);
    }
    let LockRequest { start, end, .. } = lapsed_of(held.node);
    is_of_holds(held.start).then_some(held).filter(is_hold).map(|held| HeldLock {
        start,
        end,
        kind: LockKind::Shared,
        ..held
    })
}

/// The lapsed hold after `node` holds the file, or refuses holds of it.
pub(crate) fn overtake(lapsed: HeldLock, node: NodeRank) -> Option<HeldLock> {
    (lapsed.node != node).then_some(HeldLock { owner: VOID, ..lapsed })
}

/// Whether what is asked for is a hold of other contents than those that are there: one that goes on.
pub(crate) fn goes_on(request: &LockRequest, identity: u64) -> bool {
    is_of_holds(request.start) && request.kind == Some(LockKind::Exclusive) && request.owner != identity
}

/// Whether locks that begin there are holds, or refuse them.
pub(crate) fn is_of_holds(start: u64) -> bool {
    start == START
}

pub(crate) fn is_lapsed(held: &HeldLock) -> bool {
    held.start >= LAPSED_START
}

/// Whether nobody may commit what this lapsed hold is of.
pub(crate) fn is_void(lapsed: &HeldLock) -> bool {
    is_lapsed(lapsed) && lapsed.owner == VOID
}

/// Whether this is a hold, of what `any` has found in the way.
#[must_use]
pub fn is_hold(held: &HeldLock) -> bool {
    held.kind == LockKind::Exclusive
}

/// By which number the holder's kernel knows the contents.
#[must_use]
pub fn identity_of(held: &HeldLock) -> u64 {
    held.owner
}

/// Tells what a kernel that trusts its own size and times may have of a file from what it may not: another number after every
/// change of contents, and of the time of the last one, which such a kernel does not ask for again. Below 2^63.
#[must_use]
pub fn identity(state: &FileState) -> u64 {
    // FNV-1a.
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let mtime = state.attributes.mtime;
    let words = [state.version, mtime.seconds.cast_unsigned(), mtime.nanos.into()];
    let bytes = words.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(OFFSET, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(PRIME)) >> 1
}
