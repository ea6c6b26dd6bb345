//! Columns that directories have in their names, as Hive writes them: `year=2024/month=01/x.parquet`.
//!
//! The engine takes them from the directories right below a table's path, and lets no pattern name them. So a pattern is read without
//! such parts, the directories above them become the table's paths, and the values of the parts become conditions.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlanBuilder, Operator, TableProviderFilterPushDown, TableType, cast, lit, when,
};
use datafusion::object_store::path::Path;
use datafusion::physical_plan::ExecutionPlan;
use url::Url;

use crate::dialect::Types;
use crate::listing::{Files, url_of};

/// Bytes that make a part of a path a pattern.
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// The value of a directory's name that stands for NULL.
pub const NULL_NAME: &str = "__HIVE_DEFAULT_PARTITION__";

/// The name of a table below the view in which such values are NULL.
const BELOW: &str = "directories";

/// A path as a user writes it, without the parts that are `NAME=VALUE`.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The directory above the first wildcard, or all of it.
    above: String,
    /// The parts from there on.
    below: Option<String>,
    /// The columns that must have a value.
    pub fixed: Vec<(String, String)>,
}

impl Pattern {
    /// Of a path.
    ///
    /// # Errors
    /// A value is part of a pattern itself.
    pub fn of(path: &str) -> Result<Self> {
        let is_wild = |part: &str| part.contains(WILDCARDS);
        let parts: Vec<&str> = path.split('/').collect();
        // A file's own name is no pattern.
        let is_there = std::path::Path::new(path).exists();
        let Some(first) = parts.iter().position(|part| is_wild(part)).filter(|_| !is_there) else {
            return Ok(Self { above: path.to_owned(), below: None, fixed: vec![] });
        };
        let (above, parts) = parts.split_at(first);
        let mut below = vec![];
        let mut fixed = vec![];
        for (at, part) in parts.iter().enumerate() {
            match part.split_once('=') {
                Some((name, value)) if at + 1 < parts.len() && !is_wild(name) => match value {
                    "*" => {}
                    value if is_wild(value) => {
                        return plan_err!("{path}: {part} is no pattern: write {name}=*, and WHERE {name} ...");
                    }
                    value => fixed.push((name.to_owned(), value.to_owned())),
                },
                _ => below.push(*part),
            }
        }
        let above = above.iter().map(|part| format!("{part}/")).collect::<String>();
        let above = if above.is_empty() { "./".to_owned() } else { above };
        Ok(Self { above, below: Some(below.join("/")), fixed })
    }

    /// The URL that the engine lists for it.
    ///
    /// # Errors
    /// It is no pattern.
    pub fn url(&self) -> Result<ListingTableUrl> {
        let above = std::path::Path::new(&self.above);
        // No URL has `..` in it.
        let goes_up = above.components().any(|part| part == std::path::Component::ParentDir);
        let own = if goes_up { std::fs::canonicalize(above) } else { std::path::absolute(above) };
        let own = own.ok().filter(|_| above.exists());
        let own = own.and_then(|own| match above.is_dir() {
            true => Url::from_directory_path(own).ok(),
            false => Url::from_file_path(own).ok(),
        });
        // One that is not there may be a URL, which the message names.
        let url = own.map_or_else(|| ListingTableUrl::parse(&self.above), |own| ListingTableUrl::try_new(own, None))?;
        match &self.below {
            Some(below) => url.with_glob(below),
            None => Ok(url),
        }
    }

    /// The part that files' names match.
    fn name(&self) -> Option<&str> {
        self.below.as_ref().and_then(|below| below.rsplit('/').next())
    }
}

/// The columns of a table's directories, and the directories above these.
#[derive(Debug, Default)]
pub struct Partitions {
    /// Names and types, from above to below.
    pub columns: Vec<(String, DataType)>,
    /// The types of those that are read as text, because a value stands for NULL.
    with_nulls: Vec<(String, DataType)>,
    bases: BTreeSet<String>,
}

