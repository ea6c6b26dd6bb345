//! Sums, products and differences of integers, and sums of decimals, that do not fit their type are errors; the engine's own wrap.
//!
//! `sum` adds in 128 bits and looks at the end, so the order of its terms does not matter. `+`, `-` and `*` become functions of this module
//! when a statement is analysed, since a plan on its way to a node does not say that they should look.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use datafusion::arrow::compute::kernels::cast::CastOptions;
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::compute::{cast_with_options, sum_checked};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef};
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, exec_err};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, merge_schema};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, BinaryExpr, ColumnarValue, EmitTo, Expr, ExprSchemable,
    GroupsAccumulator, LogicalPlan, Operator, ReversedUDAF, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    SetMonotonicity, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

/// Integers of 64 bits, and sums of as many as there can be.
const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// How a wider type is had.
const WIDER: &str = "cast(... as decimal(38,0)) holds more";

/// `sum`, in place of the engine's.
pub fn sum() -> AggregateUDF {
    WideSum(Sum::new()).into()
}

/// The functions that stand for operators.
pub fn functions() -> [ScalarUDF; 3] {
    [Of::Sum, Of::Difference, Of::Product]
        .map(|of| Arithmetic { of, signature: Signature::any(2, Volatility::Immutable) }.into())
}

/// Puts them in their places.
#[derive(Debug)]
pub struct Looking;

impl AnalyzerRule for Looking {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let looking = plan.transform_up_with_subqueries(|plan| {
            let columns = merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            let changed = plan.map_expressions(|expression| {
                // Sets of groups name their members, which an alias cannot.
                if matches!(expression, Expr::GroupingSet(_)) {
                    return Ok(Transformed::no(expression));
                }
                let name = names.save(&expression);
                let changed = expression.transform_up(|expression| Ok(looking(expression, &columns)))?;
                Ok(changed.update_data(|expression| name.restore(expression)))
            })?;
            if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
        });
        looking.map(|plan| plan.data)
    }

    fn name(&self) -> &'static str {
        "integer_overflow"
    }
}

/// An operator on integers as a function; any other expression as it is.
fn looking(expression: Expr, columns: &DFSchema) -> Transformed<Expr> {
    let integer = |expression: &Expr| expression.get_type(columns).ok().filter(DataType::is_integer);
    let function = |of, arguments| {
        let function = Arithmetic { of, signature: Signature::any(2, Volatility::Immutable) };
        let function = ScalarFunction::new_udf(Arc::new(function.into()), arguments);
        Transformed::yes(Expr::ScalarFunction(function))
    };
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match Of::operator(op) {
            Some(of) if integer(&left).is_some() && integer(&left) == integer(&right) => {
                function(of, vec![*left, *right])
            }
            _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        },
        Expr::Negative(inner) if !matches!(*inner, Expr::Literal(..)) => {
            match integer(&inner).and_then(|own| ScalarValue::new_zero(&own).ok()) {
                Some(zero) => function(Of::Difference, vec![Expr::Literal(zero, None), *inner]),
                None => Transformed::no(Expr::Negative(inner)),
            }
        }
        other => Transformed::no(other),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Of {
    Sum,
    Difference,
    Product,
}

impl Of {
    fn operator(operator: Operator) -> Option<Self> {
        match operator {
            Operator::Plus => Some(Self::Sum),
            Operator::Minus => Some(Self::Difference),
            Operator::Multiply => Some(Self::Product),
            _ => None,
        }
    }
}

/// An operator on two integers of one type.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Arithmetic {
    of: Of,
    signature: Signature,
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        match self.of {
            Of::Sum => "forebay_add",
            Of::Difference => "forebay_subtract",
            Of::Product => "forebay_multiply",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given {
            [one, other] if one == other && one.is_integer() => Ok(one.clone()),
            _ => exec_err!("{} takes two integers of one type", self.name()),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let operate = match self.of {
            Of::Sum => add,
            Of::Difference => sub,
            Of::Product => mul,
        };
        let [left, right] = &arguments.args[..] else { return exec_err!("{} takes two integers", self.name()) };
        let made = match (left, right) {
            (ColumnarValue::Array(left), ColumnarValue::Array(right)) => operate(left, right),
            (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => operate(left, &right.to_scalar()?),
            (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => operate(&left.to_scalar()?, right),
            (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
                let made = operate(&left.to_scalar()?, &right.to_scalar()?).map_err(overflow)?;
                return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?));
            }
        };
        made.map(ColumnarValue::Array).map_err(overflow)
    }
}

fn overflow(error: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!("{error}: the result does not fit its type, and {WIDER}"))
}

/// The engine's `sum`, which adds integers in 128 bits.
#[derive(PartialEq, Eq, Hash, Debug)]
struct WideSum(Sum);

/// The arguments of the engine's `sum` where terms are integers.
fn widened<'a>(arguments: AccumulatorArgs<'a>) -> AccumulatorArgs<'a> {
    let return_field = Field::new(arguments.return_field.name(), WIDE, true).into();
    AccumulatorArgs { return_field, ..arguments }
}

