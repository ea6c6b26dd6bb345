//! Words for missing values: the columns of a file are read as text, of which the words become NULL, and then have their types.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, lit, when};

/// The table below the view.
const BELOW: &str = "text";

/// The columns as they are read.
pub fn as_text(columns: &Schema) -> SchemaRef {
    let text = |field: &Arc<Field>| Field::new(field.name(), DataType::Utf8, true);
    Schema::new(columns.fields().iter().map(text).collect::<Vec<_>>()).into()
}

/// A view of a table of texts whose columns have these types, and whose other columns stay as they are.
///
/// # Errors
/// None.
pub fn view(table: Arc<dyn TableProvider>, columns: &Schema, missing: &[String]) -> Result<Arc<dyn TableProvider>> {
    let words: Vec<Expr> = missing.iter().map(lit).collect();
    let all = table.schema();
    let shown = all.fields().iter().map(|field| {
        let name = field.name();
        let text = Expr::Column(Column::new(Some(BELOW), name));
        let Ok(typed) = columns.field_with_name(name) else { return Ok(text) };
        let value = when(text.clone().in_list(words.clone(), false), lit(ScalarValue::Utf8(None))).otherwise(text)?;
        let value = match typed.data_type() {
            DataType::Utf8 => value,
            own => cast(value, own.clone()),
        };
        Ok(value.alias(name))
    });
    let shown = shown.collect::<Result<Vec<_>>>()?;
    let plan = LogicalPlanBuilder::scan(BELOW, provider_as_source(table), None)?.project(shown)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}
