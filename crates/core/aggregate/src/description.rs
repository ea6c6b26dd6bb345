//! The form of a case that people and programs write; `forebay plan` reads it as JSON.
//!
//! This module checks the form only: `Case::new` says whether it makes sense. Unknown fields are refused, because a
//! field with a slip of the pen in its name would silently change nothing.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::extents::Extent;

/// A case as it is described.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseDescription {
    /// The network.
    pub topology: TopologyDescription,
    /// Rate of every link in each direction, bytes per second. A measured matrix has its own.
    #[serde(default)]
    pub link_bytes_per_s: f64,
    /// Latency of every link, seconds. A measured matrix has its own.
    #[serde(default)]
    pub link_latency_s: f64,
    /// Nodes of the job: the first ones of the topology.
    pub nodes: usize,
    /// Where bytes leave the network.
    pub io_nodes: Vec<IoNode>,
    /// The extents of each rank.
    pub ranks: RanksDescription,
    /// So many aggregators, whatever a strategy would choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregators: Option<usize>,
    /// So many rounds, whatever a strategy would choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<usize>,
    /// Memory that an aggregator has for its buffers, bytes.
    #[serde(default = "default_memory")]
    pub aggregator_memory_bytes: u64,
    /// One buffer of an aggregator, bytes.
    #[serde(default = "default_buffer")]
    pub buffer_bytes: u64,
    /// Buffers of an aggregator: with two, one is filled while the other is written.
    #[serde(default = "default_buffers")]
    pub buffers: usize,
    /// Stripes of the backing file system, bytes: file domains begin and end on their boundaries.
    #[serde(default = "default_stripe")]
    pub stripe_bytes: u64,
    /// Local storage of every node, as a stage between the buffers and the backing file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<Nvme>,
}

fn default_memory() -> u64 {
    32 << 20
}

fn default_buffer() -> u64 {
    16 << 20
}

fn default_buffers() -> usize {
    2
}

fn default_stripe() -> u64 {
    1 << 20
}

/// A network's shape.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TopologyDescription {
    /// Lengths of the dimensions; nodes are numbered with the first running fastest.
    Torus(Vec<usize>),
    /// Groups of routers of nodes.
    Dragonfly {
        /// Groups.
        groups: usize,
        /// Routers of a group.
        routers: usize,
        /// Nodes of a router.
        nodes: usize,
    },
    /// Switches in levels.
    FatTree {
        /// From the lowest on.
        levels: Vec<FatTreeLevel>,
    },
    /// Measured pairs.
    Matrix {
        /// Seconds, from each node (rows) to each (columns).
        latency_s: Vec<Vec<f64>>,
        /// Bytes per second, likewise.
        bytes_per_s: Vec<Vec<f64>>,
    },
    /// Switches as Slurm tells of them.
    Slurm(SlurmSwitches),
    /// Switches as names of hosts tell of them.
    HostNames(HostNames),
}

/// A cluster's switches as Slurm tells of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlurmSwitches {
    /// `topology.conf`, or what `scontrol show topology` prints.
    #[serde(default)]
    pub text: String,
    /// Where the text is. This crate reads no file: the reader of the case puts the contents into `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The hosts of the job in the order of its nodes, in Slurm's notation; by default all that are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<String>,
    /// The rate that the hosts of a switch send at most, over the rate of its links upwards.
    #[serde(default = "one_to_one")]
    pub oversubscription: f64,
}

/// A cluster's switches as names of hosts tell of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostNames {
    /// `#` stands for a number, `/` ends the name of a switch: `r#/n#`.
    pub pattern: String,
    /// The hosts of the job in the order of its nodes, in Slurm's notation.
    pub hosts: String,
    /// The rate that the hosts of a switch send at most, over the rate of its links upwards.
    #[serde(default = "one_to_one")]
    pub oversubscription: f64,
}

fn one_to_one() -> f64 {
    1.0
}

/// A level of a fat tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FatTreeLevel {
    /// Links of a switch downwards.
    pub down: usize,
    /// Links of a switch upwards, each to another switch. Means nothing at the top.
    #[serde(default = "one")]
    pub up: usize,
}

fn one() -> usize {
    1
}

/// An I/O node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoNode {
    /// Where it is in the topology; it may be a place behind the job's nodes.
    pub node: usize,
    /// Its write rate to the backing file system, bytes per second.
    pub bytes_per_s: f64,
    /// Whose bytes it writes.
    pub serves: Serves,
}

/// Whom an I/O node serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "`serves` is [FIRST, LAST], an inclusive range of nodes, or \"any\"")]
pub enum Serves {
    /// These nodes, both ends included.
    Range(usize, usize),
    /// Any node to which no other I/O node is nearer.
    Any(Any),
}

/// The word `any`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Any {
    /// Spelt so.
    Any,
}

impl Serves {
    /// Any node to which no other I/O node is nearer.
    pub const ANY: Self = Self::Any(Any::Any);

    /// Whether it serves that node.
    #[must_use]
    pub fn includes(self, node: usize) -> bool {
        match self {
            Self::Range(first, last) => (first..=last).contains(&node),
            Self::Any(_) => true,
        }
    }
}

/// A node's local storage.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nvme {
    /// Bytes per second, all writers of a node together.
    pub write_bytes_per_s: f64,
    /// Bytes per second, all readers of a node together.
    pub read_bytes_per_s: f64,
}

/// The job's ranks: one by one, or all alike.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum RanksDescription {
    /// One by one, by number.
    Each(Vec<RankDescription>),
    /// All alike.
    Alike(RanksAlike),
}

/// A rank.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankDescription {
    /// The node that it runs on.
    pub node: usize,
    /// Bytes that it has.
    pub bytes: u64,
    /// Where they lie in the file. Without any, ranks' bytes lie one after the other, in rank order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extents: Option<Vec<Extent>>,
}

/// Ranks that are alike; their bytes lie one after the other in the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RanksAlike {
    /// Ranks of a node.
    pub per_node: usize,
    /// Bytes of a rank.
    pub bytes: u64,
    /// The node of each rank, or of each `per_node` ranks. By default the ranks fill node after node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<Vec<usize>>,
}

/// Not derived: of untagged alternatives serde tells only that none fits, and not what is wrong in which.
impl<'de> Deserialize<'de> for RanksDescription {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RanksDescription;

            fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
                text.write_str("a list of ranks, or {\"per_node\", \"bytes\"}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(RanksDescription::Each)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                RanksAlike::deserialize(MapAccessDeserializer::new(map)).map(RanksDescription::Alike)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
