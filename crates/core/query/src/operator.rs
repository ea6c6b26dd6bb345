//! The operators and what each needs.

use std::str::FromStr;

/// An operator of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// Newlines.
    CountLines,
    /// Count, sum, mean, extremes, variance and deviation of columns.
    Stats,
    /// A^T A.
    Gramian,
    /// (x - mean) / deviation of one column, written to a file.
    Normalise,
    /// How often each decimal digit occurs.
    Digits,
    /// Shannon's, bits a byte.
    Entropy,
}

impl Operator {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::CountLines, Self::Stats, Self::Gramian, Self::Normalise, Self::Digits, Self::Entropy];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::CountLines => "count-lines",
            Self::Stats => "stats",
            Self::Gramian => "gramian",
            Self::Normalise => "normalise",
            Self::Digits => "digits",
            Self::Entropy => "entropy",
        }
    }

    /// Whether it looks at rows and columns.
    pub fn reads_rows(self) -> bool {
        matches!(self, Self::Stats | Self::Gramian | Self::Normalise)
    }
}

/// A name that no operator has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no operator {0:?}; the operators are count-lines, stats, gramian, normalise, digits and entropy")]
pub struct UnknownOperator(String);

impl FromStr for Operator {
    type Err = UnknownOperator;

    fn from_str(name: &str) -> Result<Self, UnknownOperator> {
        Self::ALL.into_iter().find(|operator| operator.name() == name).ok_or_else(|| UnknownOperator(name.to_owned()))
    }
}

/// The counts and sums that a pass collects for some operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How often each byte occurs.
    pub bytes: bool,
    /// Rows, and sums of columns.
    pub columns: bool,
    /// Products of columns.
    pub gramian: bool,
}

impl Collected {
    /// For these operators.
    pub fn of(operators: &[Operator]) -> Self {
        let any = |wanted: &dyn Fn(Operator) -> bool| operators.iter().any(|operator| wanted(*operator));
        Self {
            bytes: any(&|operator| matches!(operator, Operator::Digits | Operator::Entropy)),
            columns: any(&Operator::reads_rows),
            gramian: any(&|operator| operator == Operator::Gramian),
        }
    }
}
