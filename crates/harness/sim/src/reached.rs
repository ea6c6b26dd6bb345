//! Events that histories reach: how many of each kind programs, kernels and cores have seen.
//!
//! A check that never meets what it is for proves nothing. So each kind is counted where its effect is seen, and not where it
//! is planned, and seeds that reach none of a kind fail.

use std::collections::BTreeMap;
use std::fmt;

/// Events that a history may reach.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Reach {
    Evicted,
    Interrupted,
    DaemonDied,
    RequestOutlivedDaemon,
    Created,
    Deleted,
    Renamed,
    Resized,
    HardLink,
    SymbolicLink,
    HungPath,
    Expired,
    DirectChunk,
    DirectRead,
    ListedAttributes,
    Refreshed,
    MadeUp,
    Stale,
    BackingError,
    FailedOver,
    Hedged,
    Stopped,
    Parcel,
    CachedChunk,
}

/// All of them.
pub const REACHES: [Reach; 24] = [
    Reach::Evicted,
    Reach::Interrupted,
    Reach::DaemonDied,
    Reach::RequestOutlivedDaemon,
    Reach::Created,
    Reach::Deleted,
    Reach::Renamed,
    Reach::Resized,
    Reach::HardLink,
    Reach::SymbolicLink,
    Reach::HungPath,
    Reach::Expired,
    Reach::DirectChunk,
    Reach::DirectRead,
    Reach::ListedAttributes,
    Reach::Refreshed,
    Reach::MadeUp,
    Reach::Stale,
    Reach::BackingError,
    Reach::FailedOver,
    Reach::Hedged,
    Reach::Stopped,
    Reach::Parcel,
    Reach::CachedChunk,
];

impl fmt::Display for Reach {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Evicted => "objects evicted",
            Self::Interrupted => "requests interrupted",
            Self::DaemonDied => "daemons that died under living programs",
            Self::RequestOutlivedDaemon => "requests that outlived their daemon",
            Self::Created => "created paths seen",
            Self::Deleted => "deleted paths seen to be absent",
            Self::Renamed => "renamed paths seen",
            Self::Resized => "resized files read",
            Self::HardLink => "new hard links read",
            Self::SymbolicLink => "symbolic links read",
            Self::HungPath => "requests that waited for a path that hangs",
            Self::Expired => "changes seen by revalidation alone",
            Self::DirectChunk => "chunks read past the forest",
            Self::DirectRead => "reads past the page cache",
            Self::ListedAttributes => "attributes in listings",
            Self::Refreshed => "refreshes",
            Self::MadeUp => "refreshes made up for",
            Self::Stale => "reads of a version that is gone",
            Self::BackingError => "errors of the backing file system",
            Self::FailedOver => "requests asked of another node",
            Self::Hedged => "second requests",
            Self::Stopped => "requests at a node that stops",
            Self::Parcel => "parcels",
            Self::CachedChunk => "chunks read from a cache store",
        })
    }
}

/// How often what was reached.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Reached(BTreeMap<Reach, u64>);

impl Reached {
    /// Once more.
    pub fn count(&mut self, kind: Reach) {
        self.add(kind, 1);
    }

    /// So many times more.
    pub fn add(&mut self, kind: Reach, count: u64) {
        *self.0.entry(kind).or_default() += count;
    }

    /// How often.
    #[must_use]
    pub fn of(&self, kind: Reach) -> u64 {
        self.0.get(&kind).copied().unwrap_or(0)
    }

    /// All that another history reached, too.
    pub fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(kind, count)| self.add(*kind, *count));
    }

    /// The kinds that were not reached.
    #[must_use]
    pub fn missed(&self) -> Vec<Reach> {
        REACHES.into_iter().filter(|kind| self.of(*kind) == 0).collect()
    }
}
