//! The grid of chunks in which a data set is stored: the elements of a slab, out of the chunks that it crosses.

use crate::arrays::chunk_cache::Bytes;
use crate::arrays::kind::Kind;
use crate::arrays::tiles::Slab;

/// The chunks of a data set, which all have one shape, and their elements.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Elements of a chunk along each axis.
    chunk: Vec<u64>,
    /// Elements of the data set along each axis that were stored: behind them, chunks have nothing.
    stored: Vec<u64>,
    /// The type of elements.
    kind: Kind,
    /// The element of chunks that were never written.
    fill: f64,
    /// Elements from one to the next along each axis of a chunk, as it is stored.
    steps: Vec<usize>,
}

impl Grid {
    /// Chunks of one shape, whose elements are stored in this order of axes, the last one the fastest.
    pub fn new(chunk: Vec<u64>, order: impl DoubleEndedIterator<Item = usize>, kind: Kind, fill: f64) -> Self {
        let mut steps = vec![0; chunk.len()];
        let mut step = 1_usize;
        for axis in order.rev() {
            steps[axis] = step;
            step = step.saturating_mul(chunk[axis] as usize);
        }
        let stored = vec![u64::MAX; chunk.len()];
        Self { chunk, stored, kind, fill, steps }
    }

    /// The same of a data set of which so much was stored along each axis.
    #[must_use]
    pub fn of_stored(self, stored: Vec<u64>) -> Self {
        Self { stored, ..self }
    }

    /// Elements of a chunk along each axis.
    pub fn chunk(&self) -> &[u64] {
        &self.chunk
    }

    /// The elements of a slab, the last axis fastest. `chunk_at` has the bytes of a chunk by its place in the grid.
    ///
    /// # Errors
    /// Those of `chunk_at`.
    pub fn read(&self, slab: &Slab, chunk_at: impl Fn(&[u64]) -> anyhow::Result<Bytes>) -> anyhow::Result<Vec<f64>> {
        let mut values = vec![self.fill; slab.elements() as usize];
        let ranges = slab.start.iter().zip(&slab.len).zip(&self.chunk);
        let ranges: Vec<(u64, u64)> =
            ranges.map(|((start, len), chunk)| (start / chunk, (start + len).div_ceil(*chunk))).collect();
        let mut place: Vec<u64> = ranges.iter().map(|(first, _)| *first).collect();
        loop {
            if let Some(chunk) = chunk_at(&place)? {
                self.copy(&chunk, &place, slab, &mut values);
            }
            let next = (0..place.len()).rev().find(|axis| place[*axis] + 1 < ranges[*axis].1);
            let Some(axis) = next else { break };
            place[axis] += 1;
            place[axis + 1..].iter_mut().zip(&ranges[axis + 1..]).for_each(|(place, range)| *place = range.0);
        }
        Ok(values)
    }

    /// Copies the elements of a chunk that a slab has to their places there.
    fn copy(&self, chunk: &[u8], place: &[u64], slab: &Slab, values: &mut [f64]) {
        let axes = slab.len.len();
        // Of the elements in both: where they begin in the chunk and in the slab, and how many there are.
        let (mut count, mut from, mut to) = (vec![0; axes], 0, 0);
        let mut slab_steps = vec![1; axes];
        for axis in (1..axes).rev() {
            slab_steps[axis - 1] = slab_steps[axis] * slab.len[axis] as usize;
        }
        for axis in 0..axes {
            let begins = place[axis] * self.chunk[axis];
            let first = begins.max(slab.start[axis]);
            let end = begins.saturating_add(self.chunk[axis]).min(slab.start[axis] + slab.len[axis]);
            let end = end.min(self.stored[axis]);
            if end <= first {
                return;
            }
            count[axis] = (end - first) as usize;
            from += (first - begins) as usize * self.steps[axis];
            to += (first - slab.start[axis]) as usize * slab_steps[axis];
        }
        let (run, step) = (count.last().copied().unwrap_or(1), self.steps.last().copied().unwrap_or(1));
        let mut at = vec![0; axes.saturating_sub(1)];
        loop {
            let mut places = values[to..][..run].iter_mut();
            let take = |value| places.next().into_iter().for_each(|place| *place = value);
            self.kind.each(chunk, (from, step), run, take);
            // The next run: the last axes first.
            let Some(axis) = (0..at.len()).rev().find(|axis| at[*axis] + 1 < count[*axis]) else { return };
            for back in axis + 1..at.len() {
                from -= at[back] * self.steps[back];
                to -= at[back] * slab_steps[back];
                at[back] = 0;
            }
            at[axis] += 1;
            from += self.steps[axis];
            to += slab_steps[axis];
        }
    }
}
