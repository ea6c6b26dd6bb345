//! Holds: a file below a prefix of `--private` belongs to the node that writes it, until its programs have closed it.
//!
//! A hold is an exclusive lock of the node on a range that no program can lock, so the tree keeps it, its second home has it, and it
//! ends with the node as other locks do. Its owner is the number that the node's kernel knows the file's contents by (`identity`):
//! the next daemon finds it there.
//!
//! A file may have a name elsewhere, too. Nodes that write it there have shared locks on the same range (`refusal`), which end in the
//! same way: nobody holds it meanwhile.

use forebay_wire::write::{FileState, HeldLock, LockKind, LockRequest};

/// Where the range begins: programs' locks end before, at the largest offset of a file.
pub(crate) const START: u64 = 1 << 63;

/// The lock that is a hold of a file whose contents the kernel knows by `identity`.
#[must_use]
pub fn request(identity: u64) -> LockRequest {
    LockRequest {
        owner: identity,
        start: START,
        end: u64::MAX,
        kind: Some(LockKind::Exclusive),
        pid: 0,
        is_flock: false,
    }
}

/// What asks for anybody's hold of a file. Nothing has this identity.
#[must_use]
pub fn any() -> LockRequest {
    request(u64::MAX)
}

/// The lock of a node that writes a file elsewhere than below a prefix, where it has a name below one. Nothing has this identity.
#[must_use]
pub fn refusal() -> LockRequest {
    LockRequest { kind: Some(LockKind::Shared), ..request(u64::MAX - 1) }
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
