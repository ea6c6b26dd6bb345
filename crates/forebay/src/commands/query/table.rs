//! The files of a query as one table.

use std::collections::BTreeMap;

use anyhow::Context;
use forebay_query::{Collected, Operator, Schema, columns_of, same_columns};

use crate::cli::QueryArguments;

/// The columns of all files.
pub struct Table {
    /// Of each file.
    pub schemas: Vec<Schema>,
    /// Those that were asked for, by index.
    pub columns: Vec<usize>,
}

impl Table {
    /// Of files that have the same columns.
    ///
    /// # Errors
    /// They have not, or the columns that were asked for are not there.
    pub fn of(mut schemas: Vec<Schema>, arguments: &QueryArguments, operators: &[Operator]) -> anyhow::Result<Self> {
        let collected = Collected::of(operators);
        let name = |index: usize| arguments.files[index].display().to_string();
        for (index, here) in schemas.iter().enumerate() {
            same_columns(&schemas[0], here).with_context(|| name(index))?;
        }
        // A column is what it first is in any of the files.
        let deciding = |column: usize| schemas.iter().find(|schema| schema.numeric[column].is_some());
        let all = 0..schemas[0].numeric.len();
        let numeric: Vec<Option<bool>> =
            all.clone().map(|column| deciding(column).and_then(|schema| schema.numeric[column])).collect();
        let first_text = |column| Some((column, deciding(column)?.first_texts.get(&column)?.clone()));
        let first_texts: BTreeMap<usize, String> = all.filter_map(first_text).collect();
        for schema in &mut schemas {
            schema.numeric.clone_from(&numeric);
            schema.first_texts.clone_from(&first_texts);
        }
        let mut columns = columns_of(&schemas[0], &arguments.columns, collected).with_context(|| name(0))?;
        if !shows_columns(operators) {
            // `normalise` alone is about its column: others make no row bad.
            columns.truncate(1);
        }
        Ok(Self { schemas, columns })
    }

    /// The columns that are not numeric, with their first values; None if columns were named, or no operator shows any.
    pub fn left_out(
        &self,
        arguments: &QueryArguments,
        operators: &[Operator],
    ) -> Option<Vec<(String, Option<String>)>> {
        if !arguments.columns.is_empty() || !shows_columns(operators) {
            return None;
        }
        let Schema { names, numeric, first_texts, .. } = &self.schemas[0];
        let left = numeric.iter().enumerate().filter(|(_, numeric)| **numeric != Some(true));
        Some(left.map(|(column, _)| (names[column].clone(), first_texts.get(&column).cloned())).collect())
    }

    /// The names of the columns that were asked for.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| self.schemas[0].names[*column].clone()).collect()
    }
}

/// Whether an operator has numbers of each column.
fn shows_columns(operators: &[Operator]) -> bool {
    operators.iter().any(|operator| matches!(operator, Operator::Stats | Operator::Gramian))
}