/// Integers in 128 bits.
fn wide(values: &ArrayRef) -> Result<ArrayRef> {
    let wide: Decimal128Array = match values.data_type() {
        DataType::Int64 => values.as_primitive::<Int64Type>().unary(i128::from),
        DataType::UInt64 => values.as_primitive::<UInt64Type>().unary(i128::from),
        other => return exec_err!("sum takes integers of 64 bits here, not {other}"),
    };
    Ok(Arc::new(wide.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0)?))
}

/// Sums in the type of their terms.
fn narrow(sums: &ArrayRef, own: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(sums, own, &options).map_err(overflow)
}

impl AggregateUDFImpl for WideSum {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.0.return_type(given)
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let own = arguments.return_field.data_type().clone();
        match own {
            DataType::Decimal128(..) if !arguments.is_distinct => Ok(Box::new(DecimalSum { sum: None, own })),
            own if own.is_integer() => Ok(Box::new(Wide { inner: self.0.accumulator(widened(arguments))?, own })),
            _ => self.0.accumulator(arguments),
        }
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let own = arguments.return_field.data_type().clone();
        match own.is_integer() && !arguments.is_distinct {
            true => Ok(Box::new(Wide { inner: self.0.create_sliding_accumulator(widened(arguments))?, own })),
            false => self.0.create_sliding_accumulator(arguments),
        }
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.0.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let own = arguments.return_field.data_type().clone();
        match own {
            DataType::Decimal128(..) => Ok(Box::new(DecimalSums::new(own))),
            own if own.is_integer() => {
                Ok(Box::new(WideGroups { inner: self.0.create_groups_accumulator(widened(arguments))?, own }))
            }
            _ => self.0.create_groups_accumulator(arguments),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if !arguments.return_field.data_type().is_integer() {
            return self.0.state_fields(arguments);
        }
        let return_field = Field::new(arguments.return_field.name(), WIDE, true).into();
        self.0.state_fields(StateFieldsArgs { return_field, ..arguments })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.0.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.order_sensitivity()
    }

    fn set_monotonicity(&self, own: &DataType) -> SetMonotonicity {
        self.0.set_monotonicity(own)
    }

    /// Not for integers: the terms that it makes would wrap.
    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        operator: Operator,
        literal: &Expr,
        is_left: bool,
    ) -> Result<Option<Expr>> {
        match literal {
            Expr::Literal(value, _) if value.data_type().is_integer() => Ok(None),
            _ => self.0.simplify_expr_op_literal(function, argument, operator, literal, is_left),
        }
    }
}

/// A sum of integers.
#[derive(Debug)]
struct Wide {
    inner: Box<dyn Accumulator>,
    own: DataType,
}

impl Accumulator for Wide {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&[wide(&values[0])?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&narrow(&sum, &self.own)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&[wide(&values[0])?])
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// A sum of decimals.
#[derive(Debug)]
struct DecimalSum {
    sum: Option<i128>,
    own: DataType,
}

impl Accumulator for DecimalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let more = sum_checked(values[0].as_primitive::<Decimal128Type>()).map_err(overflow)?;
        let sum = match (self.sum, more) {
            (Some(sum), Some(more)) => {
                let sum = sum.checked_add(more);
                Some(sum.ok_or_else(|| overflow(format!("the sum of {} values", self.own)))?)
            }
            (sum, more) => sum.or(more),
        };
        self.sum = sum;
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = ScalarValue::new_primitive::<Decimal128Type>(self.sum, &self.own)?;
        within_digits(&sum.to_array()?)?;
        Ok(sum)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// Whether decimals have no more digits than their type.
fn within_digits(sums: &ArrayRef) -> Result<()> {
    let sums = sums.as_primitive::<Decimal128Type>();
    sums.validate_decimal_precision(sums.precision()).map_err(overflow)
}

/// Sums of decimals in groups.
struct DecimalSums {
    inner: Box<dyn GroupsAccumulator>,
    /// One does not fit.
    is_over: Arc<AtomicBool>,
}

impl DecimalSums {
    fn new(own: DataType) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let add = move |sum: &mut i128, more: i128| match sum.checked_add(more) {
            Some(added) => *sum = added,
            None => over.store(true, Ordering::Relaxed),
        };
        Self { inner: Box::new(PrimitiveGroupsAccumulator::<Decimal128Type, _>::new(&own, add)), is_over }
    }

    fn looked_at(&self, sums: &[ArrayRef]) -> Result<()> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(overflow("a sum of decimals"));
        }
        sums.iter().try_for_each(within_digits)
    }
}

impl GroupsAccumulator for DecimalSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, filter, group_count)
    }

    fn evaluate(&mut self, emitted: EmitTo) -> Result<ArrayRef> {
        let sums = self.inner.evaluate(emitted)?;
        self.looked_at(std::slice::from_ref(&sums))?;
        Ok(sums)
    }

    fn state(&mut self, emitted: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = self.inner.state(emitted)?;
        self.looked_at(&sums)?;
        Ok(sums)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, group_count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// Sums of integers in groups.
struct WideGroups {
    inner: Box<dyn GroupsAccumulator>,
    own: DataType,
}

impl GroupsAccumulator for WideGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.inner.update_batch(&[wide(&values[0])?], groups, filter, group_count)
    }

    fn evaluate(&mut self, emitted: EmitTo) -> Result<ArrayRef> {
        narrow(&self.inner.evaluate(emitted)?, &self.own)
    }

    fn state(&mut self, emitted: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emitted)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, group_count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&[wide(&values[0])?], filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