impl Partitions {
    /// Of all files of a table, which is listed by this URL.
    ///
    /// # Errors
    /// Files lie below different columns.
    pub fn of(files: &[Path], url: &ListingTableUrl, types: &Types) -> Result<Self> {
        let mut names: Option<Vec<&str>> = None;
        let mut values: Vec<BTreeSet<&str>> = vec![];
        let mut bases = BTreeSet::new();
        for file in files {
            let parts: Vec<&str> = url.strip_prefix(file).into_iter().flatten().collect();
            let directories = &parts[..parts.len().saturating_sub(1)];
            let first = directories.iter().position(|part| part.contains('=')).unwrap_or(directories.len());
            let pairs: Vec<_> = directories[first..].iter().filter_map(|part| part.split_once('=')).collect();
            let own: Vec<&str> = pairs.iter().map(|(name, _)| *name).collect();
            if pairs.len() != directories.len() - first || names.as_ref().is_some_and(|names| *names != own) {
                let all = names.unwrap_or_default().join(", ");
                return plan_err!(
                    "/{file}: its directories have the columns {}, those of others {all}",
                    own.join(", ")
                );
            }
            values.resize(own.len(), BTreeSet::new());
            for (values, (_, value)) in values.iter_mut().zip(&pairs) {
                values.insert(value);
            }
            if !own.is_empty() {
                let below = parts[first..].join("/").len();
                let whole: &str = file.as_ref();
                bases.insert(whole[..whole.len() - below].trim_end_matches('/').to_owned());
            }
            names = Some(own);
        }
        let mut with_nulls = vec![];
        let typed = |(name, mut values): (&str, BTreeSet<&str>)| {
            let has_null = values.remove(NULL_NAME);
            let own = types.of(name).cloned().unwrap_or_else(|| type_of(&values));
            if !has_null {
                return (name.to_owned(), own);
            }
            with_nulls.push((name.to_owned(), own));
            (name.to_owned(), DataType::Utf8)
        };
        let columns = names.unwrap_or_default().into_iter().zip(values).map(typed).collect();
        Ok(Self { columns, with_nulls, bases })
    }

    /// The table with NULL for the values that stand for it.
    ///
    /// # Errors
    /// None.
    pub fn with_nulls(&self, table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
        if self.with_nulls.is_empty() {
            return Ok(table);
        }
        let all = table.schema();
        let shown = all.fields().iter().map(|field| {
            let name = field.name();
            let column = Expr::Column(Column::new(Some(BELOW), name));
            let Some((_, own)) = self.with_nulls.iter().find(|(own, _)| own == name) else { return Ok(column) };
            let is_null = column.clone().eq(lit(NULL_NAME));
            let value = when(is_null, lit(ScalarValue::Utf8(None))).otherwise(column)?;
            Ok(cast(value, own.clone()).alias(name))
        });
        let shown = shown.collect::<Result<Vec<_>>>()?;
        let plan = LogicalPlanBuilder::scan(BELOW, provider_as_source(table), None)?.project(shown)?.build()?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }

    /// The table's paths: those of the directories, where there are columns; its files, where the engine would list others.
    ///
    /// # Errors
    /// Both are so.
    pub fn urls(&self, pattern: &Pattern, url: ListingTableUrl, files: &Files) -> Result<Vec<ListingTableUrl>> {
        if self.columns.is_empty() {
            let urls = vec![url];
            return if files.differing(&urls).is_none() { Ok(urls) } else { files.urls() };
        }
        let below = |base: &String| {
            let path = Path::parse(base).map_err(|error| DataFusionError::External(error.into()))?;
            let own = ListingTableUrl::try_new(url_of(&path, true)?, None)?;
            match pattern.name() {
                Some(name) => own.with_glob(name),
                None => Ok(own),
            }
        };
        let urls = self.bases.iter().map(below).collect::<Result<Vec<_>>>()?;
        if let Some(other) = files.differing(&urls) {
            return plan_err!(
                "/{other} is beside a table whose directories are columns, and only one of both is meant: name them by tables of their own"
            );
        }
        Ok(urls)
    }
}

