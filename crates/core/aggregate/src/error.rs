//! Errors of a case, and of a plan that is asked for. No variant leaves anything changed.

use forebay_types::HostListError;
use thiserror::Error;

use crate::extents::Extent;

/// Why a case cannot be planned. Each says what, on what, why, and what to do.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum CaseError {
    /// A count of nothing, or of too much.
    #[error("{what}: {count} is not from 1 to {max}")]
    Count {
        /// The field.
        what: &'static str,
        /// As given.
        count: usize,
        /// The most.
        max: usize,
    },
    /// Sizes whose product is too large.
    #[error("{what}: more than {max}, the most that is planned for; describe the part of the machine that the job has")]
    TooLarge {
        /// The field.
        what: &'static str,
        /// The most.
        max: usize,
    },
    /// A rate or size of nothing.
    #[error("{what}: {value} is not a number above 0; give bytes, or bytes per second")]
    NotPositive {
        /// The field.
        what: &'static str,
        /// As given.
        value: f64,
    },
    /// A latency below nothing.
    #[error("{what}: {value} is not a number of at least 0; give seconds")]
    Negative {
        /// The field.
        what: &'static str,
        /// As given.
        value: f64,
    },
    /// A table that is not square, or two of different size.
    #[error("{what}: a row or column has {found} entries and there are {nodes} nodes; measure every pair of nodes")]
    NotSquare {
        /// The table.
        what: &'static str,
        /// Rows of the first table.
        nodes: usize,
        /// Entries of the row or column that differs.
        found: usize,
    },
    /// A line about switches that cannot be read, or contradicts another.
    #[error("{file}, line {line}: {problem}")]
    Switches {
        /// Where the text came from.
        file: String,
        /// Counted from 1.
        line: usize,
        /// The error in it.
        problem: String,
    },
    /// A text about switches that has none.
    #[error("{file}: it has no switch with hosts; give topology.conf, or what `scontrol show topology` prints")]
    NoSwitches {
        /// Where the text came from.
        file: String,
    },
    /// A host of the job that is nowhere.
    #[error("{file}: the host {host} is on no switch; name it as Slurm does, or leave it out of `hosts`")]
    OnNoSwitch {
        /// Where the text about switches came from.
        file: String,
        /// As given.
        host: String,
    },
    /// A list of hosts that cannot be read.
    #[error("topology: hosts: {0}")]
    HostList(HostListError),
    /// A host that is listed again.
    #[error("topology: hosts: {host} is listed twice; a node has one place")]
    HostTwice {
        /// As given.
        host: String,
    },
    /// A pattern that tells no switch.
    #[error(
        "topology: the pattern {pattern} names no switch; write # for a number and / where the name of a switch ends, \
         as in r#/n#"
    )]
    Pattern {
        /// As given.
        pattern: String,
    },
    /// A host whose name is otherwise.
    #[error("topology: hosts: {host} does not match the pattern {pattern}")]
    NotMatched {
        /// As given.
        pattern: String,
        /// As given.
        host: String,
    },
    /// More nodes than the topology has places.
    #[error(
        "topology: it has {places} places and the job {nodes} nodes; make it as large as the job's part of the machine"
    )]
    NotCovered {
        /// Of the job.
        nodes: usize,
        /// Of the topology.
        places: usize,
    },
    /// Nowhere to write to.
    #[error("io_nodes: there is none, so no byte could leave the job; name at least one")]
    NoIoNodes,
    /// An I/O node that is nowhere.
    #[error("io_nodes[{index}]: node {node} is not in the topology, whose nodes are 0 to {}", places - 1)]
    IoNodeOutside {
        /// In the list.
        index: usize,
        /// As given.
        node: usize,
        /// Of the topology.
        places: usize,
    },
    /// A range that is none.
    #[error("io_nodes[{index}]: serves [{first}, {last}], which is not a range of the job's nodes 0 to {}", nodes - 1)]
    Serves {
        /// In the list.
        index: usize,
        /// As given.
        first: usize,
        /// As given.
        last: usize,
        /// Of the job.
        nodes: usize,
    },
    /// A node with ranks that no I/O node serves.
    #[error("io_nodes: none serves node {node}, which has ranks; widen a range of `serves`, or say \"any\"")]
    NotServed {
        /// The first of them.
        node: usize,
    },
    /// A rank that is nowhere.
    #[error("ranks[{rank}]: node {node} is not one of the job's, 0 to {}", nodes - 1)]
    RankOutside {
        /// Its number.
        rank: usize,
        /// As given.
        node: usize,
        /// Of the job.
        nodes: usize,
    },
    /// A map of another length.
    #[error("ranks: map has {found} entries; give one for each of the {nodes} nodes or of the {ranks} ranks")]
    Map {
        /// Its length.
        found: usize,
        /// Of the job.
        nodes: usize,
        /// Of the job.
        ranks: usize,
    },
    /// Extents of some ranks only.
    #[error(
        "ranks[{without}] has bytes and no extents, ranks[{with}] has extents; give them for all ranks or for none"
    )]
    SomeExtents {
        /// The first with.
        with: usize,
        /// The first without.
        without: usize,
    },
    /// An extent of no bytes.
    #[error("ranks[{rank}]: the extent at {offset} has no bytes; leave it out")]
    EmptyExtent {
        /// Whose.
        rank: usize,
        /// Its offset.
        offset: u64,
    },
    /// An extent that no file can have.
    #[error("ranks[{rank}]: the extent [{offset}, {len}] ends beyond the largest file, 2^63 - 1 bytes")]
    BeyondFile {
        /// Whose.
        rank: usize,
        /// Its offset.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// All ranks' bytes make a file that cannot be.
    #[error("ranks: their bytes one after the other end beyond the largest file, 2^63 - 1 bytes")]
    TooLong,
    /// Extents of one rank that overlap.
    #[error(
        "ranks[{rank}]: its extents [{}, {}] and [{}, {}] overlap; a rank writes a byte once",
        first.offset, first.len, second.offset, second.len
    )]
    Overlap {
        /// Whose.
        rank: usize,
        /// One.
        first: Extent,
        /// The other.
        second: Extent,
    },
    /// Extents that do not add up.
    #[error("ranks[{rank}]: bytes says {bytes} and its extents have {total}; correct one of them")]
    Bytes {
        /// Whose.
        rank: usize,
        /// As given.
        bytes: u64,
        /// Of its extents.
        total: u64,
    },
}

/// Why there is no plan for a case.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Ranks' data in too many parts.
    #[error(
        "the data of {ranks} ranks fall into more than {max} parts by domain and round; pin fewer aggregators or rounds"
    )]
    TooManyParts {
        /// Of the job.
        ranks: usize,
        /// The most.
        max: usize,
    },
}

/// A strategy that there is not.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("there is no strategy {name}; the strategies are {known}")]
pub struct UnknownStrategy {
    /// As given.
    pub name: String,
    /// All, by name.
    pub known: String,
}
