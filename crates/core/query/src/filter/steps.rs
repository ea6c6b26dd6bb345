//! A condition on rows, step by step, and what it says of one.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::dialect::{Dialect, Field};
use crate::limits::FILTER_STEPS_MAX;

/// A condition on rows, step by step: each takes results of those before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filter(pub(super) Vec<Step>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Step {
    /// Whether a field is so to a value.
    Compare(u16, Relation, Value),
    /// Whether it is one of these.
    In(u16, Vec<Value>),
    /// Whether it is missing.
    IsMissing(u16),
    /// The contrary of the last result.
    Not,
    /// Whether both of the last results hold.
    And,
    /// Whether one of them does.
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Value {
    Number(f64),
    Text(String),
    /// A text that is a number: beside a number that, beside other texts itself.
    Either(f64, String),
}

impl Relation {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::AtMost => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::AtLeast => ordering.is_ge(),
        }
    }
}

impl Value {
    /// How a field stands to it; None where that is not known.
    fn ordering(&self, field: &[u8], dialect: &Dialect) -> Option<Ordering> {
        let beside_text =
            |value: &str| (!is_missing(field, dialect)).then(|| (*dialect.text_of(field)).cmp(value.as_bytes()));
        match (self, dialect.field(field)) {
            (Self::Number(value) | Self::Either(value, _), Field::Number(number)) => number.partial_cmp(value),
            (Self::Number(_), _) => None,
            (Self::Text(value) | Self::Either(_, value), _) => beside_text(value),
        }
    }
}

/// Whether a field has no value, in a column of numbers or of text.
fn is_missing(field: &[u8], dialect: &Dialect) -> bool {
    let inner = dialect.inner(field);
    inner.is_empty() || dialect.missing.find(&inner).is_some()
}

impl Filter {
    /// As it travels.
    ///
    /// # Panics
    /// Never: plain structures encode into memory.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("encoding into memory cannot fail")
    }

    /// The condition in these bytes, if they hold just one, about a table of so many columns.
    #[must_use]
    pub fn decode(bytes: &[u8], fields: usize) -> Option<Self> {
        let (filter, rest) = postcard::take_from_bytes::<Self>(bytes).ok()?;
        (rest.is_empty() && filter.is_sound(fields)).then_some(filter)
    }

    fn is_sound(&self, fields: usize) -> bool {
        let mut results = 0usize;
        let are_taken = self.0.iter().all(|step| {
            let (taken, column) = match step {
                Step::Compare(column, ..) | Step::In(column, _) | Step::IsMissing(column) => (0, Some(*column)),
                Step::Not => (1, None),
                Step::And | Step::Or => (2, None),
            };
            let has = results >= taken && column.is_none_or(|column| usize::from(column) < fields);
            results = results.saturating_sub(taken) + 1;
            has
        });
        are_taken && results == 1 && self.0.len() <= FILTER_STEPS_MAX
    }

    /// The columns that it looks at.
    pub fn columns(&self) -> Vec<usize> {
        let column = |step: &Step| match step {
            Step::Compare(column, ..) | Step::In(column, _) | Step::IsMissing(column) => Some(usize::from(*column)),
            Step::Not | Step::And | Step::Or => None,
        };
        self.0.iter().filter_map(column).collect()
    }

    /// Whether a row with these fields counts.
    pub fn admits<'a>(&self, dialect: &Dialect, field: impl Fn(usize) -> &'a [u8]) -> bool {
        let mut results: Vec<Option<bool>> = Vec::with_capacity(self.0.len());
        for step in &self.0 {
            let result = match step {
                Step::Compare(column, relation, value) => {
                    value.ordering(field(usize::from(*column)), dialect).map(|ordering| relation.holds(ordering))
                }
                Step::In(column, values) => {
                    let field = field(usize::from(*column));
                    let is = |value: &Value| value.ordering(field, dialect).map(Ordering::is_eq);
                    values.iter().map(is).reduce(or).flatten()
                }
                Step::IsMissing(column) => Some(is_missing(field(usize::from(*column)), dialect)),
                Step::Not => results.pop().flatten().map(|result| !result),
                Step::And => {
                    let (right, left) = (results.pop().flatten(), results.pop().flatten());
                    or(left.map(|left| !left), right.map(|right| !right)).map(|result| !result)
                }
                Step::Or => or(results.pop().flatten(), results.pop().flatten()),
            };
            results.push(result);
        }
        results.last() == Some(&Some(true))
    }
}

/// Whether one of two holds, which may not be known.
fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}
