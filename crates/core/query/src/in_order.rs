//! Results of blocks that are needed in the order of the blocks, made by several workers: what a column that travels keeps.
//!
//! Workers do not run far ahead of the block whose turn it is, so what is held is bounded.

use std::collections::{BTreeMap, BTreeSet};

/// The blocks of a file, and what came of those that are made and not delivered.
#[derive(Debug)]
pub struct InOrder<T> {
    blocks: u64,
    /// Blocks from the next to be delivered on that may be under way or held.
    window: u64,
    open: BTreeSet<u64>,
    early: BTreeMap<u64, T>,
    delivered: u64,
}

impl<T> InOrder<T> {
    /// So many blocks, of which so many are under way or held at once.
    pub fn new(blocks: u64, window: u64) -> Self {
        Self { blocks, window: window.max(1), open: (0..blocks).collect(), early: BTreeMap::new(), delivered: 0 }
    }

    /// The first block within the window that nobody makes and that `may` be taken; it is under way from now on.
    pub fn take_if(&mut self, may: impl Fn(u64) -> bool) -> Option<u64> {
        let block = self.open.range(..self.delivered + self.window).copied().find(|block| may(*block))?;
        self.open.remove(&block);
        Some(block)
    }

    /// The worker that made the block is lost: the block is open again.
    pub fn give_back(&mut self, block: u64) {
        if block >= self.delivered && block < self.blocks && !self.early.contains_key(&block) {
            self.open.insert(block);
        }
    }

    /// Takes what came of a block; the first answer counts.
    pub fn answered(&mut self, block: u64, result: T) {
        if block >= self.delivered && block < self.blocks {
            self.open.remove(&block);
            self.early.entry(block).or_insert(result);
        }
    }

    /// The result of the next block, once it is there.
    pub fn deliver(&mut self) -> Option<T> {
        let result = self.early.remove(&self.delivered)?;
        self.delivered += 1;
        Some(result)
    }

    /// Blocks that somebody makes.
    pub fn under_way(&self) -> u64 {
        self.blocks - self.delivered - (self.early.len() + self.open.len()) as u64
    }

    /// Whether all blocks are made.
    pub fn is_made(&self) -> bool {
        self.delivered + self.early.len() as u64 == self.blocks
    }

    /// Whether all are delivered, too.
    pub fn is_delivered(&self) -> bool {
        self.delivered == self.blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_workers_stay_within_the_window() {
        let mut blocks = InOrder::new(5, 3);
        let any = |_| true;
        let taken: Vec<_> = std::iter::from_fn(|| blocks.take_if(any)).collect();
        assert_eq!(taken, [0, 1, 2], "no further than the window");
        assert_eq!(blocks.under_way(), 3);
        blocks.answered(2, "c");
        blocks.answered(1, "b");
        assert_eq!((blocks.deliver(), blocks.take_if(any)), (None, None), "the first is missing");
        blocks.give_back(0);
        assert_eq!(blocks.take_if(|block| block == 1), None, "it is made");
        assert_eq!(blocks.take_if(any), Some(0), "it was given back");
        blocks.answered(0, "a");
        blocks.answered(0, "again");
        blocks.give_back(0);
        assert_eq!(std::iter::from_fn(|| blocks.deliver()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(
            (blocks.take_if(|block| block > 3), blocks.take_if(any), blocks.take_if(any)),
            (Some(4), Some(3), None)
        );
        blocks.answered(3, "d");
        assert!(!blocks.is_made() && blocks.under_way() == 1);
        blocks.answered(4, "e");
        assert!(blocks.is_made() && !blocks.is_delivered());
        assert_eq!(std::iter::from_fn(|| blocks.deliver()).collect::<Vec<_>>(), ["d", "e"]);
        assert!(blocks.is_delivered());
        assert!(InOrder::<()>::new(0, 1).is_delivered(), "an empty file");
    }
}
