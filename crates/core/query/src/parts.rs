//! The parts of a file in a query over several nodes: which end makes each, and the results so far.
//!
//! Parts are aligned runs of blocks, taken in their order, each answered once or more often; the first answer that fits
//! counts. A part that is lost is open again. One that is under way at one end may be made by the other one too, which then
//! need not wait. The module does not know which node makes a part, or when.

use std::collections::BTreeMap;

use crate::error::MergeError;
use crate::limits::BLOCK_BYTES;
use crate::part::PartState;
use crate::partials::Partials;
use crate::state::State;

/// Blocks of a part at most: some tenths of a second on a slow node, so that one that is lost costs no more.
const PART_BLOCKS_MAX: u64 = 8;

/// Parts for each worker, where the file has as many blocks: what the slowest still does when the others are done is a
/// small share of all.
const PARTS_EACH: u64 = 8;

/// The end that makes parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host.
    Host,
    /// The nodes that hold the bytes.
    Nodes,
}

/// A part to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which.
    pub index: usize,
    /// Its first block.
    pub first: u64,
    /// Its blocks.
    pub blocks: u32,
    /// Whether it begins within quotes, if that is known.
    pub begins_quoted: Option<bool>,
}

/// The parts of a file.
#[derive(Debug)]
pub struct Parts {
    file_bytes: u64,
    part_blocks: u64,
    /// The form that every partial must have.
    like: State,
    progress: Vec<Progress>,
    /// Parts answered whose turn has not come.
    early: BTreeMap<usize, PartState>,
    /// Parts from the first on that are merged.
    merged: usize,
    /// Whether the first part that is not merged begins within quotes.
    is_quoted: bool,
    /// The same of those that are merged.
    quoted_starts: Vec<bool>,
    partials: Partials,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Open,
    UnderWay(Makers),
    Answered,
}

/// Which sides make a part; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Makers {
    host: bool,
    nodes: bool,
}

impl Makers {
    fn of(&mut self, side: Side) -> &mut bool {
        match side {
            Side::Host => &mut self.host,
            Side::Nodes => &mut self.nodes,
        }
    }
}

impl Parts {
    /// Of a file of so many bytes, made by so many workers; every partial is to be like `like`.
    pub fn new(file_bytes: u64, workers: usize, like: State) -> Self {
        Self::of_several(file_bytes, file_bytes, workers, like)
    }

    /// Of one of several files of so many bytes together, which the same workers make.
    pub fn of_several(file_bytes: u64, all_bytes: u64, workers: usize, like: State) -> Self {
        let wanted = all_bytes.div_ceil(BLOCK_BYTES) / (PARTS_EACH * workers.max(1) as u64);
        let part_blocks = match wanted {
            0 => 1,
            wanted => (1 << wanted.ilog2()).min(PART_BLOCKS_MAX),
        };
        Self::cut(file_bytes, part_blocks, like)
    }

    /// The same, where every part is to be one block: each may have a node of its own, or is to be read again by itself.
    pub fn by_block(file_bytes: u64, like: State) -> Self {
        Self::cut(file_bytes, 1, like)
    }

    /// Of a file whose bytes before its rows may have an odd number of quotes, which count for nothing.
    #[must_use]
    pub fn behind(mut self, turns_quoting: bool) -> Self {
        self.is_quoted = turns_quoting;
        self
    }

    fn cut(file_bytes: u64, part_blocks: u64, like: State) -> Self {
        let blocks = file_bytes.div_ceil(BLOCK_BYTES);
        let progress = vec![Progress::Open; blocks.div_ceil(part_blocks) as usize];
        let (early, partials, quoted_starts) = (BTreeMap::new(), Partials::default(), vec![]);
        Self { file_bytes, part_blocks, like, progress, early, merged: 0, is_quoted: false, quoted_starts, partials }
    }

    /// The first part that nobody makes; it is under way from now on.
    pub fn take(&mut self, side: Side) -> Option<Part> {
        self.take_if(side, |_| true)
    }

