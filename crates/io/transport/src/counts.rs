//! Counts of an endpoint's work so far, for `status` and for tests.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of an endpoint's work since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Requests sent to peers.
    pub requests_sent: u64,
    /// Requests received from peers and handed to the service.
    pub requests_served: u64,
    /// Bytes written to connections, frames included.
    pub bytes_sent: u64,
    /// Bytes read from connections, frames included.
    pub bytes_received: u64,
    /// Connections open now, two for each peer that is asked and each that asks.
    pub connections: u64,
    /// Connections refused in the handshake: no daemons, other jobs, other levels, other versions.
    pub refused: u64,
    /// Connections that carried a frame or message that cannot be, or that was altered, and were closed for it.
    pub corrupt_frames: u64,
    /// Parts of bodies that came without the checksum they were sent with. Their calls failed.
    pub checksum_failures: u64,
}

/// The same, while it is counted. Relaxed: the numbers are read for people, nothing is ordered by them.
#[derive(Default)]
pub(crate) struct Counts {
    requests_sent: AtomicU64,
    requests_served: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
    refused: AtomicU64,
    corrupt_frames: AtomicU64,
    checksum_failures: AtomicU64,
}

impl Counts {
    pub(crate) fn request_sent(&self) {
        self.requests_sent.fetch_add(1, Relaxed);
    }

    pub(crate) fn request_served(&self) {
        self.requests_served.fetch_add(1, Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_sent.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.bytes_received.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn corrupt_frame(&self) {
        self.corrupt_frames.fetch_add(1, Relaxed);
    }

    /// Whether it was the first.
    pub(crate) fn checksum_failure(&self) -> bool {
        self.checksum_failures.fetch_add(1, Relaxed) == 0
    }

    pub(crate) fn read(&self, connections: u64) -> Counters {
        Counters {
            requests_sent: self.requests_sent.load(Relaxed),
            requests_served: self.requests_served.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            bytes_received: self.bytes_received.load(Relaxed),
            connections,
            refused: self.refused.load(Relaxed),
            corrupt_frames: self.corrupt_frames.load(Relaxed),
            checksum_failures: self.checksum_failures.load(Relaxed),
        }
    }
}
