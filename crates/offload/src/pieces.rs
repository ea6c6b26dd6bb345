//! Pieces of a query, each with the nodes that may make it. A piece is made once, or twice where the first answer counts.

use std::collections::BTreeSet;

use forebay_query::InOrder;
use forebay_query::limits::BLOCK_BYTES;

use crate::messages::Holder;

/// The nodes that still make pieces, by rank.
pub type Nodes = BTreeSet<u32>;

/// The pieces of a query, and the answers so far. A maker is the rank of a node, None for this host.
pub trait Pieces {
    /// A piece.
    type Piece: Copy;
    /// Its answer.
    type Made;

    /// Pieces that a node makes at once.
    fn at_once(holder: &Holder) -> usize {
        holder.threads
    }

    /// The next that has no maker and that this maker may make while these nodes are there.
    fn take(&mut self, maker: Option<u32>, nodes: &Nodes) -> Option<Self::Piece>;

    /// The first that only the other side makes and that this maker may make; none where every piece is made once.
    fn take_again(&mut self, _maker: Option<u32>, _nodes: &Nodes) -> Option<Self::Piece> {
        None
    }

    /// The next that has no maker and that none of these nodes may make, for this host; none where such pieces are left to the end.
    fn take_rest(&mut self, _nodes: &Nodes) -> Option<Self::Piece> {
        None
    }

    /// Takes an answer; the bytes of the file that it is about, 0 if there was one before.
    ///
    /// # Errors
    /// It is no answer to this piece.
    fn answered(&mut self, maker: Option<u32>, piece: Self::Piece, made: Self::Made) -> anyhow::Result<u64>;

    /// This maker of it is lost.
    fn give_back(&mut self, maker: Option<u32>, piece: Self::Piece);

    /// Bytes of the pieces that have a maker.
    fn under_way_bytes(&self) -> u64;

    /// Whether nothing is left to be made.
    fn is_done(&self) -> bool;

    /// Whether nothing is left that this node could ever make, even if other nodes are lost.
    fn is_done_for(&self, _rank: u32) -> bool {
        self.is_done()
    }
}

/// Which node is to make which block, if not whoever is free: that whose log has most of it. Runs of blocks, each by its first.
#[derive(Clone, Default)]
pub struct Homes(pub Vec<(u64, Option<u32>)>);

impl Homes {
    fn of(&self, block: u64) -> Option<u32> {
        let run = self.0.partition_point(|(first, _)| *first <= block).checked_sub(1)?;
        self.0[run].1
    }

    /// A block that has a home is made by that node or by this host, by other nodes only when its home is lost.
    pub(crate) fn allow(&self, maker: Option<u32>, block: u64, nodes: &Nodes) -> bool {
        match (maker, self.of(block)) {
            (Some(rank), Some(home)) => rank == home || !nodes.contains(&home),
            _ => true,
        }
    }

    /// Whether each piece is to have a home.
    pub fn are_known(&self) -> bool {
        !self.0.is_empty()
    }
}

/// The lines of a column, by block.
pub struct ColumnBlocks {
    /// They.
    pub lines: InOrder<Vec<u8>>,
    /// Their makers, if they are known.
    pub homes: Homes,
    /// Of the file.
    pub bytes: u64,
    /// No answer is taken any more.
    pub is_given_up: bool,
}

impl Pieces for ColumnBlocks {
    type Piece = u64;
    type Made = Vec<u8>;

    fn take(&mut self, maker: Option<u32>, nodes: &Nodes) -> Option<u64> {
        self.lines.take_if(|block| self.homes.allow(maker, block, nodes))
    }

    fn answered(&mut self, _: Option<u32>, block: u64, made: Vec<u8>) -> anyhow::Result<u64> {
        self.lines.answered(block, made);
        Ok(BLOCK_BYTES.min(self.bytes - block * BLOCK_BYTES))
    }

    fn give_back(&mut self, _: Option<u32>, block: u64) {
        self.lines.give_back(block);
    }

    fn under_way_bytes(&self) -> u64 {
        self.lines.under_way() * BLOCK_BYTES
    }

    fn is_done(&self) -> bool {
        self.is_given_up || self.lines.is_made()
    }
}
