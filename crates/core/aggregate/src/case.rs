//! A case that makes sense: what `CaseDescription` says, checked once, in the form that planning reads.
//!
//! Every refusal names the field, what is wrong with it and what to do. After `Case::new` nothing about the case can fail:
//! the strategies and the flow model index by what was checked here.

use forebay_types::limits::NODES_MAX;

use crate::checked::{counted, positive};
use crate::described_network::network;
use crate::description::{CaseDescription, IoNode, Nvme, RankDescription, RanksAlike, RanksDescription, Serves};
use crate::error::CaseError;
use crate::extents::{self, Extent};
use crate::limits;
use crate::seat::Seat;
use crate::topology::Network;

/// An aggregation problem: the network, the ranks' extents, and the limits.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// The network.
    pub(crate) network: Network,
    /// Where bytes leave it.
    pub(crate) io_nodes: Vec<IoNode>,
    /// The I/O node of every node of the job; what stands for nodes without ranks means nothing.
    io_of: Vec<u32>,
    ranks: Vec<Rank>,
    extents: Vec<Extent>,
    /// All bytes of the file that anybody has.
    pub(crate) union: Vec<Extent>,
    /// Numbers that a strategy may not choose.
    pub(crate) pinned: Pinned,
    /// The memory of an aggregator.
    pub(crate) buffering: Buffering,
    /// Of the backing file system.
    pub(crate) stripe_bytes: u64,
    /// Of every node.
    pub(crate) nvme: Option<Nvme>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rank {
    node: u32,
    /// Where its extents end in the list of all; they begin where those of the rank before it end.
    extents_end: usize,
}

/// Numbers that the case gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pinned {
    /// Aggregators.
    pub aggregators: Option<usize>,
    /// Rounds.
    pub rounds: Option<usize>,
}

/// An aggregator's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffering {
    /// For all its buffers, bytes.
    pub memory_bytes: u64,
    /// One buffer, bytes.
    pub buffer_bytes: u64,
    /// How many may be in use at once.
    pub buffers: usize,
}

impl Case {
    /// Checks a description.
    ///
    /// # Errors
    /// `CaseError`, which names what is wrong and what to do about it.
    pub fn new(description: CaseDescription) -> Result<Self, CaseError> {
        let network = network(&description)?;
        let nodes = description.nodes;
        if nodes == 0 || nodes > NODES_MAX {
            return Err(CaseError::Count { what: "nodes", count: nodes, max: NODES_MAX });
        }
        if nodes > network.node_count() {
            return Err(CaseError::NotCovered { nodes, places: network.node_count() });
        }
        check_io_nodes(&description.io_nodes, &network, nodes)?;
        let numbers = Numbers::of(&description)?;
        let (ranks, extents) = ranks(description.ranks, nodes)?;
        let io_of = io_of(&ranks, nodes, &description.io_nodes, &network)?;
        Ok(Self {
            network,
            io_nodes: description.io_nodes,
            io_of,
            union: extents::union(extents.clone()),
            ranks,
            extents,
            pinned: numbers.pinned,
            buffering: numbers.buffering,
            stripe_bytes: description.stripe_bytes,
            nvme: description.nvme,
        })
    }

    /// Ranks of the job.
    #[must_use]
    pub fn rank_count(&self) -> usize {
        self.ranks.len()
    }

    /// The node that a rank runs on.
    #[must_use]
    pub fn node_of(&self, rank: usize) -> usize {
        self.ranks[rank].node as usize
    }

    /// The extents of a rank, sorted, without overlaps.
    #[must_use]
    pub fn extents_of(&self, rank: usize) -> &[Extent] {
        let start = rank.checked_sub(1).map_or(0, |before| self.ranks[before].extents_end);
        &self.extents[start..self.ranks[rank].extents_end]
    }

