//! The operators of `forebay query` as aggregate functions, by the same core, so that sums are as exact as there.
//!
//! `stats(x)`, `gramian(x, y, ...)`, `digits(text)`, `entropy(text)`. A state on its way between partitions and nodes is one
//! binary value. NULL and NaN are missing, as in `forebay query`.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, Float64Array, ListArray, PrimitiveArray, StringArray, StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type, UInt64Type};
use datafusion::common::cast::{as_binary_array, as_float64_array, as_string_array};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use forebay_query::limits::BATCH_ROWS;
use forebay_query::{ByteCounts, Column, Gramian};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::overflow;

/// All of them, and a `sum` in place of the engine's.
pub fn all() -> Vec<AggregateUDF> {
    let own = [Operator::Stats, Operator::Gramian, Operator::Digits, Operator::Entropy];
    own.map(|of| Function::new(of).into()).into_iter().chain([overflow::sum()]).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Operator {
    Stats,
    Gramian,
    Digits,
    Entropy,
}

#[derive(Debug)]
struct Function {
    of: Operator,
    signature: Signature,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
    }
}

impl Function {
    fn new(of: Operator) -> Self {
        Self { of, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The measures of a column in `stats` beside its counts.
const MEASURES: [&str; 6] = ["sum", "mean", "min", "max", "variance", "deviation"];

fn stats_fields() -> Fields {
    let counts = ["count", "missing"].map(|name| Field::new(name, DataType::UInt64, false));
    let measures = MEASURES.map(|name| Field::new(name, DataType::Float64, false));
    counts.into_iter().chain(measures).collect()
}

fn item(of: DataType) -> FieldRef {
    Arc::new(Field::new_list_field(of, false))
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        match self.of {
            Operator::Stats => "stats",
            Operator::Gramian => "gramian",
            Operator::Digits => "digits",
            Operator::Entropy => "entropy",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        match self.of {
            Operator::Gramian if given.is_empty() => return plan_err!("{name} takes one column or more"),
            Operator::Gramian => {}
            _ if given.len() != 1 => return plan_err!("{name} takes one argument, not {}", given.len()),
            _ => {}
        }
        let coerced = |given: &DataType| match (self.of, given) {
            (Operator::Digits | Operator::Entropy, DataType::Binary | DataType::BinaryView | DataType::LargeBinary) => {
                Ok(DataType::Binary)
            }
            (Operator::Digits | Operator::Entropy, _) => Ok(DataType::Utf8),
            (_, given) if given.is_numeric() || given.is_null() => Ok(DataType::Float64),
            (_, given) => plan_err!("{name} takes numbers, not {given}"),
        };
        given.iter().map(coerced).collect()
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.of {
            Operator::Stats => DataType::Struct(stats_fields()),
            Operator::Gramian => DataType::List(item(DataType::List(item(DataType::Float64)))),
            Operator::Digits => DataType::List(item(DataType::UInt64)),
            Operator::Entropy => DataType::Float64,
        })
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn default_value(&self, _: &DataType) -> Result<ScalarValue> {
        match self.of {
            Operator::Stats => Made(Column::default()).evaluate(),
            Operator::Gramian => matrix(&Gramian::new(0)),
            Operator::Digits => Made(Digits::default()).evaluate(),
            Operator::Entropy => Made(Entropy::default()).evaluate(),
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if arguments.is_distinct {
            return not_impl_err!("{} takes no DISTINCT; select the distinct rows in a subquery", self.name());
        }
        Ok(match self.of {
            Operator::Stats => Box::new(Made(Column::default())),
            Operator::Gramian => Box::new(Made(Products { columns: arguments.exprs.len(), gramian: None })),
            Operator::Digits => Box::new(Made(Digits::default())),
            Operator::Entropy => Box::new(Made(Entropy::default())),
        })
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[state]", arguments.name), DataType::Binary, false))])
    }
}

/// An operator's aggregation of rows.
trait Making: Send + Sync + Debug {
    /// The state that travels.
    type State: Serialize + DeserializeOwned;

    fn add(&mut self, columns: &[ArrayRef]) -> Result<()>;
    fn state(&self) -> &Self::State;
    fn merge(&mut self, other: Self::State) -> Result<()>;
    fn value(&self) -> Result<ScalarValue>;
    fn bytes(&self) -> usize;
}

#[derive(Debug)]
struct Made<M>(M);

impl<M: Making + 'static> Accumulator for Made<M> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.add(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.value()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.0.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = postcard::to_stdvec(self.0.state()).map_err(external)?;
        Ok(vec![ScalarValue::Binary(Some(state))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states: &BinaryArray = as_binary_array(&states[0])?;
        states.iter().flatten().try_for_each(|state| self.0.merge(postcard::from_bytes(state).map_err(external)?))
    }
}

fn external(error: postcard::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl Making for Column {
    type State = Self;

    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let values = numbers(&columns[0])?;
        // A sum is exact over as many rows as the core's.
        values.chunks(BATCH_ROWS).for_each(|rows| Self::add(self, rows, true));
        Ok(())
    }

    fn state(&self) -> &Self {
        self
    }

    fn merge(&mut self, other: Self) -> Result<()> {
        Self::merge(self, &other);
        Ok(())
    }

    fn value(&self) -> Result<ScalarValue> {
        let of = self.summary();
        let count = |value: u64| array::<UInt64Type>([value]);
        let measures = [of.sum, of.mean, of.min, of.max, of.variance, of.deviation];
        let counts = [count(of.count), count(of.missing)].into_iter();
        let columns = counts.chain(measures.map(|value| array::<Float64Type>([value]))).collect();
        Ok(ScalarValue::Struct(Arc::new(StructArray::try_new(stats_fields(), columns, None)?)))
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// A Gramian, from the first row on.
#[derive(Debug)]
struct Products {
    columns: usize,
    gramian: Option<Gramian>,
}

impl Making for Products {
    type State = Option<Gramian>;

    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let columns = columns.iter().map(numbers).collect::<Result<Vec<_>>>()?;
        let gramian = self.gramian.get_or_insert_with(|| Gramian::new(columns.len()));
        let rows = columns.first().map_or(0, Vec::len);
        for from in (0..rows).step_by(BATCH_ROWS) {
            let to = rows.min(from + BATCH_ROWS);
            let batch: Vec<&[f64]> = columns.iter().map(|column| &column[from..to]).collect();
            gramian.add(&batch, true);
        }
        Ok(())
    }

    fn state(&self) -> &Self::State {
        &self.gramian
    }

    fn merge(&mut self, other: Self::State) -> Result<()> {
        match (&mut self.gramian, other) {
            (_, None) => {}
            (own @ None, Some(other)) => *own = Some(other),
            (Some(own), Some(other)) if other.has_columns(own.matrix().len()) => own.merge(&other),
            _ => return exec_err!("Gramians of different columns"),
        }
        Ok(())
    }

    fn value(&self) -> Result<ScalarValue> {
        self.gramian.as_ref().map_or_else(|| matrix(&Gramian::new(self.columns)), matrix)
    }

    fn bytes(&self) -> usize {
        self.columns * self.columns * 16
    }
}

/// How often each byte occurs; shown as the counts of the digits.
#[derive(Default, Debug)]
struct Digits(ByteCounts);

/// The same, shown as the entropy.
#[derive(Default, Debug)]
struct Entropy(ByteCounts);

impl Making for Digits {
    type State = ByteCounts;

    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        count(&mut self.0, &columns[0])
    }

    fn state(&self) -> &ByteCounts {
        &self.0
    }

    fn merge(&mut self, other: ByteCounts) -> Result<()> {
        merge(&mut self.0, &other)
    }

    fn value(&self) -> Result<ScalarValue> {
        list(item(DataType::UInt64), array::<UInt64Type>(self.0.digits()))
    }

    fn bytes(&self) -> usize {
        256 * 8
    }
}

impl Making for Entropy {
    type State = ByteCounts;

    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        count(&mut self.0, &columns[0])
    }

    fn state(&self) -> &ByteCounts {
        &self.0
    }

    fn merge(&mut self, other: ByteCounts) -> Result<()> {
        merge(&mut self.0, &other)
    }

    fn value(&self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(Some(self.0.entropy())))
    }

    fn bytes(&self) -> usize {
        256 * 8
    }
}

fn count(counts: &mut ByteCounts, column: &ArrayRef) -> Result<()> {
    if *column.data_type() == DataType::Binary {
        as_binary_array(column)?.iter().flatten().for_each(|text| counts.add(text));
    } else {
        let texts: &StringArray = as_string_array(column)?;
        texts.iter().flatten().for_each(|text| counts.add(text.as_bytes()));
    }
    Ok(())
}

fn merge(counts: &mut ByteCounts, other: &ByteCounts) -> Result<()> {
    if other.counts().len() != 256 {
        return exec_err!("counts of bytes that are not whole");
    }
    counts.merge(other);
    Ok(())
}

/// A column's numbers; what is missing is no number.
fn numbers(column: &ArrayRef) -> Result<Vec<f64>> {
    let column: &Float64Array = as_float64_array(column)?;
    Ok(column.iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}

fn array<T: ArrowPrimitiveType>(values: impl IntoIterator<Item = T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

fn list(item: FieldRef, values: ArrayRef) -> Result<ScalarValue> {
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    Ok(ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, values, None)?)))
}

fn matrix(gramian: &Gramian) -> Result<ScalarValue> {
    let matrix = gramian.matrix();
    let lengths = OffsetBuffer::from_lengths(matrix.iter().map(Vec::len));
    let values = array::<Float64Type>(matrix.into_iter().flatten());
    let rows = ListArray::try_new(item(DataType::Float64), lengths, values, None)?;
    list(item(DataType::List(item(DataType::Float64))), Arc::new(rows))
}
