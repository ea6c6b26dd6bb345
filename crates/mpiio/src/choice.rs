//! The way that the bytes of a collective call take into the file, or out of it. Programs and their users tune nothing.
//!
//! A rank can write its own pieces, or aggregators write what all ranks send them, at once or together with later calls. The fastest
//! way depends on what a request costs and on what it costs to wait for the other ranks. Both are guessed by the kind of file
//! system and network at first and measured from then on. All ranks count on the same figures, because they tell each other
//! what they have measured in the one exchange that each call needs in any case (`file::agreement`).

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The kinds of file systems that make a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// Of this host: a request is a system call.
    Local,
    /// Of other hosts, which are coherent with each other.
    Shared,
    /// NFS: clients write whole pages back, so neighbours in a page need MPI's locks.
    Nfs,
}

/// File systems of one host, by the numbers of the kernel's linux/magic.h: ext, XFS, Btrfs, tmpfs, F2FS, overlay, ZFS.
const LOCAL: [u64; 7] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010, 0x794c_7630, 0x2fc1_2fc1];

/// NFS, as there.
const NFS: u64 = 0x6969;

impl FileSystem {
    /// By the name that tests pretend.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "local" => Some(Self::Local),
            "shared" => Some(Self::Shared),
            "nfs" => Some(Self::Nfs),
            _ => None,
        }
    }

    /// That of a file; one that is not known counts as shared.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match rustix::fs::statfs(path).map(|found| found.f_type as u64) {
            Ok(NFS) => Self::Nfs,
            Ok(kind) if LOCAL.contains(&kind) => Self::Local,
            _ => Self::Shared,
        }
    }
}

/// Costs, guessed or measured; the same at all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Of a small request at the file, seconds.
    pub request_s: f64,
    /// Of a call that waits for all ranks, seconds.
    pub sync_s: f64,
}

/// Bytes that a node sends and receives in a second while it aggregates, with all copies: measured with MPICH and Open MPI on one
/// host, and what networks of 100 Gbit/s leave of theirs.
const EXCHANGE_BYTES_PER_S: f64 = 1.5e9;

/// Bytes that are copied in a second to be held.
const COPY_BYTES_PER_S: f64 = 4e9;

/// Waits for other ranks of an exchange: what is announced, what comes, and how it ended.
const SYNCS_OF_EXCHANGE: f64 = 3.0;

/// Part of a new measurement in what is believed.
const WEIGHT: f64 = 0.25;

/// Beyond that a measurement tells of something else: a rank that computes while the others wait.
const MEASURED_MAX_S: f64 = 0.1;

/// Calls that are held together, at most, when it is weighed what holding gains: more may not come.
const CALLS_HELD: u64 = 16;

impl Rates {
    /// A guess for so many ranks.
    #[must_use]
    pub fn guessed(file_system: FileSystem, ranks: usize) -> Self {
        let request_s = match file_system {
            // A page of the cache, with the lock of the file: 1.5 to 3 microseconds on ext4.
            FileSystem::Local => 2e-6,
            // Round trips and a lock: from 0.3 ms of a quiet Lustre to some ms of a busy one.
            FileSystem::Shared | FileSystem::Nfs => 1e-3,
        };
        Self { request_s, sync_s: 20e-6 * f64::from(ranks.max(2).ilog2()) }
    }

    /// Takes a measurement of one or the other, nanoseconds; 0 is none.
    pub fn measured(&mut self, request_ns: u64, sync_ns: u64) {
        let take = |believed: &mut f64, ns: u64| {
            let measured = ns as f64 * 1e-9;
            if ns > 0 && measured < MEASURED_MAX_S {
                *believed += WEIGHT * (measured - *believed);
            }
        };
        take(&mut self.request_s, request_ns);
        take(&mut self.sync_s, sync_ns);
    }

