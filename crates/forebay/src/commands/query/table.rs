//! The files of a query as one table.

use std::collections::BTreeMap;

use anyhow::Context;
use forebay_offload::files::WantedRows;
use forebay_query::{
    Collected, DescribedColumns, Dialect, Filter, Kept, Keys, NumberColumn, OnText, Operator, QueryError, Reading,
    Rows, Schema, Words, column_of, columns_of, described_columns_of, same_columns, unite_keys,
};

use crate::cli::{Delimiter, OnError, QueryArguments};
use crate::commands::query::answer::DescribedAs;
use crate::settings::UsageError;

/// The columns of all files.
pub struct Table {
    /// Of each file.
    pub schemas: Vec<Schema>,
    /// Those to sum that were asked for, or all that may be numeric, by index.
    pub columns: Vec<usize>,
    /// Those that are described.
    pub described: DescribedColumns,
    /// Whether text is described, too.
    describes_text: bool,
    /// The meaning of text in them.
    pub on_text: OnText,
    /// Which rows count; all without one.
    pub filter: Option<Filter>,
    /// The column whose values make groups of rows.
    pub by: Option<usize>,
}

impl Table {
    /// Of files that have the same columns.
    ///
    /// # Errors
    /// They have not, or the columns that were asked for are not there.
    pub fn of(mut schemas: Vec<Schema>, arguments: &QueryArguments, operators: &[Operator]) -> anyhow::Result<Self> {
        let collected = Collected::of(operators);
        unite_keys(&mut schemas);
        let name = |index: usize| arguments.files[index].display().to_string();
        for (index, here) in schemas.iter().enumerate() {
            same_columns(&schemas[0], here).with_context(|| name(index))?;
        }
        // A column has numbers if it has in one of the files, in whatever order they are.
        let is = |schema: &&Schema, column: usize, numeric| schema.numeric[column] == Some(numeric);
        let first = |column, numeric| schemas.iter().find(|schema| is(schema, column, numeric));
        let deciding = |column: usize| first(column, true).or_else(|| first(column, false));
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
        let described = described_columns_of(&schemas[0], &arguments.columns, operators).with_context(|| name(0))?;
        let usage = |message: String| anyhow::Error::from(UsageError(message));
        let condition = arguments.where_row.as_ref().map(|text| Filter::parse(text, &schemas[0]));
        let filter = condition.transpose().map_err(|error| usage(format!("--where-row: {error}")))?;
        let by = arguments.by.as_ref().map(|name| column_of(&schemas[0], name)).transpose().with_context(|| name(0))?;
        // Beside others, a column has no statistics that makes the groups.
        if arguments.columns.is_empty() && columns.iter().any(|column| by != Some(*column)) {
            columns.retain(|column| by != Some(*column));
        }
        let on_text = on_text(arguments, operators);
        if arguments.columns.is_empty() && on_text == OnText::Bad && collected.sums {
            // Text further on in a column without a value at its beginning would make rows bad.
            columns.retain(|column| numeric[*column] == Some(true));
            if columns.is_empty() {
                return Err(QueryError::NoNumericColumn).with_context(|| name(0));
            }
        }
        if collected.sums && !shows_columns(operators) {
            // `normalise` alone is about its column: others make no row bad.
            columns.truncate(1);
        }
        let describes_text = operators.iter().any(|operator| operator.describes_text());
        Ok(Self { schemas, columns, described, describes_text, on_text, filter, by })
    }

