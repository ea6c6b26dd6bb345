//! Which columns a query is about.

use crate::describe::DescribedColumns;
use crate::error::QueryError;
use crate::limits::{DESCRIBED_COLUMNS_MAX, FIELDS_MAX, GRAMIAN_COLUMNS_MAX};
use crate::operator::{Collected, Operator};
use crate::schema::{Schema, shown_name};

/// The columns to sum that were asked for, by name or number from 1 on, in that order; all numeric ones if none was. None if nothing is
/// summed.
pub fn columns_of(schema: &Schema, asked: &[String], collected: Collected) -> Result<Vec<usize>, QueryError> {
    if !collected.sums {
        return Ok(vec![]);
    }
    let columns = match asked {
        [] => schema.numeric_columns(),
        asked => named(schema, asked).iter().map(|asked| numeric_column_of(schema, asked)).collect::<Result<_, _>>()?,
    };
    if columns.is_empty() {
        return Err(QueryError::NoNumericColumn);
    }
    if columns.len() > FIELDS_MAX {
        return Err(QueryError::TooManyColumns(columns.len()));
    }
    if (collected.gramian || collected.covariance) && columns.len() > GRAMIAN_COLUMNS_MAX {
        return Err(QueryError::GramianTooLarge(columns.len()));
    }
    Ok(columns)
}

/// The columns that these operators describe, likewise; all if none was asked for, those of text only where an operator says
/// something about them.
pub fn described_columns_of(
    schema: &Schema,
    asked: &[String],
    operators: &[Operator],
) -> Result<DescribedColumns, QueryError> {
    if !operators.iter().any(|operator| operator.describes()) {
        return Ok(DescribedColumns::default());
    }
    let with_text = operators.iter().any(|operator| operator.describes_text());
    let mut columns = match asked {
        [] => (0..schema.numeric.len()).collect(),
        asked if with_text => {
            named(schema, asked).iter().map(|asked| column_of(schema, asked)).collect::<Result<Vec<_>, _>>()?
        }
        asked => named(schema, asked).iter().map(|asked| numeric_column_of(schema, asked)).collect::<Result<_, _>>()?,
    };
    columns.sort_unstable();
    columns.dedup();
    let (texts, numbers): (Vec<_>, Vec<_>) =
        columns.into_iter().partition(|column| schema.numeric[*column] == Some(false));
    let texts = if with_text { texts } else { vec![] };
    match numbers.len() + texts.len() {
        0 => Err(QueryError::NoNumericColumn),
        count if count > DESCRIBED_COLUMNS_MAX => Err(QueryError::TooManyDescribed(count)),
        _ => Ok(DescribedColumns { numbers, texts }),
    }
}

/// Refuses a file whose columns are not those of the first.
pub fn same_columns(first: &Schema, here: &Schema) -> Result<(), QueryError> {
    let both_named = first.has_header && here.has_header;
    if first.names.len() == here.names.len() && (!both_named || first.names == here.names) {
        return Ok(());
    }
    Err(QueryError::OtherColumns { here: listed(here), first: listed(first) })
}

/// The names of columns, where the name of a data set stands for all that it has.
fn named(schema: &Schema, asked: &[String]) -> Vec<String> {
    let of_set = |asked: &String| {
        let bare = asked.strip_prefix('/').unwrap_or(asked);
        let is_column = |name: &&String| name.strip_prefix(bare).is_some_and(|rest| rest.starts_with('['));
        let is_one = !schema.is_of_doubles() || schema.names.contains(asked);
        let all: Vec<String> = match is_one {
            true => vec![],
            false if schema.names.iter().any(|name| name == bare) => vec![bare.to_owned()],
            false => schema.names.iter().filter(is_column).cloned().collect(),
        };
        if all.is_empty() { vec![asked.clone()] } else { all }
    };
    asked.iter().flat_map(of_set).collect()
}

fn numeric_column_of(schema: &Schema, asked: &str) -> Result<usize, QueryError> {
    let index = column_of(schema, asked)?;
    match schema.numeric[index] {
        Some(false) => {
            let text = schema.first_texts.get(&index).cloned().unwrap_or_default();
            Err(QueryError::NotNumeric { name: schema.names[index].clone(), text })
        }
        _ => Ok(index),
    }
}

/// The column of a name, or of a number from 1 on.
pub fn column_of(schema: &Schema, asked: &str) -> Result<usize, QueryError> {
    let mut named = (0..schema.names.len()).filter(|index| schema.names[*index] == asked);
    let (by_name, second) = (named.next(), named.next());
    if let (Some(first), Some(second)) = (by_name, second) {
        let all = [first, second].into_iter().chain(named).map(|index| (index + 1).to_string());
        let numbers = all.collect::<Vec<_>>().join(", ");
        return Err(QueryError::SeveralColumns { asked: asked.to_owned(), numbers });
    }
    let by_number = || asked.parse::<usize>().ok()?.checked_sub(1).filter(|index| *index < schema.names.len());
    let no_such = || QueryError::NoSuchColumn { asked: asked.to_owned(), has: listed(schema) };
    by_name.or_else(by_number).ok_or_else(no_such)
}

/// The columns as a message shows them.
fn listed(schema: &Schema) -> String {
    /// As many as a line has room for.
    const SHOWN_MAX: usize = 12;
    let names = schema.names.iter().take(SHOWN_MAX).map(|name| shown_name(name)).collect::<Vec<_>>().join(",");
    match schema.names.len().checked_sub(SHOWN_MAX) {
        Some(more) if more > 0 => format!("{names} and {more} more"),
        _ => names,
    }
}
