//! The events of a history: counted, so that a history without events is noticed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! reaches {
    ($($name:ident: $text:literal,)*) => {
        /// A kind of event.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Reach { $($name),* }

        /// All kinds.
        pub const REACHES: &[Reach] = &[$(Reach::$name),*];

        impl fmt::Display for Reach {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str(match self { $(Self::$name => $text),* })
            }
        }
    };
}

reaches! {
    Wrote: "writes that were answered",
    Synced: "fsyncs that were answered",
    ReadOwn: "reads of files of the node's own programs",
    ReadOther: "reads of files that other nodes' programs write",
    Renamed: "renames over a file",
    Unlinked: "files removed",
    ReadUnlinked: "reads of files that were removed while they were open",
    Truncated: "files cut off",
    Appended: "appends to a file that all nodes append to",
    WonRace: "exclusive creations that succeeded",
    LostRace: "exclusive creations that found the name taken",
    Published: "files that got their name on the backing file system",
    PublishedOver: "files that replaced another there",
    DaemonDied: "deaths of daemons",
    DaemonHandedOver: "daemons that another followed since the tree has another leader",
    RequestOutlivedDaemon: "requests that the next daemon answered",
    PowerCut: "cuts of a node's power",
    LostUnsynced: "cuts that took something back",
    NodeLost: "nodes that were lost with their disk",
    NetworkCut: "cuts of the network",
    Paused: "nodes that stood still",
    BackingFailed: "calls at the backing file system that failed",
    BackingSpoiled: "writes at the backing file system that spoiled a byte",
    BackingHung: "calls at the backing file system that hung",
    Partnered: "jobs whose nodes have partners",
    Refused: "requests that failed for a reason",
    Resynced: "programs that looked what was left of their files",
    LostFile: "files of which bytes are lost, as a program finds",
    NamedAsLost: "jobs of which all has landed but what is named as lost",
    Landed: "jobs of which everything landed",
}

static COUNTS: [AtomicU64; REACHES.len()] = [const { AtomicU64::new(0) }; REACHES.len()];

/// It was reached.
pub fn reached(reach: Reach) {
    COUNTS[reach as usize].fetch_add(1, Ordering::Relaxed);
}

/// How often each was, in their order.
pub fn counts() -> Vec<u64> {
    COUNTS.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}
