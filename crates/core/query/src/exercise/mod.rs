//! For fuzzing and for its corpus: what a host does with the answer of a node that may say anything.

use crate::byte_counts::ByteCounts;
use crate::co_moments::CoMoments;
use crate::describe::Described;
use crate::gramian::Gramian;
use crate::groups::Groups;
use crate::limits::BLOCK_BYTES;
use crate::part::{PartState, Quotes};
use crate::partials::Partials;
use crate::parts::{Part, Parts, Side};
use crate::state::{Rows, State};

/// Columns of the queries that are answered.
pub const COLUMNS: usize = 2;

/// Parts of eight blocks each, and a last one of less than a block.
pub const LARGE_BYTES: u64 = 64 * BLOCK_BYTES + 100;

/// Takes bytes for the answer to the first part of a query, beside honest answers to the others, and computes what the
/// query asked for; how many of some queries over some files they answer.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn answer_part(bytes: &[u8]) -> usize {
    let Some(state) = PartState::decode(bytes) else { return 0 };
    // Bytes, as NaN equals nothing.
    assert_eq!(PartState::decode(&state.encode()).map(|state| state.encode()), Some(state.encode()));
    let claimed = state.partials().map(Partials::bytes).max().unwrap_or(0);
    let files = [claimed.min(BLOCK_BYTES), LARGE_BYTES];
    let queries = files.into_iter().flat_map(|bytes| queries().map(move |like| (bytes, like)));
    queries.filter(|(bytes, like)| answers(&state, *bytes, like)).count()
}

/// States of nothing, as each query's are.
fn queries() -> impl Iterator<Item = State> {
    let rows = |gramian: bool| Rows { gramian: gramian.then(|| Gramian::new(COLUMNS)), ..Rows::of(COLUMNS) };
    let all = [None, Some(false), Some(true)].map(|gramian| gramian.map(rows));
    let covariance = Rows { covariance: Some(CoMoments::new(COLUMNS)), ..rows(false) };
    let described = Rows { described: Described::of(1, 1), ..Rows::of(0) };
    let groups = Rows { groups: Some(Groups::default()), ..rows(false) };
    let all = all.into_iter().chain([covariance, described, groups].map(Some));
    let counts = |rows: Option<Rows>| [None, Some(ByteCounts::default())].map(|counts| (counts, rows.clone()));
    all.flat_map(counts).map(|(byte_counts, rows)| State { byte_counts, rows, ..State::default() })
}

/// Whether the state answers the first part of a query over a file of so many bytes.
fn answers(state: &PartState, file_bytes: u64, like: &State) -> bool {
    let mut parts = Parts::new(file_bytes, 1, like.clone());
    let Some(first) = parts.take(Side::Nodes) else { return false };
    let is_taken = parts.answered(first.index, state.clone()).is_ok();
    if !is_taken {
        parts.give_back(first.index, Side::Nodes);
        // That it is made again is seen with a small file, too.
        if file_bytes > BLOCK_BYTES {
            return false;
        }
    }
    while let Some(part) = parts.take(Side::Nodes) {
        let honest = honest(part, file_bytes, like);
        assert!(parts.answered(part.index, honest).is_ok(), "an honest answer counts");
    }
    assert!(parts.is_done());
    let Ok(state) = parts.finish() else { panic!("all parts are there") };
    assert_eq!(state.bytes, file_bytes);
    compute(&state);
    is_taken
}

/// Zeros, in which no row begins.
fn honest(part: Part, file_bytes: u64, like: &State) -> PartState {
    let mut partials = Partials::default();
    for block in part.first..part.first + u64::from(part.blocks) {
        let bytes = BLOCK_BYTES.min(file_bytes - block * BLOCK_BYTES);
        let mut state = State { bytes, ..like.clone() };
        if let Some(counts) = &mut state.byte_counts {
            counts.add_many(0, bytes);
        }
        assert_eq!(partials.add(block, state), Ok(()));
    }
    PartState { quotes: Quotes::None, quoted: Some(partials.clone()), unquoted: Some(partials) }
}

/// All that is shown of an answer.
fn compute(state: &State) {
    if let Some(counts) = &state.byte_counts {
        assert!(counts.entropy() <= 8.000_001, "{}", counts.entropy());
        assert!(counts.digits().iter().all(|count| *count <= state.bytes));
    }
    let Some(rows) = &state.rows else { return };
    assert!(rows.named.iter().all(|row| row.lines_before <= state.lines) && rows.bad >= rows.named.len() as u64);
    for column in &rows.columns {
        let summary = column.summary();
        assert_eq!(summary.count + summary.missing, rows.good);
        let _ = column.normalised();
    }
    for column in &rows.described.numbers {
        let quantiles = [0.0, 0.5, 1.0].map(|share| column.values.quantile(share));
        assert_eq!(quantiles.iter().any(|quantile| quantile.is_nan()), column.values.count() == 0);
        let _ = (
            column.values.distinct(),
            column.values.most_frequent(3),
            column.shape.skewness(),
            column.shape.kurtosis(),
        );
        assert_eq!(column.bins.bins().map(|bin| bin.count).sum::<u64>(), column.column.finite());
    }
    for column in &rows.described.texts {
        assert!(column.most_frequent(3).iter().all(|counted| counted.count <= column.count()));
        let _ = (column.distinct(), column.extremes(), column.are_dates());
    }
    if let Some(covariance) = &rows.covariance {
        assert_eq!((covariance.covariances().len(), covariance.correlations().len()), (COLUMNS, COLUMNS));
    }
    if let Some(Ok(groups)) = rows.groups.as_ref().map(Groups::groups) {
        assert_eq!(groups.iter().map(|(_, group)| group.rows).sum::<u64>(), rows.good);
    }
    if let Some(gramian) = &rows.gramian {
        assert_eq!((gramian.matrix().len(), gramian.correlations().len()), (COLUMNS, COLUMNS));
    }
}