    /// The best way for some work; `may_hold`: calls that can be held together with it, 0 if it must be done now.
    #[must_use]
    pub fn best(&self, work: &Work, may_hold: u64) -> Way {
        let alone_s = work.pieces_max as f64 * self.request_s;
        let copied_s = work.bytes_max as f64 / COPY_BYTES_PER_S;
        let bytes_of_host = work.bytes_total as f64 / work.hosts.max(1) as f64;
        let moved_s = bytes_of_host / EXCHANGE_BYTES_PER_S;
        let stripes = work.bytes_total / work.stripe_bytes.max(1) / work.aggregators.max(1) as u64;
        let calls = may_hold.min(CALLS_HELD);
        // Calls share the waits, and the requests of the aggregators as far as these are not full.
        let shared_s = SYNCS_OF_EXCHANGE * self.sync_s + self.request_s;
        let own_s = copied_s + moved_s + stripes as f64 * self.request_s;
        let now_s = own_s + shared_s;
        let held_s = if calls > 1 { own_s + shared_s / calls as f64 } else { f64::INFINITY };
        if alone_s <= now_s.min(held_s) {
            Way::Alone
        } else if held_s < now_s {
            Way::Held
        } else {
            Way::Aggregated
        }
    }
}

/// The work of one call, or of all that is held.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Bytes of the rank that has most.
    pub bytes_max: u64,
    /// Of all ranks.
    pub bytes_total: u64,
    /// Pieces of the rank that has most.
    pub pieces_max: u64,
    /// Hosts of the ranks.
    pub hosts: usize,
    /// Aggregators that would share it.
    pub aggregators: usize,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
}

/// How bytes come into the file, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Every rank does its own, piece by piece, within the call.
    Alone,
    /// By aggregators, within the call.
    Aggregated,
    /// By aggregators, together with those of later calls.
    Held,
}

/// Processors of a host for each aggregator: a copy of memory and a request at a time keep about so many busy.
const PROCESSORS_PER_AGGREGATOR: usize = 8;

/// Aggregators of a host at most: as many as ROMIO takes on Aurora's six network interfaces a host, and more do not pay.
const AGGREGATORS_OF_HOST_MAX: usize = 8;

/// Aggregators that a host of so many processors and ranks is to have.
#[must_use]
pub fn aggregators_of_host(processors: usize, ranks: usize) -> usize {
    (processors / PROCESSORS_PER_AGGREGATOR).clamp(1, AGGREGATORS_OF_HOST_MAX).min(ranks.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 ranks on 4 hosts that have so many bytes each, in so many pieces.
    fn work(bytes: u64, pieces: u64) -> Work {
        Work {
            bytes_max: bytes,
            bytes_total: bytes * 8,
            pieces_max: pieces,
            hosts: 4,
            aggregators: 4,
            stripe_bytes: 1 << 20,
        }
    }

    #[test]
    fn large_pieces_are_written_by_their_ranks_and_small_ones_by_aggregators() {
        let shared = Rates::guessed(FileSystem::Shared, 8);
        assert_eq!(shared.best(&work(1 << 20, 1), 16), Way::Alone);
        assert_eq!(shared.best(&work(1 << 20, 1024), 0), Way::Aggregated);
        assert_eq!(shared.best(&work(4096, 4), 16), Way::Held);
        assert_eq!(shared.best(&work(4096, 4), 0), Way::Aggregated);
    }

    #[test]
    fn a_file_of_this_host_needs_no_exchange_for_a_few_pieces() {
        let local = Rates::guessed(FileSystem::Local, 8);
        assert_eq!(local.best(&work(4096, 4), 16), Way::Alone);
        assert_eq!(local.best(&work(1 << 20, 100_000), 0), Way::Aggregated);
    }

    /// Ranks that share a processor wait long for each other: an exchange costs more than some requests.
    #[test]
    fn measurements_change_the_way() {
        let mut rates = Rates::guessed(FileSystem::Shared, 8);
        for _ in 0..20 {
            rates.measured(200_000, 8_000_000);
        }
        assert_eq!(rates.best(&work(65_536, 1), 16), Way::Alone);
        assert_eq!(rates.best(&work(65_536, 64), 0), Way::Alone);
        assert_eq!(rates.best(&work(1 << 20, 1024), 0), Way::Aggregated);
        let before = rates;
        rates.measured(0, 10_000_000_000);
        assert_eq!(rates, before, "none, and one of a rank that computed");
    }

    #[test]
    fn a_host_of_many_processors_has_several_aggregators() {
        let of = |processors| aggregators_of_host(processors, 64);
        assert_eq!([1, 8, 32, 208].map(of), [1, 1, 4, 8]);
        assert_eq!(aggregators_of_host(128, 2), 2);
    }
}
