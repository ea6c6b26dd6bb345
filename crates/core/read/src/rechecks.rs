//! Rechecks: what is asked about a directory waits while others are told that one of its files is another version.

use std::collections::BTreeMap;

use forebay_cache::Key;
use forebay_dispatch::{HoldId, RequestId};
use forebay_types::ViewPath;

/// Those under way, by the requests that tell.
#[derive(Default)]
pub(crate) struct Rechecks(BTreeMap<RequestId, Recheck>);

struct Recheck {
    dir: ViewPath,
    hold: HoldId,
}

impl Rechecks {
    pub fn begin(&mut self, request: RequestId, dir: ViewPath, hold: HoldId) {
        self.0.insert(request, Recheck { dir, hold });
    }

    /// A request has ended; if it was a recheck, what waited for it goes on.
    pub fn end(&mut self, request: RequestId) -> Option<HoldId> {
        self.0.remove(&request).map(|recheck| recheck.hold)
    }

    /// The holds of a request for `key`.
    pub fn holds_of(&self, key: &Key) -> impl Iterator<Item = HoldId> {
        let dir = listed_in(key);
        self.0.values().filter(move |recheck| Some(&recheck.dir) == dir).map(|recheck| recheck.hold)
    }
}

/// The directory of which an answer to `key` lists something.
pub(crate) fn listed_in(key: &Key) -> Option<&ViewPath> {
    match key {
        Key::Listing { dir } | Key::Page { dir, .. } | Key::Name { dir, .. } => Some(dir),
        Key::Chunk { .. } | Key::Parcel { .. } | Key::FileSystem { .. } | Key::Recheck { .. } => None,
    }
}