    /// The first of those that `may` be taken, by their first block.
    pub fn take_if(&mut self, side: Side, may: impl Fn(u64) -> bool) -> Option<Part> {
        let is_open = |index: &usize| self.progress[*index] == Progress::Open && may(self.blocks_of(*index).0);
        let index = (self.merged..self.progress.len()).find(is_open)?;
        Some(self.begin(index, side, Makers::default()))
    }

    /// The first part that only the other side makes and that `may` be taken, for those who would wait for it: whoever is
    /// faster counts.
    pub fn take_again(&mut self, side: Side, may: impl Fn(u64) -> bool) -> Option<Part> {
        let index = (self.merged..self.progress.len()).find(|index| match self.progress[*index] {
            Progress::UnderWay(mut makers) => !*makers.of(side) && may(self.blocks_of(*index).0),
            _ => false,
        })?;
        let Progress::UnderWay(makers) = self.progress[index] else { return None };
        Some(self.begin(index, side, makers))
    }

    fn begin(&mut self, index: usize, side: Side, mut makers: Makers) -> Part {
        *makers.of(side) = true;
        self.progress[index] = Progress::UnderWay(makers);
        let (first, end) = self.blocks_of(index);
        let begins_quoted = (index == self.merged).then_some(self.is_quoted);
        Part { index, first, blocks: (end - first) as u32, begins_quoted }
    }

    /// The maker of the part on this side is lost: the part is open again, unless the other side makes it.
    pub fn give_back(&mut self, index: usize, side: Side) {
        if let Some(progress @ Progress::UnderWay(_)) = self.progress.get_mut(index)
            && let Progress::UnderWay(makers) = progress
        {
            *makers.of(side) = false;
            if *makers == Makers::default() {
                *progress = Progress::Open;
            }
        }
    }

    /// Bytes of the parts that somebody makes.
    pub fn under_way_bytes(&self) -> u64 {
        let is_made = |index: &usize| matches!(self.progress[*index], Progress::UnderWay(_));
        (self.merged..self.progress.len()).filter(is_made).map(|index| self.bytes_of(index)).sum()
    }

    /// Takes an answer; the bytes that it is about, 0 if there was one before.
    ///
    /// # Errors
    /// It is no answer to this part, which is to be given back.
    pub fn answered(&mut self, index: usize, state: PartState) -> Result<u64, MergeError> {
        let ((first, end), bytes) = (self.blocks_of(index), self.bytes_of(index));
        let fits = |partials: &Partials| partials.are_whole(first, end, bytes, &self.like);
        if state.partials().next().is_none() || !state.partials().all(fits) {
            return Err(MergeError::OtherQuery);
        }
        if self.progress.get(index).is_none_or(|progress| *progress == Progress::Answered) {
            return Ok(0);
        }
        self.progress[index] = Progress::Answered;
        self.early.insert(index, state);
        self.merge()?;
        Ok(bytes)
    }

    /// Whether all parts are answered.
    pub fn is_done(&self) -> bool {
        self.merged == self.progress.len()
    }

    /// Of each part that is merged, whether it begins within quotes.
    pub fn quoted_starts(&self) -> &[bool] {
        &self.quoted_starts
    }

    /// The file's state.
    ///
    /// # Errors
    /// Parts are missing.
    pub fn finish(self) -> Result<State, MergeError> {
        match self.progress.is_empty() {
            true => Ok(self.like),
            false => self.partials.finish(self.file_bytes.div_ceil(BLOCK_BYTES)),
        }
    }

    /// Merges what has its turn.
    fn merge(&mut self) -> Result<(), MergeError> {
        while let Some(state) = self.early.remove(&self.merged) {
            let turns = state.quotes.turn();
            let Some(partials) = state.chosen(self.is_quoted) else {
                // It was made for the other case, by a node that did not do what it was asked: once more.
                self.progress[self.merged] = Progress::Open;
                return Ok(());
            };
            self.partials.merge(partials)?;
            self.quoted_starts.push(self.is_quoted);
            self.is_quoted ^= turns;
            self.merged += 1;
        }
        Ok(())
    }

