//! Requests and bytes at a backing file system.

use std::collections::BTreeMap;

/// Requests and bytes at the backing file system, by the server's own counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Traffic {
    /// Requests by kind.
    pub requests: BTreeMap<String, u64>,
    /// Bytes sent to the clients.
    pub sent_bytes: u64,
}

impl Traffic {
    /// Requests of every kind.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }

    /// The traffic since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            requests: grown(&before.requests, &self.requests),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
        }
    }
}

/// By how much each count grew, kinds that did not left out.
#[must_use]
pub fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let more = |(kind, count): (&String, &u64)| {
        let more = count.saturating_sub(before.get(kind).copied().unwrap_or(0));
        (more > 0).then(|| (kind.clone(), more))
    };
    after.iter().filter_map(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_stand_still_are_left_out() {
        let before = BTreeMap::from([("lookup".to_owned(), 3), ("read".to_owned(), 2)]);
        let after = BTreeMap::from([("lookup".to_owned(), 3), ("read".to_owned(), 5), ("ioctl".to_owned(), 1)]);
        assert_eq!(grown(&before, &after), BTreeMap::from([("read".to_owned(), 3), ("ioctl".to_owned(), 1)]));
    }
}
