//! The merge tree: binary over the index of blocks, the same however a file was cut.
//!
//! Two neighbours merge when together they are an aligned run of 2^n blocks, and only then. So every run has one state,
//! bit for bit, whoever merged it and in whatever order its parts came. A file's own state is the fold, from its beginning
//! on, of the runs that its number of blocks is made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::MergeError;
use crate::state::State;

/// The states of some blocks of a file: aligned runs, by their first block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Partials {
    runs: BTreeMap<u64, Run>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    /// It has 2^level blocks.
    level: u8,
    state: State,
}

/// Runs are no longer: a file of 2^63 bytes has 2^41 blocks.
const LEVEL_MAX: u8 = 41;

impl Partials {
    /// Adds a block.
    pub fn add(&mut self, block: u64, state: State) -> Result<(), MergeError> {
        self.add_run(block, Run { level: 0, state })
    }

    /// Adds the blocks of another. If it fails, some of them may have been added.
    pub fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        other.runs.into_iter().try_for_each(|(first, run)| self.add_run(first, run))
    }

    /// The state of the first `blocks` blocks; they must be all there are.
    pub fn finish(self, blocks: u64) -> Result<State, MergeError> {
        let mut at = 0;
        let mut whole: Option<State> = None;
        for (first, run) in self.runs {
            if first != at {
                return Err(MergeError::Missing(at));
            }
            at += 1 << run.level;
            whole = Some(match whole {
                Some(whole) => whole.merge(&run.state),
                None => run.state,
            });
        }
        match whole {
            Some(whole) if at == blocks => Ok(whole),
            None if blocks == 0 => Ok(State::default()),
            _ if at > blocks => Err(MergeError::Overlap(blocks)),
            _ => Err(MergeError::Missing(at)),
        }
    }

    /// Blocks that are not there, of the first `blocks`: runs of first and end.
    pub fn missing(&self, blocks: u64) -> Vec<(u64, u64)> {
        let mut missing = Vec::new();
        let mut at = 0;
        for (first, run) in &self.runs {
            if *first > at {
                missing.push((at, *first));
            }
            at = first + (1 << run.level);
        }
        if at < blocks {
            missing.push((at, blocks));
        }
        missing
    }

    /// The same blocks, had they begun within quotes that nothing in them closes: no row begins in them.
    pub fn without_rows(self) -> Self {
        let bare = |(first, run): (u64, Run)| (first, Run { state: run.state.without_rows(), ..run });
        Self { runs: self.runs.into_iter().map(bare).collect() }
    }

    /// Whether they are of just the blocks from `first` to `end`, of so many bytes, and like `like`.
    pub(crate) fn are_whole(&self, first: u64, end: u64, bytes: u64, like: &State) -> bool {
        let mut at = Some(first);
        for (begin, run) in &self.runs {
            let len = 1u64.checked_shl(u32::from(run.level)).filter(|len| begin.is_multiple_of(*len));
            at = at.filter(|at| at == begin).zip(len).and_then(|(at, len)| at.checked_add(len));
        }
        let is_like = self.runs.values().all(|run| run.state.is_like(like));
        let all = self.runs.values().try_fold(0u64, |sum, run| sum.checked_add(run.state.bytes));
        at == Some(end) && is_like && all == Some(bytes)
    }

    /// Bytes that they claim, as far as there are numbers.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.values().fold(0, |sum, run| sum.saturating_add(run.state.bytes))
    }

    fn add_run(&mut self, first: u64, run: Run) -> Result<(), MergeError> {
        let Run { mut level, mut state } = run;
        let mut first = first;
        let len = 1u64.checked_shl(u32::from(level)).filter(|_| level <= LEVEL_MAX).ok_or(MergeError::OtherQuery)?;
        let end = first.checked_add(len).filter(|_| first.is_multiple_of(len)).ok_or(MergeError::OtherQuery)?;
        let nearest = self.runs.range(..end).next_back();
        if let Some((before, _)) = nearest.filter(|(before, run)| *before + (1 << run.level) > first) {
            return Err(MergeError::Overlap(first.max(*before)));
        }
        if self.runs.values().next().is_some_and(|run| !run.state.is_like(&state)) || !state.is_sound() {
            return Err(MergeError::OtherQuery);
        }
        while level < LEVEL_MAX {
            let other = first ^ (1 << level);
            if self.runs.get(&other).is_none_or(|run| run.level != level) {
                break;
            }
            let Some(Run { state: sibling, .. }) = self.runs.remove(&other) else { break };
            state = if other < first { sibling.merge(&state) } else { state.merge(&sibling) };
            first = first.min(other);
            level += 1;
        }
        self.runs.insert(first, Run { level, state });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Partials {
        /// As a node would say that was asked for no rows.
        pub fn without_a_row_part(mut self) -> Self {
            self.runs.values_mut().for_each(|run| run.state.rows = None);
            self
        }
    }

    fn block(bytes: u64) -> State {
        State { bytes, lines: bytes.min(1), ..State::default() }
    }

    #[test]
    fn blocks_are_there_once() {
        let mut partials = Partials::default();
        for index in [3, 0, 2] {
            partials.add(index, block(index)).unwrap();
        }
        assert_eq!(partials.missing(6), [(1, 2), (4, 6)]);
        assert_eq!(partials.add(3, block(3)), Err(MergeError::Overlap(3)));
        assert_eq!(partials.clone().finish(4), Err(MergeError::Missing(1)));
        partials.add(1, block(1)).unwrap();
        assert_eq!(partials.clone().finish(4).unwrap().bytes, 6);
        assert_eq!(partials.clone().finish(5), Err(MergeError::Missing(4)));
        assert_eq!(partials.clone().finish(3), Err(MergeError::Overlap(3)));
        assert_eq!(partials.merge(Partials::default()), Ok(()));
    }

    #[test]
    fn a_partial_that_travelled_is_checked() {
        let state = || block(1);
        let mut partials = Partials::default();
        assert_eq!(partials.add_run(1, Run { level: 1, state: state() }), Err(MergeError::OtherQuery));
        assert_eq!(partials.add_run(0, Run { level: 200, state: state() }), Err(MergeError::OtherQuery));
        assert_eq!(partials.add_run(u64::MAX, Run { level: 0, state: state() }), Err(MergeError::OtherQuery));
        partials.add(0, state()).unwrap();
        let other = State { rows: Some(crate::Rows::default()), ..state() };
        assert_eq!(partials.add(1, other), Err(MergeError::OtherQuery));
    }
}