    fn bytes_of(&self, index: usize) -> u64 {
        let (first, end) = self.blocks_of(index);
        (end * BLOCK_BYTES).min(self.file_bytes).saturating_sub(first * BLOCK_BYTES)
    }

    fn blocks_of(&self, index: usize) -> (u64, u64) {
        let first = index as u64 * self.part_blocks;
        (first, (first + self.part_blocks).min(self.file_bytes.div_ceil(BLOCK_BYTES)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Quotes;
    use crate::state::Rows;

    const FILE_BYTES: u64 = 20 * BLOCK_BYTES + 1;

    fn like() -> State {
        State { rows: Some(Rows::default()), ..State::default() }
    }

    fn parts() -> Parts {
        let parts = Parts::new(FILE_BYTES, 1, like());
        assert_eq!(parts.progress.len(), 11, "parts of two blocks");
        parts
    }

    /// A block with a row.
    fn block(index: u64, good: u64) -> State {
        let bytes = BLOCK_BYTES.min(FILE_BYTES - index * BLOCK_BYTES);
        State { bytes, lines: 1, byte_counts: None, rows: Some(Rows { good: good.min(bytes), ..Rows::default() }) }
    }

    fn partials(part: Part, good: u64) -> Partials {
        let mut partials = Partials::default();
        (part.first..part.first + u64::from(part.blocks)).for_each(|at| partials.add(at, block(at, good)).unwrap());
        partials
    }

    fn answer(part: Part, quotes: Quotes) -> PartState {
        let quoted = (quotes != Quotes::None).then(|| partials(part, 100));
        PartState { quotes, unquoted: Some(partials(part, 1)), quoted }
    }

    fn taken(parts: &mut Parts) -> Vec<Part> {
        std::iter::from_fn(|| parts.take(Side::Nodes)).collect()
    }

    #[test]
    fn bytes_before_a_part_decide_how_it_begins() {
        let mut parts = parts();
        let all = taken(&mut parts);
        assert_eq!((all[0].begins_quoted, all[1].begins_quoted), (Some(false), None));
        // Within quotes from the second part's end to the fifth's: the third and the fourth have none, so no rows.
        for part in all.iter().rev() {
            let quotes = [Quotes::Even, Quotes::Odd, Quotes::None, Quotes::None, Quotes::Odd, Quotes::Even];
            parts.answered(part.index, answer(*part, quotes[part.index.min(5)])).unwrap();
        }
        assert_eq!(parts.quoted_starts()[..7], [false, false, true, true, true, false, false]);
        let state = parts.finish().unwrap();
        assert_eq!((state.bytes, state.lines), (FILE_BYTES, 21));
        assert_eq!(state.rows.unwrap().good, 2 + 2 + 200 + 11);
    }

    #[test]
    fn a_lost_part_is_made_by_another_and_counts_once() {
        let mut parts = parts();
        let all = taken(&mut parts);
        parts.give_back(3, Side::Nodes);
        let again = parts.take(Side::Nodes).unwrap();
        assert_eq!((again.index, parts.take(Side::Nodes)), (3, None));
        for part in all.iter().chain([&again]) {
            parts.answered(part.index, answer(*part, Quotes::None)).unwrap();
            parts.give_back(part.index, Side::Nodes);
        }
        assert!(parts.is_done());
        assert_eq!(parts.finish().unwrap().rows.unwrap().good, 21);
    }

    #[test]
    fn a_part_under_way_is_made_by_the_other_side_too_and_counts_once() {
        let mut parts = parts();
        assert_eq!(parts.take_again(Side::Host, |_| true), None, "nothing is under way");
        let all = taken(&mut parts);
        assert_eq!(parts.under_way_bytes(), FILE_BYTES);
        assert_eq!(parts.take_again(Side::Nodes, |_| true), None, "the nodes make all of them");
        let again = parts.take_again(Side::Host, |_| true).unwrap();
        assert_eq!(again.index, 0);
        // Whichever side is lost, the other one still makes it.
        parts.give_back(0, Side::Nodes);
        assert_eq!(parts.take(Side::Nodes), None);
        assert_eq!(parts.take_again(Side::Nodes, |_| true).map(|part| part.index), Some(0));
        assert_eq!(parts.answered(0, answer(all[0], Quotes::None)), Ok(2 * BLOCK_BYTES));
        assert_eq!(parts.answered(0, answer(again, Quotes::None)), Ok(0));
        parts.give_back(1, Side::Nodes);
        assert_eq!(parts.take(Side::Host).map(|part| part.index), Some(1));
        for part in &all[1..] {
            parts.answered(part.index, answer(*part, Quotes::None)).unwrap();
        }
        assert_eq!((parts.under_way_bytes(), parts.is_done()), (0, true));
        assert_eq!(parts.finish().unwrap().rows.unwrap().good, 21);
    }

    #[test]
    fn an_answer_to_something_else_counts_as_none() {
        let mut parts = parts();
        let all = taken(&mut parts);
        let wrong = [
            answer(all[1], Quotes::None),
            PartState { quotes: Quotes::None, unquoted: None, quoted: None },
            PartState { unquoted: Some(Partials::default()), ..answer(all[0], Quotes::None) },
            PartState { unquoted: Some(partials(all[0], 1).without_a_row_part()), ..answer(all[0], Quotes::None) },
        ];
        for state in wrong {
            assert!(parts.answered(0, state).is_err());
            parts.give_back(0, Side::Nodes);
            assert_eq!(parts.take(Side::Nodes).map(|part| part.index), Some(0));
        }
        let mut short = Partials::default();
        short.add(0, block(0, 1)).unwrap();
        short.add(1, State { bytes: 5, ..block(1, 1) }).unwrap();
        let short = PartState { unquoted: Some(short), ..answer(all[0], Quotes::None) };
        assert!(parts.answered(0, short).is_err(), "fewer bytes than the part has");
        assert!(parts.finish().is_err());
    }

    #[test]
    fn a_part_made_for_the_other_case_is_made_again() {
        let mut parts = parts();
        let all = taken(&mut parts);
        parts.answered(0, answer(all[0], Quotes::Odd)).unwrap();
        let half = PartState { quoted: None, ..answer(all[1], Quotes::Even) };
        parts.answered(1, half).unwrap();
        let again = parts.take(Side::Nodes).unwrap();
        assert_eq!((again.index, again.begins_quoted), (1, Some(true)));
    }

    #[test]
    fn parts_of_one_block_go_to_those_who_may_take_them() {
        let mut parts = Parts::by_block(FILE_BYTES, like());
        let even = |first: u64| first.is_multiple_of(2);
        let taken: Vec<_> =
            std::iter::from_fn(|| parts.take_if(Side::Nodes, even)).map(|part| (part.first, part.blocks)).collect();
        assert_eq!(taken, (0..=20).step_by(2).map(|first| (first, 1)).collect::<Vec<_>>());
        let again = [parts.take_again(Side::Host, |first| first > 3), parts.take_again(Side::Host, |first| first == 1)];
        assert_eq!(again.map(|part| part.map(|part| part.first)), [Some(4), None], "of what is under way");
        assert_eq!(parts.take(Side::Nodes).map(|part| part.first), Some(1), "what nobody could take is open");
    }

    #[test]
    fn an_empty_file_has_no_parts() {
        let mut parts = Parts::new(0, 3, like());
        assert!(parts.is_done() && parts.take(Side::Nodes).is_none());
        assert_eq!(parts.finish(), Ok(like()));
    }
}
