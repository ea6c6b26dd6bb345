//! Work on many files at once: a file costs the way to the file system and back several times, however short it is.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Files that are worked on at once: each waits for the file system most of its time. More would only wait for each other, and keep
/// descriptors and blocks.
pub const AT_ONCE: usize = 16;

/// The results of `make` for the numbers below `count`, in order.
///
/// # Errors
/// The first, by number.
pub fn each_of_many<T: Send>(count: usize, make: impl Fn(usize) -> anyhow::Result<T> + Sync) -> anyhow::Result<Vec<T>> {
    each_at_once(AT_ONCE, count, make)
}

/// The same, so many at a time.
///
/// # Errors
/// The first, by number.
pub fn each_at_once<T: Send>(
    at_once: usize,
    count: usize,
    make: impl Fn(usize) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let results: Vec<Mutex<Option<anyhow::Result<T>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while !has_failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = results.get(number) else { return };
            let made = make(number);
            has_failed.fetch_or(made.is_err(), Ordering::Relaxed);
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        }
    };
    thread::scope(|scope| {
        for _ in 1..at_once.min(count) {
            // Where there are no more threads, fewer work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    // Numbers are taken in order: those before the first error all have a result.
    results.into_iter().map_while(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_first_error_wins() {
        assert_eq!(each_of_many(1000, |number| Ok(number * 2)).unwrap(), (0..1000).map(|n| n * 2).collect::<Vec<_>>());
        assert!(each_of_many(0, Ok).unwrap().is_empty());
        let odd = |number: usize| if number % 2 == 1 { Err(anyhow::anyhow!("{number}")) } else { Ok(number) };
        for _ in 0..50 {
            assert_eq!(each_of_many(100, odd).unwrap_err().to_string(), "1");
        }
    }
}
