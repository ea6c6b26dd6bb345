//! How much landing sends, and how fast.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_types::Time;
use forebay_write::DrainRate;

/// How much is sent, and how fast, for who asks.
pub struct Meter {
    under_way_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    attempt_bytes: AtomicU64,
    rate: Mutex<DrainRate>,
}

impl Meter {
    /// Of a drain that sends so much a second at most.
    pub fn new(limit_bytes_per_s: Option<u64>) -> Self {
        Self {
            under_way_bytes: AtomicU64::default(),
            sent_bytes: AtomicU64::default(),
            attempt_bytes: AtomicU64::default(),
            rate: Mutex::new(DrainRate::limited(limit_bytes_per_s)),
        }
    }

    /// Bytes of the file that is being sent that are not on the backing file system, verified.
    pub fn under_way_bytes(&self) -> u64 {
        self.under_way_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were sent and verified since this daemon began.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the attempt under way, or the last one, has verified of what is to be done next, with those that it has found verified.
    pub fn attempt_bytes(&self) -> u64 {
        self.attempt_bytes.load(Ordering::Relaxed)
    }

    /// An attempt goes on with so much that is verified.
    pub fn goes_on_from(&self, bytes: u64) {
        self.attempt_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How fast it went lately, verified and durable; `None` where too little was sent.
    pub fn bytes_per_s(&self, now: Time) -> Option<u64> {
        self.rate().bytes_per_s(now, self.under_way_bytes())
    }

    /// How long so many bytes and steps take, and whether that was measured or is assumed.
    pub fn time_for(&self, (bytes, steps): (u64, usize), now: Time) -> (Duration, bool) {
        let rate = self.rate();
        (rate.time_for(bytes, steps as u64, now, self.under_way_bytes()), rate.is_known(bytes))
    }

    /// The bytes that `send` lands count, and the time that it takes.
    pub async fn measure<T>(&self, now: impl Fn() -> Time, send: impl Future<Output = T>) -> T {
        self.attempt_bytes.store(0, Ordering::Relaxed);
        self.rate().begin(now());
        let sent = send.await;
        self.rate().end(now());
        sent
    }

    /// A step of the tree is done.
    pub fn step(&self) {
        self.attempt_bytes.store(0, Ordering::Relaxed);
        self.rate().step();
    }

    /// So much is to be sent.
    pub fn begin(&self, bytes: u64) {
        self.under_way_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much of what was begun is given up.
    pub fn give_up(&self, bytes: u64) {
        self.under_way_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// So much of it is there.
    pub fn verified(&self, bytes: u64, now: Time) {
        self.under_way_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.attempt_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.rate().landed(now, bytes);
    }

    fn rate(&self) -> MutexGuard<'_, DrainRate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
