//! The rest of a node's timers: while nothing is under way, a node sleeps until something is due, and the first request wakes it. A daemon
//! that shares processors with programs must not take one away ten times a second for nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_types::Time;
use tokio::sync::Notify;

/// How often what depends on time is looked for while requests are under way.
const TICK: Duration = forebay_dispatch::limits::CHECK_INTERVAL;

/// The longest rest: for what is due without the core.
const LONGEST: Duration = Duration::from_secs(1);

/// The rest of the timers. `begin` and `end_before` are called under the core's lock, so neither misses the other.
#[derive(Default)]
pub struct Rest {
    /// Until when it lasts, nanoseconds; 0 while there is none.
    until: AtomicU64,
    woken: Notify,
}

impl Rest {
    /// How long to wait for what is `due` first, no shorter than a tick. Longer than that is a rest.
    pub fn begin(&self, now: Time, due: Option<Time>) -> Duration {
        let time = due.map_or(LONGEST, |due| due.since(now)).clamp(TICK, LONGEST);
        let until = if time > TICK { now.after(time).0 } else { 0 };
        self.until.store(until, Ordering::Relaxed);
        time
    }

    /// Waits so long, or until the rest is ended.
    pub async fn wait(&self, time: Duration) {
        // A word for an earlier rest does no harm: the timers are looked at once more.
        drop(tokio::time::timeout(time, self.woken.notified()).await);
        self.until.store(0, Ordering::Relaxed);
    }

    /// Ends the rest if something is due before its end.
    pub fn end_before(&self, due: impl FnOnce() -> Option<Time>) {
        let until = self.until.load(Ordering::Relaxed);
        if until > 0 && due().is_some_and(|due| due.0 < until) {
            self.until.store(0, Ordering::Relaxed);
            self.woken.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn at(ms: u64) -> Time {
        Time(0).after(Duration::from_millis(1000 + ms))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_ends_a_rest_and_nothing_ends_what_is_none() {
        let rest = Arc::new(Rest::default());
        let began = tokio::time::Instant::now();
        assert_eq!(rest.begin(at(0), Some(at(400))), Duration::from_millis(400));
        let waits = Arc::clone(&rest);
        let waiting = tokio::spawn(async move { waits.wait(Duration::from_millis(400)).await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        rest.end_before(|| Some(at(500)));
        rest.end_before(|| None);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!waiting.is_finished(), "what is due later wakes nobody");
        rest.end_before(|| Some(at(110)));
        rest.end_before(|| panic!("it is asked for what is due once"));
        waiting.await.unwrap();
        assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
        // Under way, or late already: the timers are looked at with every tick, whoever comes.
        for due in [at(0), at(30), at(100)] {
            assert_eq!(rest.begin(at(50), Some(due)), TICK);
            rest.end_before(|| panic!("it does not rest"));
        }
        // Without anything that is due.
        assert_eq!(rest.begin(at(0), None), LONGEST);
        rest.wait(LONGEST).await;
        assert!(began.elapsed() >= LONGEST);
        rest.end_before(|| panic!("it is over"));
    }
}
