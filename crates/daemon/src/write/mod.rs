//! The write path of a node: what ties its core (`forebay_write`) to the kernel, the log and the backing file system.
//!
//! `programs` serves this node's programs, `tree` has the job's files and who owns them, `drain` their way to the backing file system.
//! Parts that all three use, and the node's own beginning and end, are here.
//!
//! `kernel` takes programs' requests on the burst mount. Their writes go to the node's own log immediately, and are the
//! node's until they are committed (`files`, `commits`); names and commits are changes of the tree, which one node owns:
//! `tree_link` leads to it, on other nodes by `remote_tree`, which remembers what the leader has told. There `leader` carries
//! them out one after the other and writes them down before it answers, and `landing` follows the tree on the backing file
//! system, in the background (`publishing`, `sending`, in turn with the reads of programs, `calls`; large files by all nodes that have them, `striping`), in time before
//! the job's end (`time_limit`). Bytes are read where they lie (`contents`; for queries at one commit, `committed`): in this node's log, in
//! another's (`remote` asks, `answers` answers), or in the backing file system; they stay in the kernel's page cache as long as they are
//! those of the file (`page_cache`). Room in the log of what has landed is given back (`reclaim`); where it fills, open files are sent
//! ahead (`draining`), and who writes waits (`room`). When the job ends, nothing is changed after its last drain (`ending`, `freeze`).
//!
//! All of the tree is written down on a second node too (`standby`, `safe`), which `fsync` and landing wait for. When the leader is lost, that
//! node leads the tree, if most of those that decide agree (`voters`). Changes that the new leader does not have are sent again, or lost
//! (`lost_changes`).
//! With `--partner` so are files' contents (`copying`, `partner`), with which the leader goes on when a node is gone (`failover`). Both go by one
//! kind of stream (`replication`), and all that keeps them safe is tasks (`starting`). When nodes
//! begin anew, it finds out which bytes a loss of power has taken from their logs (`unverified`, `verifying`).
//!
//! After a daemon's death the next one finds all of it in the log (`recovery`), and comes to terms with the leader (`joining`). Nodes reach each
//! other over the job's connections (`network`), and what they ask occupies no thread while it waits (`waiting_requests`, `group_commit`,
//! `tree::calling`). Landing, joining and drains are tasks, too, with which threads go on that may wait for the node's own disk
//! (`shared::pool_task`). Without their job, what stores hold is landed by one process (`salvage`).

pub mod answers;
mod calls;
mod commits;
mod committed;
mod contents;
mod copying;
mod drain;
mod early_commits;
mod ending;
pub mod exercise;
mod files;
#[cfg(test)]
mod files_tests;
mod group_commit;
mod invalidations;
mod joining;
mod kernel_ids;
mod kernel_leases;
mod local;
mod lost_changes;
mod network;
mod notes;
mod opening;
mod pace;
mod page_cache;
mod partner;
mod parts;
mod peers;
mod programs;
mod reclaim;
mod recovery;
mod remote;
mod remote_contents;
#[cfg(test)]
mod remote_tests;
mod reopen_flush;
mod replication;
mod report;
mod salvage;
mod starting;
mod stripe_lease;
mod stripes_under_way;
mod tasks;
mod time_limit;
mod tree;
mod waiting_requests;

pub use committed::{CommittedFile, Home};
pub use drain::progress::Progress;
pub use ending::Left;
pub use opening::open;
pub use parts::WriteParts;
pub use report::BurstStatus;
pub use salvage::{NotLanded, Salvage, SalvageEnd, holds_store, job_of_store};
