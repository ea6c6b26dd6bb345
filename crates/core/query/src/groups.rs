//! `--by`: sums of columns by the values of another column.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::column::Column;
use crate::limits::{GROUP_BYTES_MAX, GROUP_COLUMNS_ALL_MAX, GROUPS_MAX, GROUPS_MIN};

/// Rows of a group that are summed at once.
const BATCH: usize = 16;

/// The groups of some rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Groups {
    /// By the text of the field; an empty one is missing.
    groups: BTreeMap<Vec<u8>, Group>,
    refused: Option<Refused>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its rows.
    pub rows: u64,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// Why there are no groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Refused {
    /// A value is too long.
    TooLong,
    /// There are too many.
    TooMany,
}

/// Groups that there may be, with so many columns each.
pub fn groups_max(columns: usize) -> usize {
    (GROUP_COLUMNS_ALL_MAX / columns.max(1)).clamp(GROUPS_MIN, GROUPS_MAX)
}

impl Groups {
    /// This and what comes after it.
    pub(crate) fn merge(&mut self, after: &Self, columns: usize) {
        self.refused = self.refused.max(after.refused);
        for (key, group) in &after.groups {
            match self.groups.get_mut(key) {
                Some(here) => {
                    here.rows += group.rows;
                    here.columns.iter_mut().zip(&group.columns).for_each(|(column, more)| column.merge(more));
                }
                None => drop(self.groups.insert(key.clone(), group.clone())),
            }
        }
        self.fit(columns);
    }

    fn fit(&mut self, columns: usize) {
        if self.groups.len() > groups_max(columns) {
            self.refused = self.refused.max(Some(Refused::TooMany));
        }
        if self.refused.is_some() {
            self.groups.clear();
        }
    }

    /// Whether they can be of so many rows with so many columns; what travelled may not.
    pub(crate) fn are_of(&self, rows: u64, columns: usize) -> bool {
        if self.refused.is_some() {
            return self.groups.is_empty();
        }
        let is_sound = |(key, group): (&Vec<u8>, &Group)| {
            let are_columns =
                group.columns.len() == columns && group.columns.iter().all(|column| column.is_of(group.rows));
            key.len() <= GROUP_BYTES_MAX && group.rows > 0 && are_columns
        };
        let all = self.groups.values().try_fold(0u64, |sum, group| sum.checked_add(group.rows));
        self.groups.len() <= groups_max(columns) && all == Some(rows) && self.groups.iter().all(is_sound)
    }

    /// The same groups with these columns alone, by their places.
    #[must_use]
    pub(crate) fn of_columns(mut self, places: &[usize]) -> Self {
        for group in self.groups.values_mut() {
            group.columns = places.iter().map(|place| group.columns[*place].clone()).collect();
        }
        self
    }

    /// The groups, numbers in their order and before texts; the values are texts, None where they are missing.
    ///
    /// # Errors
    /// There are too many, or a value is too long.
    pub fn groups(&self) -> Result<Vec<(Option<String>, &Group)>, Refused> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let mut groups: Vec<(Option<f64>, &Vec<u8>, &Group)> = self
            .groups
            .iter()
            .map(|(key, group)| (std::str::from_utf8(key).ok().and_then(|key| key.parse().ok()), key, group))
            .collect();
        let order = |number: &Option<f64>| (number.is_none(), number.unwrap_or_default());
        groups.sort_by(|(left, ..), (right, ..)| {
            let ((left_is_text, left), (right_is_text, right)) = (order(left), order(right));
            left_is_text.cmp(&right_is_text).then_with(|| left.total_cmp(&right))
        });
        let text = |key: &[u8]| (!key.is_empty()).then(|| String::from_utf8_lossy(key).into_owned());
        Ok(groups.into_iter().map(|(_, key, group)| (text(key), group)).collect())
    }
}

/// Sums the groups of one block.
pub(crate) struct GroupCounter {
    columns: usize,
    places: BTreeMap<Vec<u8>, usize>,
    groups: Vec<Gathered>,
    /// Of each row of the batch that is under way, the place of its group.
    rows: Vec<usize>,
    refused: Option<Refused>,
}

/// A group, and its rows that are not summed yet.
struct Gathered {
    group: Group,
    waiting: Vec<Vec<f64>>,
}

impl GroupCounter {
    /// Of so many columns.
    pub fn new(columns: usize) -> Self {
        Self { columns, places: BTreeMap::new(), groups: vec![], rows: vec![], refused: None }
    }