/// A table with such columns. From `month = 3` the engine would look for a directory `month=3`, also where it is `month=03`. The same
/// condition as a list of one value is compared with the columns' values.
#[derive(Debug)]
pub struct Partitioned {
    /// The table as the engine has it.
    pub table: ListingTable,
    /// The columns.
    pub columns: Vec<String>,
}

impl Partitioned {
    fn compared(&self, filter: &Expr) -> Result<Expr> {
        let is_own = |expr: &Expr| matches!(expr, Expr::Column(column) if self.columns.contains(&column.name));
        let compared = filter.clone().transform_down(|expr| match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if is_own(&left) => {
                Ok(Transformed::yes(left.in_list(vec![*right], false)))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if is_own(&right) => {
                Ok(Transformed::yes(right.in_list(vec![*left], false)))
            }
            other => Ok(Transformed::no(other)),
        });
        compared.map(|compared| compared.data)
    }
}

#[async_trait]
impl TableProvider for Partitioned {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = filters.iter().map(|filter| self.compared(filter)).collect::<Result<Vec<_>>>()?;
        self.table.scan(state, projection, &filters, limit).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }
}

fn type_of(values: &BTreeSet<&str>) -> DataType {
    let is_date = |value: &str| {
        let parts: Vec<&str> = value.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        lengths == [4, 2, 2] && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match values {
        values if values.iter().all(|value| value.parse::<i64>().is_ok()) => DataType::Int64,
        values if values.iter().all(|value| is_date(value)) => DataType::Date32,
        _ => DataType::Utf8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(above: &str, below: Option<&str>, fixed: &[(&str, &str)]) -> Pattern {
        let fixed = fixed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Pattern { above: above.to_owned(), below: below.map(str::to_owned), fixed }
    }

    #[test]
    fn parts_of_a_pattern_with_values_are_conditions() {
        for (path, expected) in [
            ("t", pattern("t", None, &[])),
            ("/d/year=2024/x.csv", pattern("/d/year=2024/x.csv", None, &[])),
            ("t/year=*/*.csv", pattern("t/", Some("*.csv"), &[])),
            ("*/t/year=2024/month=*/x", pattern("./", Some("*/t/x"), &[("year", "2024")])),
            ("/*/a=b.csv", pattern("/", Some("*/a=b.csv"), &[])),
        ] {
            assert_eq!(Pattern::of(path).unwrap(), expected, "{path}");
        }
        assert!(Pattern::of("t/year=20*/x").unwrap_err().to_string().contains("write year=*, and WHERE year"));
    }

    type Found = (Vec<(String, DataType)>, Vec<String>);

    fn columns(files: &[&str]) -> Result<Found> {
        let files: Vec<Path> = files.iter().map(|file| Path::from(*file)).collect();
        let url = ListingTableUrl::parse("/d/")?;
        let own = Partitions::of(&files, &url, &Types::default())?;
        Ok((own.columns, own.bases.into_iter().collect()))
    }

    #[test]
    fn columns_have_the_types_of_their_values_and_paths_end_above_them() {
        let (found, bases) = columns(&["d/0/t/a=1/b=x/f", "d/1/t/a=02/b=3/f", "d/1/t/a=3/b=3/g"]).unwrap();
        assert_eq!(found, [("a".to_owned(), DataType::Int64), ("b".to_owned(), DataType::Utf8)]);
        assert_eq!(bases, ["d/0/t", "d/1/t"]);
        assert_eq!(
            columns(&["d/day=2024-01-01/f"]).unwrap(),
            (vec![("day".to_owned(), DataType::Date32)], vec!["d".to_owned()])
        );
        assert_eq!(columns(&["d/x/f", "d/g"]).unwrap(), (vec![], vec![]));
        for wrong in [&["d/a=1/f", "d/b=1/f"][..], &["d/a=1/f", "d/f"], &["d/a=1/x/f"]] {
            assert!(columns(wrong).unwrap_err().to_string().contains("its directories have the columns"), "{wrong:?}");
        }
    }
}
