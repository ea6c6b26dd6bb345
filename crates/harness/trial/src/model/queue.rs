//! When the modelled server is through with a request: virtual completion times, no clock and no waiting.

use std::time::Duration;

/// The speed of the modelled server.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Parameters {
    /// Server time of one metadata request, microseconds.
    pub metadata_us: u32,
    /// Metadata requests that are worked on at once.
    pub at_once: u32,
    /// The link's rate, bits a second.
    pub link_bits_per_second: u64,
    /// How long a client believes a name or attributes without asking, milliseconds.
    pub client_ttl_ms: u32,
}

/// The same slowness as the GlusterFS test bed of the test kit is given; 1 s is the default of its
/// client, and of the order of those of NFS.
pub const BUSY: Parameters =
    Parameters { metadata_us: 2000, at_once: 2, link_bits_per_second: 1_000_000_000, client_ttl_ms: 1000 };

/// The metadata server and the link, each as the time from which it is free again.
pub struct Queue {
    /// One for each metadata request that can be worked on at once.
    free_at: Vec<Duration>,
    metadata_time: Duration,
    link_free_at: Duration,
    link_bits_per_second: u64,
}

impl Queue {
    /// An idle server.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            free_at: vec![Duration::ZERO; parameters.at_once.max(1) as usize],
            metadata_time: Duration::from_micros(parameters.metadata_us.into()),
            link_free_at: Duration::ZERO,
            link_bits_per_second: parameters.link_bits_per_second.max(1),
        }
    }

    /// When a metadata request that arrives `now`, and whose answer has `bytes`, is answered.
    pub fn metadata(&mut self, now: Duration, bytes: u64) -> Duration {
        let metadata_time = self.metadata_time;
        let first_free = self.free_at.iter_mut().min().expect("a server works on one request at least");
        *first_free = now.max(*first_free) + metadata_time;
        let done = *first_free;
        if bytes == 0 { done } else { self.transfer(done, bytes) }
    }

    /// When `bytes` that are ready `now` have passed the link.
    pub fn transfer(&mut self, now: Duration, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.link_bits_per_second);
        let time = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.link_free_at = now.max(self.link_free_at) + time;
        self.link_free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn two_metadata_requests_are_worked_on_at_once_and_a_third_waits() {
        let mut queue = Queue::new(&BUSY);
        let done: Vec<_> = (0..5).map(|_| queue.metadata(Duration::ZERO, 0)).collect();
        assert_eq!(done, [2 * MS, 2 * MS, 4 * MS, 4 * MS, 6 * MS]);
    }

    #[test]
    fn an_idle_server_starts_at_once() {
        let mut queue = Queue::new(&BUSY);
        queue.metadata(Duration::ZERO, 0);
        assert_eq!(queue.metadata(100 * MS, 0), 102 * MS);
    }

    #[test]
    fn the_link_passes_its_rate_and_no_more() {
        let mut queue = Queue::new(&BUSY);
        let piece = 125_000; // one millisecond's worth
        let done: Vec<_> = (0..3).map(|_| queue.transfer(Duration::ZERO, piece)).collect();
        assert_eq!(done, [MS, 2 * MS, 3 * MS]);
        assert_eq!(queue.metadata(Duration::ZERO, piece), 4 * MS);
    }
}