    /// The next row has this text.
    pub fn key(&mut self, text: &[u8]) {
        if text.len() > GROUP_BYTES_MAX {
            self.refused = self.refused.max(Some(Refused::TooLong));
        }
        let key = &text[..text.len().min(GROUP_BYTES_MAX)];
        let place = match self.places.get(key) {
            Some(place) => *place,
            None if self.groups.len() > groups_max(self.columns) => self.groups.len() - 1,
            None => {
                let group = Group { rows: 0, columns: vec![Column::default(); self.columns] };
                self.groups.push(Gathered { group, waiting: vec![Vec::with_capacity(BATCH); self.columns] });
                self.places.insert(key.to_vec(), self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        self.rows.push(place);
    }

    /// Adds a batch: as many fields of each column as there were keys, NaN where one is missing.
    pub fn add(&mut self, columns: &[&[f64]]) {
        for (row, place) in self.rows.drain(..).enumerate() {
            let Gathered { group, waiting } = &mut self.groups[place];
            group.rows += 1;
            for ((column, waiting), fields) in group.columns.iter_mut().zip(waiting).zip(columns) {
                waiting.push(fields[row]);
                if waiting.len() == BATCH {
                    column.add(waiting, true);
                    waiting.clear();
                }
            }
        }
    }

    /// The groups since this was asked last.
    pub fn take(&mut self) -> Groups {
        let mut gathered: Vec<Option<Group>> = vec![];
        for Gathered { mut group, waiting } in self.groups.drain(..) {
            for (column, waiting) in group.columns.iter_mut().zip(&waiting).filter(|(_, waiting)| !waiting.is_empty()) {
                column.add(waiting, true);
            }
            gathered.push(Some(group));
        }
        let groups = std::mem::take(&mut self.places)
            .into_iter()
            .filter_map(|(key, place)| Some((key, gathered[place].take()?)))
            .collect();
        let mut groups = Groups { groups, refused: self.refused.take() };
        groups.fit(self.columns);
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(&str, f64)]) -> Groups {
        let mut counter = GroupCounter::new(1);
        for batch in rows.chunks(7) {
            batch.iter().for_each(|(key, _)| counter.key(key.as_bytes()));
            counter.add(&[&batch.iter().map(|(_, value)| *value).collect::<Vec<_>>()]);
        }
        counter.take()
    }

    #[test]
    fn rows_are_summed_by_their_group() {
        let rows: Vec<(&str, f64)> =
            (0..100).map(|row| (["10", "9", "x", ""][row % 4], if row == 5 { f64::NAN } else { row as f64 })).collect();
        let groups = of(&rows);
        assert!(groups.are_of(100, 1) && !groups.are_of(99, 1) && !groups.are_of(100, 2));
        let shown: Vec<_> = groups.groups().unwrap().into_iter().map(|(key, group)| (key, group.rows)).collect();
        let key = |text: &str| Some(text.to_owned());
        assert_eq!(shown, [(key("9"), 25), (key("10"), 25), (None, 25), (key("x"), 25)]);
        let nine = &groups.groups().unwrap()[0].1.columns[0];
        assert_eq!(
            (nine.missing(), nine.summary().sum),
            (1, (0..25).map(|row| f64::from(row * 4 + 1)).sum::<f64>() - 5.0)
        );
        let mut merged = of(&rows[..33]);
        merged.merge(&of(&rows[33..]), 1);
        assert_eq!(merged.groups().unwrap().len(), 4);
        assert!(merged.are_of(100, 1));
    }

    #[test]
    fn too_many_groups_and_long_values_are_refused() {
        let keys: Vec<String> = (0..2 * GROUPS_MAX).map(|key| key.to_string()).collect();
        let rows: Vec<(&str, f64)> = keys.iter().map(|key| (key.as_str(), 1.0)).collect();
        assert_eq!(of(&rows).groups().unwrap_err(), Refused::TooMany);
        assert!(of(&rows).are_of(rows.len() as u64, 1));
        let mut merged = of(&rows[..GROUPS_MAX]);
        assert!(merged.groups().is_ok());
        merged.merge(&of(&rows[GROUPS_MAX..]), 1);
        assert_eq!(merged.groups().unwrap_err(), Refused::TooMany);
        assert_eq!(of(&[(&"x".repeat(GROUP_BYTES_MAX + 1), 1.0)]).groups().unwrap_err(), Refused::TooLong);
    }
}