    /// Bytes of the file that anybody has, each counted once.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        extents::bytes(&self.union)
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The I/O nodes.
    #[must_use]
    pub fn io_nodes(&self) -> &[IoNode] {
        &self.io_nodes
    }

    /// The first rank of every node that has ranks, in the order of these ranks.
    pub(crate) fn hosts(&self) -> Vec<Seat> {
        let mut has_rank = vec![false; self.node_count()];
        let seats = (0..self.rank_count()).map(|rank| Seat::new(rank, self.node_of(rank)));
        seats.filter(|seat| !std::mem::replace(&mut has_rank[seat.node], true)).collect()
    }

    /// Nodes of the job.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.io_of.len()
    }

    /// The I/O node, by its number in the list, that a node writes to; none of a node without ranks.
    #[must_use]
    pub fn io_of_node(&self, node: usize) -> Option<usize> {
        self.io_of.get(node).filter(|io| **io != NO_IO_NODE).map(|io| *io as usize)
    }

    /// The I/O node of a node with ranks.
    pub(crate) fn io_of(&self, node: usize) -> usize {
        self.io_of[node] as usize
    }

    /// Seconds below which no plan can stay: all bytes over the rates of all I/O nodes.
    #[must_use]
    pub fn io_floor_s(&self) -> f64 {
        self.bytes() as f64 / self.io_nodes.iter().map(|io| io.bytes_per_s).sum::<f64>()
    }
}

/// Stands for the I/O node of a node without ranks.
const NO_IO_NODE: u32 = u32::MAX;

fn check_io_nodes(io_nodes: &[IoNode], network: &Network, nodes: usize) -> Result<(), CaseError> {
    if io_nodes.is_empty() {
        return Err(CaseError::NoIoNodes);
    }
    counted("io_nodes", io_nodes.len(), limits::IO_NODES_MAX)?;
    for (index, io) in io_nodes.iter().enumerate() {
        if io.node >= network.node_count() {
            return Err(CaseError::IoNodeOutside { index, node: io.node, places: network.node_count() });
        }
        positive("io_nodes: bytes_per_s", io.bytes_per_s)?;
        if let Serves::Range(first, last) = io.serves
            && (first > last || last >= nodes)
        {
            return Err(CaseError::Serves { index, first, last, nodes });
        }
    }
    Ok(())
}

struct Numbers {
    pinned: Pinned,
    buffering: Buffering,
}

impl Numbers {
    fn of(description: &CaseDescription) -> Result<Self, CaseError> {
        let count = |what, count: Option<usize>, max| count.map(|count| counted(what, count, max)).transpose();
        for (what, bytes) in [
            ("aggregator_memory_bytes", description.aggregator_memory_bytes),
            ("buffer_bytes", description.buffer_bytes),
            ("stripe_bytes", description.stripe_bytes),
        ] {
            if bytes == 0 || bytes > i64::MAX as u64 {
                return Err(CaseError::NotPositive { what, value: bytes as f64 });
            }
        }
        if let Some(nvme) = &description.nvme {
            positive("nvme: write_bytes_per_s", nvme.write_bytes_per_s)?;
            positive("nvme: read_bytes_per_s", nvme.read_bytes_per_s)?;
        }
        Ok(Self {
            pinned: Pinned {
                aggregators: count("aggregators", description.aggregators, limits::AGGREGATORS_MAX)?,
                rounds: count("rounds", description.rounds, limits::ROUNDS_MAX)?,
            },
            buffering: Buffering {
                memory_bytes: description.aggregator_memory_bytes,
                buffer_bytes: description.buffer_bytes,
                buffers: counted("buffers", description.buffers, limits::BUFFERS_MAX)?,
            },
        })
    }
}

