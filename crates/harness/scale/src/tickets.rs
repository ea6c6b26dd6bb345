//! Tickets by which a core answers its peers name their requests.

use forebay_read::{AttemptId, PeerTicket};

use super::files::PathIndex;
use super::network::NodeIndex;

/// The requester for this node's own parcels, which is no node.
pub(super) const OWN: NodeIndex = (1 << 24) - 1;

/// The ticket of a listing that this node's own parcels need.
pub(super) fn own_ticket(dir: PathIndex) -> PeerTicket {
    ticket(OWN, AttemptId(u64::from(dir)))
}

/// A peer's ticket names its request: who asked, and under which number.
pub(super) fn ticket(from: NodeIndex, call: AttemptId) -> PeerTicket {
    PeerTicket(u64::from(from) << 40 | call.0)
}

pub(super) fn asker(ticket: PeerTicket) -> (NodeIndex, AttemptId) {
    ((ticket.0 >> 40) as NodeIndex, AttemptId(ticket.0 & ((1 << 40) - 1)))
}
