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
    /// The contents of a column: kind, count, different values, mean, deviation, quantiles, the most frequent value.
    Describe,
    /// Quantiles of columns.
    Quantiles,
    /// How many values lie in which range.
    Histogram,
    /// The most frequent values.
    Top,
    /// How much columns vary together.
    Covariance,
    /// The same, between -1 and 1.
    Correlation,
}

impl Operator {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::CountLines,
        Self::Stats,
        Self::Gramian,
        Self::Normalise,
        Self::Digits,
        Self::Entropy,
        Self::Describe,
        Self::Quantiles,
        Self::Histogram,
        Self::Top,
        Self::Covariance,
        Self::Correlation,
    ];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::CountLines => "count-lines",
            Self::Stats => "stats",
            Self::Gramian => "gramian",
            Self::Normalise => "normalise",
            Self::Digits => "digits",
            Self::Entropy => "entropy",
            Self::Describe => "describe",
            Self::Quantiles => "quantiles",
            Self::Histogram => "histogram",
            Self::Top => "top",
            Self::Covariance => "covariance",
            Self::Correlation => "correlation",
        }
    }

    /// Whether it looks at rows and columns.
    pub fn reads_rows(self) -> bool {
        self.describes() || self.is_of_pairs() || matches!(self, Self::Stats | Self::Normalise)
    }

    /// Whether it has numbers of each pair of columns.
    pub fn is_of_pairs(self) -> bool {
        matches!(self, Self::Gramian | Self::Covariance | Self::Correlation)
    }

    /// Whether it describes columns of text, too.
    pub fn describes_text(self) -> bool {
        matches!(self, Self::Describe | Self::Top)
    }

    /// Whether it describes columns.
    pub fn describes(self) -> bool {
        matches!(self, Self::Describe | Self::Quantiles | Self::Histogram | Self::Top)
    }
}

/// A name that no operator has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no operator {0:?}; the operators are describe, stats, quantiles, histogram, top, covariance, correlation, gramian, \
     normalise, count-lines, digits and entropy"
)]
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
    /// Rows.
    pub columns: bool,
    /// Sums of columns.
    pub sums: bool,
    /// Products of columns.
    pub gramian: bool,
    /// Products of them about their means.
    pub covariance: bool,
    /// Columns are described.
    pub described: bool,
}

impl Collected {
    /// For these operators.
    pub fn of(operators: &[Operator]) -> Self {
        let any = |wanted: &dyn Fn(Operator) -> bool| operators.iter().any(|operator| wanted(*operator));
        Self {
            bytes: any(&|operator| matches!(operator, Operator::Digits | Operator::Entropy)),
            columns: any(&Operator::reads_rows),
            sums: any(&|operator| operator.reads_rows() && !operator.describes()),
            gramian: any(&|operator| operator == Operator::Gramian),
            covariance: any(&|operator| matches!(operator, Operator::Covariance | Operator::Correlation)),
            described: any(&Operator::describes),
        }
    }
}