fn ranks(description: RanksDescription, nodes: usize) -> Result<(Vec<Rank>, Vec<Extent>), CaseError> {
    let each = match description {
        RanksDescription::Each(each) => each,
        RanksDescription::Alike(alike) => one_by_one(&alike, nodes)?,
    };
    counted("ranks", each.len(), limits::RANKS_MAX)?;
    let declares = |wanted: bool| each.iter().position(|rank| rank.bytes > 0 && rank.extents.is_some() == wanted);
    if let (Some(with), Some(without)) = (declares(true), declares(false)) {
        return Err(CaseError::SomeExtents { with, without });
    }
    let (mut ranks, mut extents, mut end) = (Vec::with_capacity(each.len()), Vec::new(), 0);
    for (index, rank) in each.into_iter().enumerate() {
        if rank.node >= nodes {
            return Err(CaseError::RankOutside { rank: index, node: rank.node, nodes });
        }
        match rank.extents {
            Some(own) => extents.extend(checked_extents(index, rank.bytes, own)?),
            None if rank.bytes > 0 => {
                extents.push(Extent { offset: end, len: rank.bytes });
                end = end.checked_add(rank.bytes).filter(|end| *end <= i64::MAX as u64).ok_or(CaseError::TooLong)?;
            }
            None => {}
        }
        if extents.len() > limits::EXTENTS_MAX {
            return Err(CaseError::TooLarge { what: "ranks: extents", max: limits::EXTENTS_MAX });
        }
        ranks.push(Rank { node: rank.node as u32, extents_end: extents.len() });
    }
    Ok((ranks, extents))
}

fn one_by_one(alike: &RanksAlike, nodes: usize) -> Result<Vec<RankDescription>, CaseError> {
    counted("ranks: per_node", alike.per_node, limits::RANKS_MAX)?;
    let count = nodes.saturating_mul(alike.per_node);
    counted("ranks", count, limits::RANKS_MAX)?;
    let node = |rank: usize| match &alike.map {
        Some(map) if map.len() == count => map[rank],
        Some(map) => map[rank / alike.per_node],
        None => rank / alike.per_node,
    };
    match &alike.map {
        Some(map) if map.len() != count && map.len() != nodes => {
            Err(CaseError::Map { found: map.len(), nodes, ranks: count })
        }
        _ => {
            Ok((0..count).map(|rank| RankDescription { node: node(rank), bytes: alike.bytes, extents: None }).collect())
        }
    }
}

/// The extents of a rank, sorted, if they are true.
fn checked_extents(rank: usize, bytes: u64, mut extents: Vec<Extent>) -> Result<Vec<Extent>, CaseError> {
    let mut total = 0u64;
    for extent in &extents {
        let end = extent.offset.checked_add(extent.len).filter(|end| *end <= i64::MAX as u64);
        let Extent { offset, len } = *extent;
        if len == 0 {
            return Err(CaseError::EmptyExtent { rank, offset });
        }
        if end.is_none() {
            return Err(CaseError::BeyondFile { rank, offset, len });
        }
        total = total.saturating_add(len);
    }
    extents.sort_unstable();
    if let Some(pair) = extents.windows(2).find(|pair| pair[0].end() > pair[1].offset) {
        return Err(CaseError::Overlap { rank, first: pair[0], second: pair[1] });
    }
    if total != bytes {
        return Err(CaseError::Bytes { rank, bytes, total });
    }
    Ok(extents)
}

/// The I/O node of every node with ranks: the nearest that serves it, the first of several.
fn io_of(ranks: &[Rank], nodes: usize, io_nodes: &[IoNode], network: &Network) -> Result<Vec<u32>, CaseError> {
    let mut io_of = vec![NO_IO_NODE; nodes];
    for rank in ranks {
        let node = rank.node as usize;
        if io_of[node] == NO_IO_NODE {
            let serving = io_nodes.iter().enumerate().filter(|(_, io)| io.serves.includes(node));
            let nearest = serving.min_by_key(|(_, io)| network.hop_count(node, io.node));
            io_of[node] = nearest.ok_or(CaseError::NotServed { node })?.0 as u32;
        }
    }
    Ok(io_of)
}