    /// The rows of one of the files, as they are wanted.
    pub fn rows(&self, file: usize) -> WantedRows<'_> {
        let Self { columns, described, on_text, filter, by, .. } = self;
        let kept = Kept { columns, described, on_text: *on_text, filter: filter.as_ref(), by: *by };
        WantedRows { schema: &self.schemas[file], kept }
    }

    /// Leaves out the columns that turned out to have no number, or text beside numbers: the places of the others among those so
    /// far. None if all of them are columns of numbers.
    ///
    /// # Errors
    /// No column is left.
    pub fn narrow(&mut self, rows: &Rows, notes: &[String]) -> anyhow::Result<Option<Vec<usize>>> {
        let left_out = rows.not_numeric();
        if rows.good == 0 && rows.filtered > 0 {
            // No row says anything about a column.
            return Ok(None);
        }
        if self.on_text == OnText::Bad || self.columns.is_empty() {
            return Ok(None);
        }
        let places: Vec<usize> = (0..self.columns.len()).filter(|place| !left_out.contains(place)).collect();
        for schema in &mut self.schemas {
            places.iter().for_each(|place| schema.numeric[self.columns[*place]] = Some(true));
        }
        if left_out.is_empty() {
            return Ok(None);
        }
        if places.is_empty() {
            let error = anyhow::Error::from(QueryError::NoNumericColumn);
            return Err(if notes.is_empty() { error } else { error.context(notes.join("; ")) });
        }
        for place in left_out {
            let column = self.columns[place];
            let text = rows.texts[place].first.as_ref().map(|first| first.text.clone());
            for schema in &mut self.schemas {
                schema.numeric[column] = Some(false);
                if let Some(text) = &text {
                    schema.first_texts.entry(column).or_insert_with(|| text.clone());
                }
            }
        }
        self.columns = places.iter().map(|place| self.columns[*place]).collect();
        Ok(Some(places))
    }

    /// Describes columns as text that have text and turned out to have no number: their beginnings had no value. Whether there are any.
    pub fn describe_texts(&mut self, rows: &Rows) -> bool {
        let numbers = self.described.numbers.iter().zip(&rows.described.numbers);
        let is_text = |of: &NumberColumn| of.texts.texts > 0 && of.column.missing() == rows.good;
        let found = numbers.filter(|(_, of)| self.describes_text && is_text(of));
        let found: Vec<(usize, &NumberColumn)> = found.map(|(column, of)| (*column, of)).collect();
        let texts: Vec<usize> = found.iter().map(|(column, _)| *column).collect();
        let is_other = |column: &usize| !texts.contains(column);
        if !self.columns.is_empty() && !self.columns.iter().any(is_other) {
            // No column is left to sum, which is an error.
            return false;
        }
        self.described.numbers.retain(is_other);
        self.columns.retain(is_other);
        let first = |of: &NumberColumn| Some(of.texts.first.as_ref()?.text.clone());
        let firsts: Vec<_> = found.into_iter().map(|(column, of)| (column, first(of))).collect();
        for schema in &mut self.schemas {
            for (column, text) in &firsts {
                schema.numeric[*column] = Some(false);
                if let Some(text) = text {
                    schema.first_texts.entry(*column).or_insert_with(|| text.clone());
                }
            }
        }
        self.described.texts.extend(&texts);
        self.described.texts.sort_unstable();
        !texts.is_empty()
    }

    /// The columns that are not numeric, with their first values; None if columns were named, or no operator shows any.
    pub fn left_out(
        &self,
        arguments: &QueryArguments,
        operators: &[Operator],
    ) -> Option<Vec<(String, Option<String>)>> {
        let is_told = |operator: &Operator| operator.describes_text() || !operator.reads_rows();
        if !arguments.columns.is_empty() || operators.iter().all(is_told) || operators.contains(&Operator::Normalise) {
            return None;
        }
        let Schema { names, numeric, first_texts, .. } = &self.schemas[0];
        let is_described = |column: usize| self.columns.is_empty() && self.described.numbers.contains(&column);
        let is_left = |column: usize, is_number| is_number != Some(true) && !is_described(column);
        let is_shown = |column: usize| self.by == Some(column);
        let left = numeric
            .iter()
            .enumerate()
            .filter(|(column, is_number)| is_left(*column, **is_number) && !is_shown(*column));
        Some(left.map(|(column, _)| (names[column].clone(), first_texts.get(&column).cloned())).collect())
    }

    /// The columns that are described, in their order in the file.
    pub fn described(&self) -> Vec<(String, DescribedAs)> {
        let numbers =
            self.described.numbers.iter().enumerate().map(|(place, column)| (*column, DescribedAs::Number(place)));
        let texts = self.described.texts.iter().enumerate().map(|(place, column)| (*column, DescribedAs::Text(place)));
        let mut all: Vec<_> = numbers.chain(texts).collect();
        all.sort_by_key(|(column, _)| *column);
        all.into_iter().map(|(column, held)| (self.schemas[0].names[column].clone(), held)).collect()
    }

    /// The name of the column whose values make groups.
    pub fn by(&self) -> Option<String> {
        self.by.map(|column| self.schemas[0].names[column].clone())
    }

    /// The names of the columns that are summed.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| self.schemas[0].names[*column].clone()).collect()
    }
}

/// Whether an operator has numbers of each column.
fn shows_columns(operators: &[Operator]) -> bool {
    operators.iter().any(|operator| *operator == Operator::Stats || operator.is_of_pairs())
}

/// The meaning of text in a column of numbers: where columns were not named, those that have some are left out.
fn on_text(arguments: &QueryArguments, operators: &[Operator]) -> OnText {
    // A description tells of text, and leaves nothing out.
    if operators.iter().all(|operator| operator.describes() || !operator.reads_rows()) {
        return OnText::Missing;
    }
    let are_chosen = !arguments.columns.is_empty() || arguments.on_error == OnError::Skip;
    match are_chosen || operators.contains(&Operator::Normalise) || !shows_columns(operators) {
        true => OnText::Bad,
        false => OnText::Missing,
    }
}

/// The user's word about the files.
///
/// # Errors
/// It contradicts itself.
pub fn reading(arguments: &QueryArguments) -> anyhow::Result<Reading> {
    let usage = |message: String| anyhow::Error::from(UsageError(message));
    let missing = match &arguments.missing {
        Some(words) => Words::new(words).map_err(|error| usage(error.to_string()))?,
        None => Words::default(),
    };
    let separator = arguments.delimiter.and_then(|Delimiter(separator)| separator);
    let (point, comment) = (arguments.decimal, arguments.comment);
    let said = Dialect {
        separator: separator.unwrap_or(forebay_query::Separator::Blanks),
        point: point.unwrap_or(b'.'),
        comment,
        missing: missing.clone(),
        keys: Keys::default(),
    };
    if !said.is_sound() {
        return Err(usage("--delimiter, --decimal and --comment are to be different characters".to_owned()));
    }
    let header = arguments.header.into();
    let columns = arguments.columns.clone();
    Ok(Reading { separator, point, comment, skipped_lines: arguments.skip, missing, header, columns, is_bare: false })
}
