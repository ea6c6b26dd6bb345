//! Landing before the job's time is over (`--time-limit`).
//!
//! When what is left takes as long as there is time, everything is committed and lands, files that are open with their last
//! commit: as `drain` does it, from then on again and again.

use std::time::Duration;

use forebay_write::Tree;

use super::peers::Waiting;
use super::remote::Nodes;

/// How often is looked.
const EVERY: Duration = Duration::from_secs(1);

/// Time to spare for names, the end of the daemons, a clock that is behind.
const SPARE: Duration = Duration::from_secs(30);

/// How much longer than it did lately it may take.
const CARE: u32 = 2;

/// Looks until all is over, and drains when it is time. `left` tells how many bytes have not landed, how long they take, and how much time there
/// is.
pub async fn watch<'a>(
    nodes: &Nodes,
    left: impl Fn() -> (u64, Duration, Duration),
    drain: impl Fn() -> Waiting<'a, ()>,
) {
    let mut has_begun = false;
    loop {
        nodes.pause(EVERY).await;
        if nodes.is_ending() {
            return;
        }
        let (bytes, takes, time) = left();
        if !is_time(takes, time) {
            continue;
        }
        if !std::mem::replace(&mut has_begun, true) {
            tracing::warn!(bytes, ?takes, ?time, "the time limit is near: everything is landed now");
        }
        drain().await;
    }
}

/// The rest that has not landed: bytes, and steps of the tree.
pub fn left_of(tree: &Tree) -> (u64, usize) {
    (tree.written().map(|extent| extent.len).sum(), tree.steps_to_land())
}

/// Whether what takes so long is to be sent now to be there in time.
fn is_time(takes: Duration, left: Duration) -> bool {
    takes.saturating_mul(CARE).saturating_add(SPARE) >= left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_when_what_is_left_takes_as_long_as_there_is() {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        assert!(!is_time(Duration::ZERO, minutes(1)) && is_time(Duration::ZERO, Duration::from_secs(30)));
        // One minute, and one to be careful.
        assert!(!is_time(minutes(1), minutes(3)));
        assert!(is_time(minutes(1), minutes(2)));
        assert!(is_time(Duration::MAX, minutes(2)) && is_time(Duration::ZERO, Duration::ZERO));
    }
}
