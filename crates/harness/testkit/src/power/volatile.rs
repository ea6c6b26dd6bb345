//! The bytes of a disk with a cache: what was not flushed is there until the power goes.
//!
//! A page of 4 KiB is written whole or not at all, as NVMe disks do it; of a longer write any pages may be missing afterwards, in
//! any order with those of other writes.

use std::collections::BTreeMap;

/// Bytes that are written whole or not at all.
pub const PAGE_BYTES: usize = 4096;

type Page = Box<[u8; PAGE_BYTES]>;

/// A disk's bytes.
#[derive(Clone, Default)]
pub struct Volatile {
    kept: BTreeMap<u64, Page>,
    cached: BTreeMap<u64, Page>,
    random: u64,
}

impl Volatile {
    /// A disk that holds `contents`, and whose cuts are those of `seed`.
    #[must_use]
    pub fn new(contents: &[u8], seed: u64) -> Self {
        let pages = contents.chunks(PAGE_BYTES).enumerate();
        let kept = pages.filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)).map(|(number, bytes)| {
            let mut page = Box::new([0; PAGE_BYTES]);
            page[..bytes.len()].copy_from_slice(bytes);
            (number as u64, page)
        });
        Self { kept: kept.collect(), cached: BTreeMap::new(), random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// The bytes that are read while the power is there.
    #[must_use]
    pub fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut read = Vec::with_capacity(bytes);
        while read.len() < bytes {
            let (number, within) = split(offset + read.len() as u64);
            let end = PAGE_BYTES.min(within + bytes - read.len());
            match self.cached.get(&number).or_else(|| self.kept.get(&number)) {
                Some(page) => read.extend_from_slice(&page[within..end]),
                None => read.resize(read.len() + end - within, 0),
            }
        }
        read
    }

    /// Writes to the cache. Its older bytes of the same place may have come to the disk before.
    pub fn write(&mut self, offset: u64, mut data: &[u8]) {
        let mut at = offset;
        while !data.is_empty() {
            let (number, within) = split(at);
            let (now, rest) = data.split_at(data.len().min(PAGE_BYTES - within));
            let old = self.cached.remove(&number);
            let mut page =
                old.clone().or_else(|| self.kept.get(&number).cloned()).unwrap_or_else(|| Box::new([0; PAGE_BYTES]));
            if let Some(old) = old
                && self.next().is_multiple_of(4)
            {
                self.kept.insert(number, old);
            }
            page[within..within + now.len()].copy_from_slice(now);
            self.cached.insert(number, page);
            (at, data) = (at + now.len() as u64, rest);
        }
    }

    /// Everything that was written is safe.
    pub fn flush(&mut self) {
        self.kept.append(&mut self.cached);
    }

    /// The power goes: of the pages that are not flushed some are lost: all, about half, or none, which is as likely each.
    pub fn cut(&mut self) {
        let lost_of_four = [4, 2, 0][(self.next() % 3) as usize];
        for (number, page) in std::mem::take(&mut self.cached) {
            if self.next() % 4 >= lost_of_four {
                self.kept.insert(number, page);
            }
        }
    }

    /// Xorshift; its higher bits.
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 20
    }
}

fn split(offset: u64) -> (u64, usize) {
    let page_bytes = PAGE_BYTES as u64;
    (offset / page_bytes, (offset % page_bytes) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of 100 pages, each written for itself and then changed, are there in the old, the flushed, and the new state after a cut.
    fn after_a_cut(seed: u64) -> [usize; 3] {
        let mut disk = Volatile::new(&[1; 100 * PAGE_BYTES], seed);
        disk.write(0, &[2; 50 * PAGE_BYTES]);
        disk.flush();
        disk.write(10, &[3; 100 * PAGE_BYTES - 10]);
        assert_eq!(disk.read(9, 2), [2, 3], "all is there before");
        disk.cut();
        let bytes = disk.read(0, 100 * PAGE_BYTES);
        bytes.chunks(PAGE_BYTES).for_each(|page| assert!(page[10..].iter().all(|byte| *byte == page[10]), "whole"));
        [1, 2, 3].map(|wanted| bytes.chunks(PAGE_BYTES).filter(|page| page[10] == wanted).count())
    }

    #[test]
    fn a_cut_takes_pages_that_were_not_flushed_and_no_others() {
        let all: Vec<[usize; 3]> = (0..30).map(after_a_cut).collect();
        assert!(all.iter().all(|[old, flushed, _]| *old <= 50 && *flushed <= 50), "{all:?}");
        assert!(all.contains(&[50, 50, 0]) && all.contains(&[0, 0, 100]), "{all:?}");
        assert!(all.iter().any(|[old, _, new]| (10..40).contains(old) && (20..80).contains(new)), "{all:?}");
    }
}
