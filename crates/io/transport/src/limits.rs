//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

use std::time::Duration;

/// How much later than its neighbours a node may start to listen without being taken for lost.
pub const START_SKEW: Duration = Duration::from_millis(500);

/// How long whoever listens on one of a node's ports may take to shake hands before the next port is tried beside it.
/// Longer than a handshake takes within a cluster; where a node is slower, the attempts beside it are refused at once.
pub const PORT_PATIENCE: Duration = Duration::from_millis(250);

/// How long a peer may take to shake hands: a pending handshake must not hold a connection open for nothing.
pub const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);

/// Requests one peer may have under way at a node. A whole fan-out of busy children stays below it; above it the
/// connection is read no further, so that the child waits and nothing is lost.
pub const PEER_REQUESTS_MAX: usize = 1024;

/// Of these, requests that no program waits for yet. A node that makes parcels of small files sends thousands concurrently, and those
/// that a program waits for must find room beside them.
pub const PEER_REQUESTS_AHEAD_MAX: usize = PEER_REQUESTS_MAX / 4 * 3;

/// Bytes of the bodies that one peer may have under way at a node, at most: 32 chunks keep a link of 100 Gbit/s busy over 2 ms.
/// A node with a small budget or many children gives each of them less.
pub const PEER_BODIES_BYTES_MAX: usize = 32 << 20;

/// Bytes of one body that may be under way to a peer without its credit: two pieces keep a hop's pipe full (the
/// next piece is on its way while the last one is acknowledged).
pub const BODY_CREDIT_BYTES: usize = 512 << 10;

/// A body that travels on the control connection within its answer, bytes. 16 KiB hold almost every listing and small
/// file and delay a request behind them by 13 us at 10 Gbit/s.
pub const CONTROL_BODY_BYTES_MAX: usize = 16 << 10;

/// Frames that may wait for a connection's writer: a full window of requests, each promoted and cancelled, with credit. A
/// peer that lets more pile up has stopped reading, and its connection is closed.
pub const OUTBOX_FRAMES_MAX: usize = 5 * PEER_REQUESTS_MAX;

/// A handshake's message, bytes: a `Hello` with the longest job name is 150. A pending handshake is read no further.
pub const HELLO_BYTES_MAX: usize = 512;

/// Connections that have not shaken hands yet. A whole fan-out that starts at once comes through in some rounds, and
/// pending handshakes cost 256 descriptors and 2 MiB at most. One more takes the place of one of the source that has the
/// most (`transport::pending`), so that a flood keeps out itself and not the job's own nodes.
pub const PENDING_HANDSHAKES_MAX: usize = 256;

/// How long after a request's own deadline its answer is still sent: the peer gave up before, if its clock runs as ours.
pub const ANSWER_GRACE: Duration = Duration::from_secs(2);
